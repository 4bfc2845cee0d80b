import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest

import stopwise as sw
from stopwise import plots
from stopwise.datasets import gaussian
from stopwise.metrics import llr_error, sat_curve
from stopwise.plots import style

_, Y, TRUTH = gaussian(n=60, offset=1.0, dim=3, classes=3, length=20, seed=0)
ESTIMATES = {"saturating": 5 * np.tanh(TRUTH / 5), "half": 0.5 * TRUTH, "right": TRUTH + 0.1}
CURVES = {name: sat_curve(scores, Y) for name, scores in ESTIMATES.items()}


def ragged(scores):
    """Return a copy whose series i ends, in NaN, after 20 - i % 10 steps."""
    cut = scores.copy()
    for i, series in enumerate(cut):
        series[20 - i % 10 :] = np.nan
    return cut


def texts(figure_or_panel):
    return [text.get_text() for text in figure_or_panel.findobj(match=lambda a: hasattr(a, "get_text"))]


def lines(panel, colour=None):
    """Return the drawn lines of more than two points, of one colour if given."""
    return [one for one in panel.lines if len(one.get_xdata()) > 2 and colour in (None, one.get_color())]


LEVELS = [0.05, 0.1, 0.2]
RATES = {
    "textbook": [0.1, 0.2, 0.3],
    "calibrated": [[0.04, 0.08, 0.17], [0.05, 0.09, 0.19], [0.03, 0.1, 0.18]],
}
ALL = {
    "trajectories": lambda: plots.llr_trajectories(ESTIMATES, TRUTH, Y, thresholds=3.0, title="A title"),
    "scatter": lambda: plots.llr_scatter(ESTIMATES, TRUTH, title="A title"),
    "sat": lambda: plots.sat_curves(CURVES, sat_curve(TRUTH, Y), title="A title"),
    "bars": lambda: plots.llr_error_bars(
        {"a": 3.0, "b": [1.0, 2.0]}, limit=0.5, trivial=4.0, title="A title"
    ),
    "promises": lambda: plots.promises(LEVELS, {"one": RATES, "two": RATES}, title="A title"),
}


@pytest.mark.parametrize("draw", ALL.values(), ids=ALL)
def test_saved_pictures_are_whole_and_the_same_every_time(tmp_path, draw):
    png, svg = plots.save(draw(), tmp_path / "picture_a=2.0")
    assert (png.name, svg.name) == ("picture_a=2.0.png", "picture_a=2.0.svg")
    pixels = matplotlib.image.imread(png)
    assert min(pixels.shape[:2]) > 200
    ink = (pixels[..., :3].min(axis=2) < 0.9).mean()
    assert 0.01 < ink < 0.6
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert "A title" in svg.read_text()
    again = plots.save(draw(), tmp_path / "again.png")
    assert [path.name for path in again] == ["again.png", "again.svg"]
    assert again[1].read_bytes() == svg.read_bytes()
    assert len(list(tmp_path.iterdir())) == 4


def test_inputs_are_not_changed():
    scores, truth, y = {"a": ragged(TRUTH)}, ragged(TRUTH), Y.copy()
    kept = truth.copy()
    plots.llr_trajectories(scores, truth, y)
    plots.llr_scatter(scores, truth)
    np.testing.assert_array_equal(truth, kept)
    np.testing.assert_array_equal(scores["a"], kept)
    np.testing.assert_array_equal(y, Y)


def test_trajectories_show_the_llr_of_the_pair():
    figure = plots.llr_trajectories(ESTIMATES, TRUTH, Y, pair=(2, 0), series=4, thresholds=[3.0, np.inf])
    assert [panel.get_title() for panel in figure.axes] == list(ESTIMATES)
    assert figure.axes[0].get_ylabel() == "LLR of class 2 over class 0 (nats)"
    assert len({panel.get_ylim() for panel in figure.axes}) == 1
    first_two = sorted([*np.flatnonzero(Y == 0)[:2], *np.flatnonzero(Y == 2)[:2]])
    for panel, scores in zip(figure.axes, ESTIMATES.values()):
        dashed = lines(panel, "black")
        drawn = [one for one in lines(panel) if one not in dashed]
        expected = {tuple(scores[i, :, 2] - scores[i, :, 0]) for i in first_two}
        assert {tuple(one.get_ydata()) for one in drawn} == expected
        truth = {tuple(TRUTH[i, :, 2] - TRUTH[i, :, 0]) for i in first_two}
        assert {tuple(one.get_ydata()) for one in dashed} == truth
        assert all(one.get_linestyle() == "--" for one in dashed)
        levels = {one.get_ydata()[0] for one in panel.lines if len(one.get_xdata()) == 2}
        assert levels == {0, 3.0, -3.0}
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["true class 0", "true class 2", "true LLR", "threshold"]


