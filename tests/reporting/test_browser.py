"""The page in headless Chromium: its numbers, its controls, and that nothing goes wrong."""

import numpy as np
import pytest

import stopwise as sw
from reporting import chromium
from reporting.worlds import page_of, walks
from stopwise.metrics import average_cost, sat_curve, summarize

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.find() is None, reason="needs Chromium"),
]

HOSTILE = [
    "</script><script>window.broken = 1</script>",
    "\"><img src=x onerror='window.broken=1'>",
    "a 'b' & <i>c",
]
PRIOR = np.array([0.2, 0.3, 0.5])
LOSS = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [0.5, 4.0, 0.0]])

READ = """(() => {
  const value = (one) => Number(one.dataset.value);
  const rows = (id) => [...document.querySelectorAll(`#${id} tbody tr`)];
  return {
    numbers: Object.fromEntries(["error", "macro", "time", "share", "forced", "cost"].map(
      (key) => [key, value(document.getElementById(`now-${key}`))])),
    confusion: rows("confusion").map((row) => [...row.querySelectorAll("button")].map(value)),
    classes: rows("classes").map((row) => [...row.querySelectorAll("td.number")].map(value)),
    threshold: document.getElementById("threshold").getAttribute("aria-valuetext"),
    now: document.getElementById("now").textContent,
    wrongText: document.getElementById("now-error").textContent,
  };
})()"""


@pytest.fixture(scope="module")
def browser():
    started = chromium.Chromium()
    yield started
    started.close()


@pytest.fixture(scope="module")
def world():
    return walks(500, 20)


@pytest.fixture
def opened(browser, world, tmp_path):
    """Return a function that opens a page with a rule; at the end there must be no problems."""

    def open_page(rule, data=world, prior=PRIOR, width=1300, dark=False, **options):
        path = tmp_path / "page.html"
        path.write_text(page_of(rule, *data, prior, **options), encoding="utf-8")
        browser.open(path, width, dark=dark)
        return browser

    yield open_page
    assert browser.problems() == []


