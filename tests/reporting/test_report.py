"""`sw.report`: the object, the page around the numbers, and errors."""

import html
import json
import re

import numpy as np
import pytest

import stopwise as sw
from helpers import early
from reporting.worlds import page_of, walks
from stopwise.decision import Decisions
from stopwise.metrics import error_rates
from stopwise.persistence.description import scoring_digest
from stopwise.reporting.content import _same_step
from stopwise.reporting.summary import tiles

HOSTILE = ["</script><script>alert(1)</script>", "\"quotes' & <b>", "{{data}}"]


def data_of(page):
    """Return the numbers embedded in a page."""
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page).group(1))


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = sw.datasets.gaussian(400, offset=1.0, channels=2, length=8, seed=0)
    names = np.array(["left", "right"])[y]
    return early("auto").fit(X[:100], names[:100]), X, names


def test_report_in_a_file_and_in_a_notebook(fitted, tmp_path):
    clf, X, y = fitted
    report = sw.report(clf, X[100:], y[100:], title="A & B")
    assert report.save(tmp_path / "report.html").read_text(encoding="utf-8") == report.html
    assert report.html.startswith("<!doctype html>")
    assert "<title>A &amp; B</title>" in report.html
    assert repr(report) == f"Report({len(report.html.encode()) / 1e6:.1f} MB)"
    shown = report._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"')
    assert html.unescape(re.search(r'srcdoc="(.*?)"', shown, re.DOTALL).group(1)) == report.html


def test_the_name_stays_a_function(fitted):
    import stopwise.reporting

    assert callable(sw.report)
    assert sw.report is stopwise.reporting.report


def test_content_of_a_fitted_classifier(fitted):
    clf, X, y = fitted
    page = sw.report(clf, X[100:], y[100:], cost=0.5, loss={("left", "right"): 2, ("right", "left"): 3}).html
    data = data_of(page)
    assert data["classes"] == ["left", "right"]
    assert (data["cost"], data["loss"]) == (0.5, [[0, 2], [3, 0]])
    compared = data["training"]["tried"][0]
    assert [row[0] for row in compared["rows"]] == ["prefix", "accumulator"]
    assert [row[1] for row in compared["rows"]] == [one["loss"] for one in clf.model_.report_["tried"]]
    origin = dict(data["origin"])
    assert origin["Series in this report"] == "300 of 8 steps, 2 channels"
    assert origin["Model digest (SHA-256)"] == scoring_digest(clf)
    assert f"stopwise {sw.__version__}" in origin["Versions"]
    wrong = int((clf.decide(X[100:]).labels != y[100:]).sum())
    assert f"Of 300 series, {300 - wrong} are decided correctly and {wrong} wrongly" in page
    assert "No error rate is promised." in page
    assert "were used in training" not in page


def test_histories_of_a_network():
    X, y, _ = sw.datasets.gaussian(300, offset=1.0, channels=2, length=8, seed=0)
    clf = early(order="auto", max_epochs=2).fit(X[:100], y[:100])
    training = data_of(sw.report(clf, X[100:], y[100:]).html)["training"]
    assert [one["epoch"] for one in training["histories"][0]["records"]] == [1, 2]
    assert training["tried"][0]["title"] == "accumulator: search for the order"


class Means(sw.models.Model):
    """A custom model that reports nothing and cannot be saved."""

    def fit(self, examples, validation=None, **options):
        x, _ = examples.read(np.arange(len(examples)))
        self.classes_count_, self.channels_, self.report_ = examples.classes, examples.channels, {}
        self.means_ = np.stack([x[examples.y == k].mean((0, 1)) for k in range(examples.classes)])
        return self

    def scores(self, x):
        return (x @ self.means_.T - (self.means_**2).sum(1) / 2).cumsum(1)


def test_a_custom_model(fitted):
    _, X, y = fitted
    data = data_of(sw.report(sw.EarlyClassifier(Means()).fit(X[:100], y[:100]), X[100:], y[100:]).html)
    assert data["training"] == {"histories": [], "tried": [], "facts": []}
    assert dict(data["origin"])["Model digest (SHA-256)"] == "none, because this model cannot be saved"