def test_trajectories_are_coloured_by_class():
    figure = plots.llr_trajectories({"a": TRUTH}, y=Y, series=range(10))
    colours = [one.get_color() for one in lines(figure.axes[0])]
    wanted = {0: style.COLOURS[1], 1: style.COLOURS[0], 2: style.QUIET}
    assert colours == [wanted[label] for label in Y[:10]]


def test_trajectories_end_with_the_series_and_need_no_labels():
    figure = plots.llr_trajectories({"a": ragged(TRUTH)}, series=[3, 9])
    ends = [np.isfinite(one.get_ydata()).sum() for one in lines(figure.axes[0])]
    assert ends == [17, 11]
    assert not figure.legends


def test_many_models_wrap_into_rows():
    figure = plots.llr_trajectories({f"m{i}": TRUTH for i in range(6)}, y=Y)
    assert len(figure.axes) == 6
    assert len({round(panel.get_subplotspec().rowspan.start) for panel in figure.axes}) == 2


def test_scatter_writes_the_slope_over_all_pairs():
    figure = plots.llr_scatter(ESTIMATES, TRUTH)
    assert [panel.get_title() for panel in figure.axes] == list(ESTIMATES)
    for panel, scores in zip(figure.axes, ESTIMATES.values()):
        assert f"slope {llr_error(scores, TRUTH).slope:.2f}" in texts(panel)
        assert panel.get_xlim() == panel.get_ylim() == figure.axes[0].get_xlim()
        (diagonal,) = panel.lines
        assert tuple(diagonal.get_xdata()) == tuple(diagonal.get_ydata())
    assert "slope 0.50" in texts(figure.axes[1])
    assert "slope 1.00" in texts(figure.axes[2])


def test_scatter_draws_a_seeded_sample_inside_the_series():
    counts = []
    for points in (10**9, 100):
        figure = plots.llr_scatter({"a": ragged(ESTIMATES["half"])}, ragged(TRUTH), points=points)
        (hexagons,) = figure.axes[0].collections
        counts.append(int(hexagons.get_array().sum()))
        assert "slope 0.50" in texts(figure.axes[0])
    steps = sum(20 - i % 10 for i in range(60))
    assert counts == [3 * steps, 100]


def test_scatter_points_lie_where_they_should():
    truth = np.zeros((1, 2, 2))
    truth[0, :, 1] = [4.0, -8.0]
    figure = plots.llr_scatter({"half": truth / 2}, truth)
    (hexagons,) = figure.axes[0].collections
    centres = sorted(hexagons.get_offsets().tolist())
    np.testing.assert_allclose(centres, [[-8, -4], [4, 2]], atol=0.5)


def test_sat_curves_in_percent_with_the_oracle_dashed():
    figure = plots.sat_curves(CURVES, sat_curve(TRUTH, Y), log=False)
    panel = figure.axes[0]
    by_name = {one.get_label(): one for one in panel.lines}
    assert set(by_name) == {*CURVES, "true LLR"}
    for name, curve in CURVES.items():
        line = by_name[name]
        assert line.get_drawstyle() == "steps-post"
        end = line.get_xdata()[-1]
        grid = np.linspace(1, end, 500)[:-1]
        drawn = line.get_ydata()[np.searchsorted(line.get_xdata(), grid, side="right") - 1]
        np.testing.assert_allclose(drawn, 100 * curve.at_time(grid), atol=1e-9)
    assert by_name["true LLR"].get_color() == "black"
    assert by_name["true LLR"].get_linestyle() == "--"
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("mean hitting time (steps)", "macro error (%)")


def curve(mean_time, error):
    return SimpleNamespace(mean_time=np.array(mean_time), error=np.array(error))


def test_sat_error_of_zero_stands_on_a_marked_floor():
    figure = plots.sat_curves({"a": curve([1.0, 2.0, 3.0], [0.3, 0.02, 0.0])})
    panel = figure.axes[0]
    assert panel.get_yscale() == "log"
    np.testing.assert_allclose(panel.lines[0].get_ydata(), [30, 2, 1, 1])
    np.testing.assert_allclose(panel.lines[1].get_ydata(), 1)
    assert "no error seen (0 %)" in texts(panel)
    assert panel.get_ylim()[0] < 1
    without = plots.sat_curves({"a": curve([1.0, 2.0], [0.3, 0.02])})
    assert "no error seen (0 %)" not in texts(without.axes[0])