def move(browser, position):
    browser.run(
        f"(() => {{ const one = document.getElementById('threshold'); one.value = {position}; "
        "one.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )
    return browser.run(READ)


def check(shown, decisions, y, classes, cost, loss):
    expected = summarize(decisions, y, classes)
    counts = np.zeros((classes, classes), dtype=int)
    np.add.at(counts, (y, decisions.labels), 1)
    assert shown["confusion"] == counts.tolist()
    found = shown["numbers"]
    assert found["error"] == pytest.approx(1 - expected["accuracy"], abs=1e-12)
    assert found["macro"] == pytest.approx(expected["macro_error"], abs=1e-12)
    assert found["time"] == pytest.approx(expected["mean_time"], abs=1e-12)
    assert found["share"] == pytest.approx(expected["earliness"], abs=1e-12)
    assert found["forced"] == pytest.approx(expected["forced"], abs=1e-12)
    assert found["cost"] == pytest.approx(average_cost(decisions, y, cost=cost, loss=loss), abs=1e-12)
    times = [decisions.times[y == k].mean() for k in range(classes)]
    by_class = np.column_stack([np.bincount(y, minlength=classes), expected["class_error"], times])
    np.testing.assert_allclose(shown["classes"], by_class, atol=1e-12)
    assert shown["wrongText"] == f"{100 * found['error']:.2f} %"


def thresholds_of(browser):
    found = browser.run("JSON.parse(document.getElementById('data').textContent).thresholds")
    return [np.inf if value is None else value for value in found]


def test_numbers_equal_the_metrics_at_ten_positions(opened, world):
    scores, y, lengths = world
    browser = opened(sw.SPRT(2.0), loss=LOSS)
    thresholds = thresholds_of(browser)
    for position in np.linspace(0, len(thresholds) - 1, 10).round().astype(int):
        rule = sw.SPRT(thresholds[position]).with_prior(PRIOR)
        shown = move(browser, position)
        check(shown, rule.decide(scores, lengths), y, 3, 0.02, LOSS)
    assert shown["threshold"] == "threshold ∞ (wait for the end)"


def test_with_equal_priors_the_numbers_are_those_of_the_curve(opened, world):
    browser = opened(sw.SPRT(2.0), prior=np.full(3, 1 / 3))
    curve, thresholds = sat_curve(*world), thresholds_of(browser)
    for position in np.linspace(0, len(thresholds) - 1, 10).round().astype(int):
        found, point = move(browser, position)["numbers"], curve.at_threshold(thresholds[position])
        assert (found["macro"], found["time"]) == pytest.approx((point.error, point.mean_time), abs=1e-12)
        assert found["forced"] == pytest.approx(point.forced, abs=1e-12)


def test_the_drawn_curve_goes_through_these_points(opened, world):
    browser = opened(sw.SPRT(2.0), prior=np.full(3, 1 / 3))
    browser.run(
        "(() => { const one = document.getElementById('error-kind'); one.value = 'macro'; "
        "one.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )
    drawn = browser.run("document.querySelector('#curve path.line.right').getAttribute('d')")
    points = np.array([part.split() for part in drawn[1:].split("L")], dtype=float)  # (P, 2) in pixels
    curve = sat_curve(*world).at_threshold(np.array(thresholds_of(browser)))
    assert len(points) == len(curve.error)
    for pixels, values in ((points[:, 0], curve.mean_time), (points[:, 1], curve.error)):
        slope, offset = np.polyfit(values, pixels, 1)
        assert np.abs(slope * values + offset - pixels).max() < 0.11  # rounded to tenths


@pytest.mark.parametrize(
    "rule",
    [
        sw.SPRT(2.345678901),
        sw.SPRT([1.0, 2.0, 3.0]),
        sw.FixedTime(4),
        sw.rules.SlopedProbability(1.0, -3.0, 20),
        sw.rules.MaxProbability(0.8, prior=[0.5, 0.3, 0.2]),
    ],
)
def test_the_page_opens_with_the_rule_in_use(opened, world, rule):
    scores, y, lengths = world
    browser = opened(rule, loss=LOSS)
    decisions = rule.with_prior(PRIOR).decide(scores, lengths)
    check(browser.run(READ), decisions, y, 3, 0.02, LOSS)
    move(browser, 0)
    browser.run("document.getElementById('reset').click()")
    check(browser.run(READ), decisions, y, 3, 0.02, LOSS)
    assert browser.run("document.getElementById('reset').disabled")
    assert browser.run("document.querySelectorAll('#examples article').length") == 6


def test_the_cost_can_be_changed(opened, world):
    scores, y, lengths = world
    browser = opened(sw.SPRT(2.0))
    browser.run(
        "(() => { const one = document.getElementById('cost'); one.value = '0.5'; "
        "one.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )
    decisions = sw.SPRT(2.0).with_prior(PRIOR).decide(scores, lengths)
    found = browser.run(READ)["numbers"]["cost"]
    assert found == pytest.approx(average_cost(decisions, y, cost=0.5), abs=1e-12)


def test_hostile_names_are_text(opened):
    browser = opened(sw.SPRT(2.0), names=HOSTILE)
    assert browser.run("window.broken === undefined")
    names = browser.run("[...document.querySelectorAll('#classes tbody th')].map((one) => one.textContent)")
    assert names == HOSTILE
    heads = browser.run("[...document.querySelectorAll('#confusion thead th.name')].map((one) => one.title)")
    assert heads == HOSTILE
    assert browser.run("document.querySelectorAll('img, i, script').length") == 2  # the two of the page


def test_a_click_on_a_confusion_filters_the_examples(opened, world):
    scores, y, lengths = world
    browser = opened(sw.SPRT(2.0))
    decisions = sw.SPRT(2.0).with_prior(PRIOR).decide(scores, lengths)
    assert ((y == 0) & (decisions.labels == 2)).any()
    browser.run("document.querySelectorAll('#confusion tbody tr')[0].querySelectorAll('button')[2].click()")
    titles = browser.run("[...document.querySelectorAll('#examples h3')].map((one) => one.textContent)")
    assert titles
    assert set(titles) == {"✗ class 0 taken for class 2"}
    assert browser.run("document.activeElement.id") == "by-true"
    rows = browser.run("[...document.querySelectorAll('#examples .hint')].map((one) => one.textContent)")
    for text in rows:
        row = int(text.split()[1].rstrip(","))
        kind = "forced at the end, step" if decisions.forced[row] else "decided at step"
        assert text == f"Series {row}, {kind} {decisions.times[row]} of {lengths[row]}"
        assert (y[row], decisions.labels[row]) == (0, 2)


def test_examples_by_result_and_time(opened, world):
    browser = opened(sw.SPRT(2.0))
    choose = (
        "(() => {{ const one = document.getElementById('{}'); one.value = '{}'; "
        "one.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"
    )
    step = "Number(/step (\\d+)/.exec(one.textContent)[1])"
    times = f"[...document.querySelectorAll('#examples .hint')].map((one) => {step})"
    browser.run(choose.format("by-result", "right"))
    browser.run(choose.format("by-time", "early"))
    assert browser.run("document.querySelectorAll('#examples .bad').length") == 0
    first = browser.run(times)
    assert first == sorted(first)
    browser.run("document.getElementById('next').click()")
    assert browser.run(times)[0] >= first[-1]
    browser.run(choose.format("by-time", "late"))
    last = browser.run(times)
    assert last == sorted(last, reverse=True)
    browser.run(choose.format("by-result", "wrong"))
    assert browser.run("document.querySelectorAll('#examples article:not(.bad)').length") == 0
    browser.run(choose.format("view", "probability"))
    assert "bound is one on the evidence" in browser.run("document.getElementById('bound-hint').textContent")


def test_the_stop_is_where_the_lead_reaches_the_bound(opened):
    browser = opened(sw.SPRT(2.0))
    places = browser.run("""[...document.querySelectorAll('#examples article')].map((card) => {
      const stop = card.querySelector('.stop');
      const bound = card.querySelector('.bound').getAttribute('d').slice(1).split('L')[0].split(' ')[1];
      return [Number(stop.getAttribute('cy')), Number(bound), stop.classList.contains('forced')];
    })""")
    assert len(places) == 6
    assert all(forced or stop <= bound + 0.1 for stop, bound, forced in places)


def test_keyboard_and_screen_reader(opened):
    browser = opened(sw.SPRT(2.0))
    browser.run("document.getElementById('threshold').focus()")
    start = int(browser.run("document.getElementById('threshold').value"))
    browser.press("ArrowRight")
    assert int(browser.run("document.getElementById('threshold').value")) == start + 1
    browser.press("Home")
    assert browser.run("document.getElementById('threshold').getAttribute('aria-valuetext')") == "threshold 0"
    spoken = browser.run(
        "new Promise((done) => setTimeout(() => done(document.getElementById('spoken').textContent), 700))"
    )
    assert spoken.startswith("threshold 0: ")
    unnamed = browser.run("""(() => {
      const all = (what) => [...document.querySelectorAll(what)];
      const ids = all('[id]').map((one) => one.id);
      return [
        ...all('input, select').filter((one) => !one.labels.length),
        ...all('svg').filter((one) => !one.querySelector('title') || !one.querySelector('desc')),
        ...all('th').filter((one) => !one.scope),
        ...all('button').filter((one) => !(one.ariaLabel || one.textContent.trim())),
        ...all('[id]').filter((one, i) => ids.indexOf(one.id) !== i),
      ].map((one) => one.outerHTML.slice(0, 80));
    })()""")
    assert unnamed == []


@pytest.mark.parametrize("dark", [False, True])
def test_phone_width(opened, dark):
    browser = opened(sw.SPRT(2.0), names=["a long name of a class " * 3, "b", "c"], width=390, dark=dark)
    assert browser.run("document.documentElement.scrollWidth") == 390
    ground = browser.run("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == ("rgb(18, 24, 31)" if dark else "rgb(255, 255, 255)")


def test_many_classes_get_a_list_of_confusions(opened):
    world = walks(400, 10, 30)
    browser = opened(sw.SPRT(1.0), data=world, prior=np.full(30, 1 / 30))
    scores, y, lengths = world
    labels = sw.SPRT(1.0).decide(scores, lengths).labels
    counts = np.zeros((30, 30), dtype=int)
    np.add.at(counts, (y, labels), 1)
    np.fill_diagonal(counts, 0)
    shown = browser.run(
        "[...document.querySelectorAll('#confusion button')].map((one) => Number(one.textContent))"
    )
    assert shown == np.sort(counts.ravel())[::-1][:40].tolist()


def test_the_frame_of_a_notebook(browser, tmp_path):
    X, y, _ = sw.datasets.gaussian(200, offset=1.0, channels=2, length=8, seed=0)
    clf = sw.EarlyClassifier(sw.models.Prefix(kernels=16), progress=False).fit(X[:100], y[:100])
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><body>{sw.report(clf, X[100:], y[100:])._repr_html_()}</body>")
    browser.open(path)
    assert browser.problems() == []
    assert browser.run("document.querySelector('iframe').contentDocument") is None  # it is sandboxed


@pytest.mark.filterwarnings("default")
def test_ten_thousand_series(opened, capsys):
    world = walks(10_000, 100, 15, drift=0.3, equal=True)
    browser = opened(sw.SPRT(4.0), data=world, prior=np.full(15, 1 / 15))
    scores, y, lengths = world
    thresholds = thresholds_of(browser)
    shown = move(browser, 100)
    check(shown, sw.SPRT(thresholds[100]).decide(scores, lengths), y, 15, 0.02, 1.0)
    times = browser.run("""(() => {
      const one = document.getElementById('threshold'), times = [];
      for (let position = 20; position < 60; position++) {
        const start = performance.now();
        one.value = position;
        one.dispatchEvent(new Event('input', { bubbles: true }));
        document.body.getBoundingClientRect(); // with layout
        times.push(performance.now() - start);
      }
      return times.sort((a, b) => a - b);
    })()""")
    size = browser.run("document.documentElement.outerHTML.length")
    with capsys.disabled():
        print(f"\n10 000 series: {size / 1e6:.1f} MB, a move of the slider takes {times[20]:.0f} ms (median)")
    assert size < 6_000_000