def test_the_prices_of_the_rule(fitted):
    clf, X, y = fitted
    assert data_of(sw.report(clf, X[100:], y[100:]).html)["cost"] == 1 / 8
    rule = clf.rule_
    try:
        clf.fit_rule(X[100:250], y[100:250], cost=0.03, loss={("left", "right"): 5, ("right", "left"): 1})
        data = data_of(sw.report(clf, X[250:], y[250:]).html)
    finally:
        clf.rule_ = rule
    assert (data["cost"], data["loss"]) == (0.03, [[0, 5], [1, 0]])


def test_training_series_are_pointed_out(fitted):
    clf, X, y = fitted
    assert "Caution: 100 of these 150 series were used in training." in sw.report(clf, X[:150], y[:150]).html


def test_a_guarantee_is_compared():
    X, y, _ = sw.datasets.gaussian(600, offset=1.5, channels=3, length=8, seed=0)
    clf = early(order=0, max_epochs=3).fit(X[:100], y[:100]).calibrate(X[100:300], y[100:300], error_rate=0.1)
    page = sw.report(clf, X[300:], y[300:]).html
    wrong = (clf.predict(X[300:]) != y[300:]).mean()
    assert html.escape(f"Promised: {clf.rule_.guarantee}") in page
    assert f"Observed here: {100 * wrong:.2f} % of all series decided wrongly; within the promise." in page
    data = data_of(page)
    assert data["thresholds"][data["rule"]["position"]] == clf.rule_.threshold


def test_hostile_names_stay_text(tmp_path):
    scores, y, lengths = walks()
    page = page_of(sw.SPRT(2.0), scores, y, lengths, np.ones(3) / 3, names=HOSTILE)
    assert data_of(page)["classes"] == HOSTILE
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<b>" not in page


def test_halves_of_character_pairs_can_be_saved(tmp_path):
    path = sw.Report("<p>\ud800</p>").save(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == "<p>&#55296;</p>"


def test_nothing_remote():
    scores, y, lengths = walks()
    page = page_of(sw.SPRT(2.0), scores, y, lengths, np.ones(3) / 3)
    addresses = set(re.findall(r"\w+://[^\s\"'<)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of the SVG elements, not an address to open
    assert "default-src 'none'" in page


def test_small_for_ten_thousand_series():
    scores, y, lengths = walks(10_000, 100, 5, drift=1.0, equal=True)
    page = page_of(sw.SPRT(4.0), scores, y, lengths, np.full(5, 0.2))
    assert len(page) < 5_000_000


def test_deciding_at_the_same_step_equals_the_rule():
    scores, y, lengths = walks()
    prior = np.array([0.2, 0.3, 0.5])
    found = _same_step(scores, y, lengths, prior)
    for i in range(20):
        decisions = sw.FixedTime(i + 1).with_prior(prior).decide(scores, lengths)
        assert found["time"][i] == decisions.times.mean()
        assert found["macro"][i] == error_rates(decisions.labels, y, 3)[0]
        assert found["error"][i] == (decisions.labels != y).mean()


def test_ties_are_rounded_as_on_the_page():
    n = 400
    labels = np.zeros(n, dtype=int)
    labels[0] = 1  # 0.25 %
    decided = Decisions(labels, np.ones(n), np.zeros(n, dtype=bool), np.zeros((n, 2)), np.ones(n, dtype=int))
    assert tiles(decided, np.zeros(n, dtype=int), 2, None)[0].value == "0.3 %"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": ["up"] * 300}, "`y` has labels that were not in training: 'up'"),
        ({"y": ["left"] * 3}, "`y` must have one label per series: 300; got 3."),
        ({"cost": -1.0}, r"`cost` must be in \[0, inf\); got -1."),
        ({"loss": {("left", "right"): 1}}, r"missing: \('right', 'left'\)"),
        ({"loss": 0.0}, "`loss` must be in"),
        ({"title": 3}, "`title` must be a text; got 3."),
        ({"clf": "model"}, "`clf` must be a fitted EarlyClassifier; got str."),
    ],
)
def test_invalid_arguments(fitted, change, message):
    clf, X, y = fitted
    arguments = {"clf": clf, "X": X[100:], "y": y[100:]} | change
    with pytest.raises((ValueError, TypeError), match=message):
        sw.report(**arguments)