def test_sat_axis_ends_where_waiting_gains_nothing_and_legend_runs_from_worst_to_best():
    figure = plots.sat_curves(
        {
            "best": curve([1.0, 5.0, 50.0], [0.2, 0.01, 0.01]),
            "worst": curve([1.0, 3.0, 50.0], [0.4, 0.3, 0.4]),
        }
    )
    assert figure.axes[0].get_xlim() == pytest.approx((1, 5.32))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["worst", "best"]


def test_sat_long_curves_are_thinned():
    time = np.linspace(1, 50, 100_000)
    figure = plots.sat_curves({"a": curve(time, 0.5 / time)})
    (line,) = figure.axes[0].lines
    assert 1000 < len(line.get_xdata()) <= 2001
    np.testing.assert_allclose(line.get_ydata()[:-1], 50 / line.get_xdata()[:-1])


def test_sat_of_single_points_and_perfect_models():
    plots.sat_curves({"a": curve([1.0], [0.0])}, curve([1.0], [0.0]))
    many = {f"m{i}": curve([1.0, 2.0], [0.4, 0.1 + 0.01 * i]) for i in range(9)}
    looks = [(one.get_color(), one.get_linestyle()) for one in plots.sat_curves(many).axes[0].lines]
    assert len(set(looks)) == 9


def test_bars_are_sorted_with_standard_errors_and_references():
    figure = plots.llr_error_bars({"b": [4.0, 6.0], "c": 88.0, "a": 1.234}, limit=1.0, trivial=102.0)
    panel = figure.axes[0]
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["a", "b", "c"]
    np.testing.assert_allclose([bar.get_width() for bar in panel.patches], [1.234, 5.0, 88.0])
    assert panel.yaxis_inverted()
    written = texts(panel)
    for wanted in ("1.23", "5.00 ± 1.00", "88.0", "statistical limit: 1", "predicting 0: 102"):
        assert wanted in written
    assert panel.get_xlim()[1] > 102
    whiskers = panel.containers[1].lines[2][0].get_segments()
    np.testing.assert_allclose(whiskers[1], [[4, 1], [6, 1]])
    assert panel.get_xlabel() == "mean absolute LLR error (nats)"


INFINITE = np.where(np.arange(60)[:, None, None] == 7, np.inf, TRUTH)
BAD = {
    "no models": (lambda: plots.llr_trajectories({}), "`estimates` must be a dict"),
    "no dict": (lambda: plots.llr_trajectories(TRUTH), "`estimates` must be a dict"),
    "flat": (
        lambda: plots.llr_trajectories({"a": TRUTH[0]}),
        r"`estimates\['a'\]` must have shape \(n, T, K\)",
    ),
    "shapes": (
        lambda: plots.llr_scatter({"a": TRUTH[:5]}, TRUTH),
        "`truth` must have the shape of the other",
    ),
    "infinite": (lambda: plots.llr_scatter({"a": INFINITE}, TRUTH), "it holds infinity"),
    "all NaN": (lambda: plots.llr_scatter({"a": TRUTH}, TRUTH * np.nan), "`truth` must hold finite scores"),
    "other ends": (
        lambda: plots.llr_scatter({"a": ragged(TRUTH)}, TRUTH),
        "'a' holds NaN before the end",
    ),
    "no truth": (lambda: plots.llr_scatter({"a": TRUTH}, None), "`truth` must be the exact scores"),
    "no points": (lambda: plots.llr_scatter({"a": TRUTH}, TRUTH, points=0), "`points` must be >= 1"),
    "same pair": (lambda: plots.llr_trajectories({"a": TRUTH}, pair=(1, 1)), "two different classes in"),
    "far pair": (
        lambda: plots.llr_trajectories({"a": TRUTH}, pair=(3, 0)),
        r"classes in \[0, 2\]; got \(3, 0\)",
    ),
    "triple": (lambda: plots.llr_trajectories({"a": TRUTH}, pair=(0, 1, 2)), "two different classes"),
    "labels": (lambda: plots.llr_trajectories({"a": TRUTH}, y=Y[:3]), r"`y` must have shape \(60,\)"),
    "series": (lambda: plots.llr_trajectories({"a": TRUTH}, series=[60]), r"`series` must be in \[0, 59\]"),
    "no series": (lambda: plots.llr_trajectories({"a": TRUTH}, series=0), "`series` must be >= 1"),
    "classes": (
        lambda: plots.llr_trajectories({"a": TRUTH}, y=Y * 0 + 2),
        "`y` holds no series of the classes",
    ),
    "threshold": (lambda: plots.llr_trajectories({"a": TRUTH}, thresholds=-1), "`thresholds` must be in"),
    "no curves": (lambda: plots.sat_curves({}), "`curves` must be a dict"),
    "no curve": (lambda: plots.sat_curves({"a": TRUTH}), "curve 'a' must have the arrays `mean_time` and"),
    "lengths": (lambda: plots.sat_curves({"a": curve([1.0, 2.0], [0.1])}), r"one shape \(P,\)"),
    "percent": (lambda: plots.sat_curves({"a": curve([1.0], [30.0])}), r"errors in \[0, 1\]"),
    "backwards": (lambda: plots.sat_curves({"a": curve([2.0, 1.0], [0.1, 0.1])}), "times that never fall"),
    "oracle": (
        lambda: plots.sat_curves({"a": curve([1.0], [0.3])}, 3),
        "curve 'oracle' must have the arrays",
    ),
    "name": (lambda: plots.sat_curves({"true LLR": CURVES["half"]}, CURVES["half"]), "kept for the oracle"),
    "no errors": (lambda: plots.llr_error_bars({}), "`errors` must be a dict"),
    "negative": (lambda: plots.llr_error_bars({"a": -1.0}), r"`errors\['a'\]` must be one or more finite"),
    "NaN": (lambda: plots.llr_error_bars({"a": [1.0, np.nan]}), r"`errors\['a'\]` must be"),
    "no runs": (lambda: plots.llr_error_bars({"a": []}), r"`errors\['a'\]` must be"),
    "limit": (lambda: plots.llr_error_bars({"a": 1.0}, limit=-1.0), "`limit` must be in"),
    "levels": (lambda: plots.promises([0.2, 0.1], {"one": RATES}), "two or more rising rates"),
    "no panels": (lambda: plots.promises(LEVELS, {}), "`panels` must be a dict"),
    "rates": (
        lambda: plots.promises([0.1, 0.2], {"a": RATES}),
        r"rates 'textbook' must have shape \(2,\) or",
    ),
    "shares": (lambda: plots.promises([0.1, 0.2], {"a": {"b": [3, 4]}}), r"rates 'b' must be in \[0, 1\]"),
}


