from types import SimpleNamespace

import numpy as np
import pytest

import stopwise as sw
from stopwise import plots
from stopwise.metrics import sat_curve, summarize


def curve(mean_time, error):
    return SimpleNamespace(mean_time=np.array(mean_time), error=np.array(error))


def test_curves_are_drawn_in_percent_with_the_oracle_dashed(estimates, truth, y):
    curves = {name: sat_curve(scores, y) for name, scores in estimates.items()}
    figure = plots.sat_curves(curves, sat_curve(truth, y), log=False)
    panel = figure.axes[0]
    by_name = {one.get_label(): one for one in panel.lines}
    assert set(by_name) == {*curves, "true LLR"}
    for name, exact in curves.items():
        line = by_name[name]
        assert line.get_drawstyle() == "steps-post"
        end = line.get_xdata()[-1]
        grid = np.linspace(1, end, 500)[:-1]
        drawn = line.get_ydata()[np.searchsorted(line.get_xdata(), grid, side="right") - 1]
        np.testing.assert_allclose(drawn, 100 * exact.at_time(grid), atol=1e-9)
    assert by_name["true LLR"].get_color() == "black"
    assert by_name["true LLR"].get_linestyle() == "--"
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("mean hitting time (steps)", "macro error (%)")


def test_an_error_of_zero_is_shown_on_a_labeled_line(texts):
    figure = plots.sat_curves({"a": curve([1.0, 2.0, 3.0], [0.3, 0.02, 0.0])})
    panel = figure.axes[0]
    assert panel.get_yscale() == "log"
    np.testing.assert_allclose(panel.lines[0].get_ydata(), [30, 2, 1, 1])
    np.testing.assert_allclose(panel.lines[1].get_ydata(), 1)
    assert "no errors (0 %)" in texts(panel)
    assert panel.get_ylim()[0] < 1
    without = plots.sat_curves({"a": curve([1.0, 2.0], [0.3, 0.02])})
    assert "no errors (0 %)" not in texts(without.axes[0])


def test_time_axis_can_end_after_the_minimal_error_and_legend_lists_worst_first(texts):
    figure = plots.sat_curves(
        {
            "best": curve([1.0, 5.0, 50.0], [0.2, 0.01, 0.01]),
            "worst": curve([1.0, 3.0, 50.0], [0.4, 0.3, 0.4]),
        },
        end="auto",
    )
    assert figure.axes[0].get_xlim() == pytest.approx((1, 5.32))
    assert "cut at 5.32 of 50 steps" in texts(figure)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["worst", "best"]


def test_the_whole_range_is_drawn_unless_an_end_is_given(texts):
    curves = {"a": curve([1.0, 5.0, 50.0], [0.2, 0.01, 0.02]), "b": curve([1.0, 30.0], [0.4, 0.3])}
    figure = plots.sat_curves(curves)
    assert figure.axes[0].get_xlim() == (1, 50)
    assert not any("cut" in text for text in texts(figure))
    figure = plots.sat_curves(curves, end=20)
    assert figure.axes[0].get_xlim() == (1, 20)
    assert "cut at 20 of 50 steps" in texts(figure)
    assert plots.sat_curves(curves, end=80).axes[0].get_xlim() == (1, 50)


def test_the_operating_point_of_a_rule_has_the_color_of_its_curve(truth, y):
    rule = sw.SPRT(3.0)
    exact, decisions = sat_curve(truth, y), rule.decide(truth)
    figure = plots.sat_curves(
        {"half": curve([1.0, 20.0], [0.5, 0.1]), "exact": exact},
        points={"exact": summarize(decisions, y, 3), "fixed": (15.0, 0.0)},
    )
    panel = figure.axes[0]
    (line,) = (one for one in panel.lines if one.get_label() == "exact")
    own, fixed = (one for one in panel.lines if one.get_marker() in ("o", "s"))
    expected = exact.at_threshold(3.0)
    assert own.get_xdata()[0] == pytest.approx(expected.mean_time)
    assert own.get_ydata()[0] == pytest.approx(100 * expected.error)
    assert own.get_color() == line.get_color() != fixed.get_color()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[-2:] == ["exact: rule in use", "fixed"]


def test_an_operating_point_is_never_cut():
    figure = plots.sat_curves(
        {"a": curve([1.0, 2.0, 50.0], [0.2, 0.1, 0.1])}, points={"a": (30, 0.1)}, end="auto"
    )
    assert 30 < figure.axes[0].get_xlim()[1] < 50


def test_long_curves_are_thinned():
    time = np.linspace(1, 50, 100_000)
    figure = plots.sat_curves({"a": curve(time, 0.5 / time)})
    (line,) = figure.axes[0].lines
    assert 1000 < len(line.get_xdata()) <= 2001
    np.testing.assert_allclose(line.get_ydata()[:-1], 50 / line.get_xdata()[:-1])


def test_curves_of_a_single_point_without_errors_can_be_drawn():
    figure = plots.sat_curves({"a": curve([1.0], [0.0])}, curve([1.0], [0.0]))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "true LLR"]


def test_nine_curves_have_nine_styles():
    curves = {f"m{i}": curve([1.0, 2.0], [0.4, 0.1 + 0.01 * i]) for i in range(9)}
    styles = [(one.get_color(), one.get_linestyle()) for one in plots.sat_curves(curves).axes[0].lines]
    assert len(set(styles)) == 9


BAD = {
    "no curves": (({},), "`curves` must be a dict"),
    "no curve": (({"a": np.zeros((5, 4, 3))},), "curve 'a' must have the arrays `mean_time` and"),
    "lengths": (({"a": curve([1.0, 2.0], [0.1])},), r"the same shape \(P,\)"),
    "percent": (({"a": curve([1.0], [30.0])},), r"finite `error` in \[0, 1\]"),
    "decreasing times": (({"a": curve([2.0, 1.0], [0.1, 0.1])},), "non-decreasing `mean_time`"),
    "oracle": (({"a": curve([1.0], [0.3])}, 3), "curve 'oracle' must have the arrays"),
    "point": (
        ({"a": curve([1.0], [0.3])}, None, {"points": {"a": 3}}),
        r"`points\['a'\]` must be \(mean time",
    ),
    "point error": (({"a": curve([1.0], [0.3])}, None, {"points": {"a": (3, 30)}}), r"must be in \[0, 1\]"),
    "end": (({"a": curve([1.0], [0.3])}, None, {"end": "soon"}), "`end` must be a mean hitting time, 'auto'"),
    "name": (({"true LLR": curve([1.0], [0.3])}, curve([1.0], [0.3])), "reserved for the oracle"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_invalid_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.sat_curves(*arguments[:2], **dict(*arguments[2:]))
