import numpy as np
import pytest

import stopwise as sw
from plots.given import SCORES, Given, X
from stopwise import plots
from stopwise.plots.story import tell


def test_leads_are_those_over_the_best_rival_and_the_threshold_is_that_of_the_rule():
    story = tell(Given(SCORES, sw.SPRT(3.5)), X, "sit")
    expected = [[s[k] - max(s[l] for l in range(3) if l != k) for k in range(3)] for s in SCORES]  # noqa: E741
    np.testing.assert_allclose(story.leads, expected)
    np.testing.assert_allclose(story.needed, 3.5)
    assert story.leading.tolist() == [1, 0, 0, 0, 0]
    assert (story.decision.label, story.decision.time, story.correct) == (0, 3, True)


RULES = {
    "SPRT": sw.SPRT(3.5),
    "by class": sw.SPRT([5.0, 3.0, 2.0]),
    "tapering": sw.Tapering(8.0, horizon=6),
    "probability": sw.MaxProbability(0.95),
    "sloped": sw.rules.SlopedProbability(2.0, -3.0, 5),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_leading_class_reaches_what_is_needed_at_the_decision_and_not_before(rule):
    clf = Given(SCORES, rule, prior=[0.2, 0.5, 0.3])
    story = tell(clf, X, None)
    reached = story.leads[np.arange(5), story.leading] >= story.needed - 1e-9
    expected = clf.rule_.with_prior(clf.prior_).decide([SCORES])[0]
    assert (story.decision.label, story.decision.time) == (expected.label, expected.time)
    assert int(np.argmax(reached)) + 1 == story.decision.time
    assert not story.decision.forced
    assert story.leading[story.decision.time - 1] == story.decision.label


@pytest.mark.parametrize("rule", [sw.FixedTime(2), sw.SPRT(np.inf)])
def test_rules_without_a_threshold_have_no_line(rule):
    story = tell(Given(SCORES, rule), X, None)
    assert np.isnan(story.needed).all()
    assert "evidence needed to decide" not in [
        t.get_text() for t in plots.decision(Given(SCORES, rule), X).axes[1].texts
    ]


def test_samples_after_the_decision_are_gray(texts):
    figure = plots.decision(Given(SCORES, sw.SPRT(3.5)), X, "walk")
    series, evidence = figure.axes
    unseen = [list(one.get_xdata()) for one in series.lines if one.get_color() == "0.83"]
    seen = [list(one.get_xdata()) for one in series.lines if one.get_marker() == "o"]
    assert (seen, unseen) == ([[1, 2, 3]] * 2, [[3, 4, 5]] * 2)
    assert "2 samples not needed" in texts(series)
    assert series.get_title(loc="left") == "Decided after 3 of 5 samples: sit (wrong, it is walk)"
    assert {"sit", "evidence needed to decide"} <= set(texts(evidence))


def test_before_the_decision_nothing_of_the_future_is_drawn(texts):
    figure = plots.decision(Given(SCORES, sw.SPRT(3.5)), X, "sit", step=1)
    for panel in figure.axes:
        lines = [one for one in panel.lines if one.get_linestyle() == "-" and len(one.get_xdata()) != 2]
        assert all(max(one.get_xdata()) == 1 for one in lines)
    assert figure.axes[0].get_title(loc="left") == "Sample 1 of 5: walk leads, not enough evidence yet"


def test_a_forced_decision_says_that_the_series_ended():
    figure = plots.decision(Given(SCORES, sw.SPRT(50.0)), X)
    assert figure.axes[0].get_title(loc="left") == "The series ended, decided after 5 samples: sit"


def test_series_of_one_sample_with_missing_values_and_many_channels_can_be_drawn():
    x = np.full((1, 40), np.nan)
    figure = plots.decision(Given(SCORES[:1], sw.SPRT(3.5)), x)
    assert figure.axes[0].get_ylabel() == "series\n(12 of 40 channels)"
    figure.canvas.draw()


def test_scores_of_a_real_classifier_with_channel_names_are_used():
    X, y, _ = sw.datasets.gaussian(n=60, offset=1.0, channels=2, length=6, seed=0)
    named = sw.SeriesSet(X, channel_names=["left", "right"])
    clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(named, y)
    story = tell(clf, X[3], y[3])
    assert story.decision.time == clf.decide(named)[3].time


def test_channels_of_different_ranges_are_scaled_and_named():
    clf = Given(SCORES, sw.SPRT(3.5))
    clf.channel_names_ = ("heart rate", "lactate $")
    values = [[1.0, 80], [1.2, 90], [np.nan, 85], [1.1, 70], [1.4, 60]]
    x = sw.SeriesSet([values], channel_names=["lactate $", "heart rate"])
    figure = plots.decision(clf, x)
    panel = figure.axes[0]
    assert panel.get_ylabel() == "series\n(2 channels,\nscaled)"
    np.testing.assert_allclose(panel.lines[0].get_ydata(), [20 / 30, 1, 25 / 30])
    np.testing.assert_allclose(panel.lines[2].get_ydata(), [0, 0.5, np.nan], atol=1e-6)
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["heart rate", r"lactate \$"]


BAD = {
    "two series": (lambda: (Given(SCORES, sw.SPRT(1.0)), sw.SeriesSet([X, X])), {}, "a SeriesSet of 2"),
    "not fitted": (lambda: (sw.EarlyClassifier(), X), {}, "`clf` must be a fitted EarlyClassifier"),
    "many series": (
        lambda: (Given(SCORES, sw.SPRT(1.0)), X[None]),
        {},
        r"one series, \(T, D\) or \(T,\); got shape",
    ),
    "label": (lambda: (Given(SCORES, sw.SPRT(1.0)), X, "run"), {}, "`y` must hold labels in `classes`"),
    "step": (lambda: (Given(SCORES, sw.SPRT(1.0)), X), {"step": 6}, r"`step` must be in \[1, 5\]; got 6"),
}


@pytest.mark.parametrize(("arguments", "options", "message"), BAD.values(), ids=BAD)
def test_invalid_arguments_raise(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        plots.decision(*arguments(), **options)