def test_promises_are_drawn_as_they_are():
    figure = plots.promises(LEVELS, {"one": RATES})
    textbook, calibrated = lines(figure.axes[0])
    assert calibrated.get_xdata().tolist() == [5, 10, 20]
    assert np.allclose(textbook.get_ydata(), [10, 20, 30])
    assert np.allclose(calibrated.get_ydata(), [4, 9, 18])  # the medians of the draws


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD)
def test_bad_calls(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_saving_into_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        plots.save(plots.llr_error_bars({"a": 1.0}), tmp_path / "nowhere" / "a")


def test_lines_of_rules_are_where_they_stop():
    threshold = np.array([3.0, 2.0, 0.5])
    lower, upper = plots.stopping_lines(sw.SPRT(threshold, per_step=True), steps=3, reach=10.0)
    assert upper == pytest.approx(threshold, abs=0.02)
    assert lower == pytest.approx(-threshold, abs=0.02)
    lower, upper = plots.stopping_lines(sw.SPRT.wald(0.01, 0.2), steps=2, reach=10.0)
    assert upper == pytest.approx([np.log(80)] * 2, abs=0.02)
    assert lower == pytest.approx([-np.log(4.95)] * 2, abs=0.02)
    lower, upper = plots.stopping_lines(sw.FixedTime(2), steps=3)
    assert np.isnan([lower[0], upper[0]]).all()
    assert lower[1:] == pytest.approx(0, abs=0.03)


def test_boundaries_draws_both_lines_of_each_rule_and_the_series():
    scores = np.random.default_rng(0).normal(size=(5, 9, 2)).cumsum(1)
    scores[0, 6:] = np.nan
    rules = {"constant": sw.SPRT(2.0), "tapering": sw.Tapering(4.0, horizon=9)}
    panel = plots.boundaries(rules, scores, np.array([0, 1, 0, 1, 1]), series=3).axes[0]
    drawn = [line.get_ydata() for line in panel.get_lines()]
    assert len(drawn) == 1 + 3 + 2 * 2  # zero, series, lines
    assert drawn[1] == pytest.approx(scores[0, :6, 1] - scores[0, :6, 0])
    assert panel.get_ylim()[1] == pytest.approx(1.2 * 4.0 * 8 / 9, abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rules": {}}, "`rules` must be a dict"),
        ({"rules": {"one": sw.SPRT(2.0)}}, "`steps` is None and so are `scores`"),
        ({"rules": {"one": sw.SPRT(2.0)}, "scores": np.zeros((4, 5, 3))}, "must be of 2 classes.*got 3"),
    ],
)
def test_boundaries_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.boundaries(**arguments)
