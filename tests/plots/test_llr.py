import numpy as np
import pytest

from stopwise import plots
from stopwise.metrics import llr_error
from stopwise.plots import style


def unequal_lengths(scores):
    """Return a copy with NaN from step 20 - i % 10 of series i on."""
    cut = scores.copy()
    for i, series in enumerate(cut):
        series[20 - i % 10 :] = np.nan
    return cut


def test_inputs_are_not_changed(truth, y):
    cut = unequal_lengths(truth)
    scores, labels, copy = {"a": cut.copy()}, y.copy(), cut.copy()
    plots.llr_trajectories(scores, cut, labels)
    plots.llr_scatter(scores, cut)
    np.testing.assert_array_equal(cut, copy)
    np.testing.assert_array_equal(scores["a"], copy)
    np.testing.assert_array_equal(labels, y)


def test_trajectories_show_the_llr_of_the_pair(estimates, truth, y, lines):
    figure = plots.llr_trajectories(estimates, truth, y, pair=(2, 0), series=4, thresholds=[3.0, np.inf])
    assert [panel.get_title() for panel in figure.axes] == list(estimates)
    assert figure.axes[0].get_ylabel() == "LLR of class 2 over class 0 (nats)"
    assert len({panel.get_ylim() for panel in figure.axes}) == 1
    first_two = sorted([*np.flatnonzero(y == 0)[:2], *np.flatnonzero(y == 2)[:2]])
    for panel, scores in zip(figure.axes, estimates.values()):
        dashed = lines(panel, "black")
        drawn = [one for one in lines(panel) if one not in dashed]
        expected = {tuple(scores[i, :, 2] - scores[i, :, 0]) for i in first_two}
        assert {tuple(one.get_ydata()) for one in drawn} == expected
        exact = {tuple(truth[i, :, 2] - truth[i, :, 0]) for i in first_two}
        assert {tuple(one.get_ydata()) for one in dashed} == exact
        assert all(one.get_linestyle() == "--" for one in dashed)
        levels = {one.get_ydata()[0] for one in panel.lines if len(one.get_xdata()) == 2}
        assert levels == {0, 3.0, -3.0}
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["true class 0", "true class 2", "true LLR", "threshold"]


def test_trajectories_are_colored_by_class(truth, y, lines):
    figure = plots.llr_trajectories({"a": truth}, y=y, series=range(10))
    colors = [one.get_color() for one in lines(figure.axes[0])]
    expected = {0: style.COLORS[1], 1: style.COLORS[0], 2: style.GRAY}
    assert colors == [expected[label] for label in y[:10]]


def test_trajectories_without_labels_end_with_their_series(truth, lines):
    figure = plots.llr_trajectories({"a": unequal_lengths(truth)}, series=[3, 9])
    lengths = [np.isfinite(one.get_ydata()).sum() for one in lines(figure.axes[0])]
    assert lengths == [17, 11]
    assert not figure.legends


def test_more_than_five_models_use_two_rows(truth, y):
    figure = plots.llr_trajectories({f"m{i}": truth for i in range(6)}, y=y)
    assert len(figure.axes) == 6
    assert len({round(panel.get_subplotspec().rowspan.start) for panel in figure.axes}) == 2


def test_scatter_shows_the_slope_over_all_pairs(estimates, truth, texts):
    figure = plots.llr_scatter(estimates, truth)
    assert [panel.get_title() for panel in figure.axes] == list(estimates)
    for panel, scores in zip(figure.axes, estimates.values()):
        assert f"slope {llr_error(scores, truth).slope:.2f}" in texts(panel)
        assert panel.get_xlim() == panel.get_ylim() == figure.axes[0].get_xlim()
        (diagonal,) = panel.lines
        assert tuple(diagonal.get_xdata()) == tuple(diagonal.get_ydata())
    assert "slope 0.50" in texts(figure.axes[1])
    assert "slope 1.00" in texts(figure.axes[2])


def test_scatter_samples_at_most_the_given_number_of_points(estimates, truth, texts):
    counts = []
    for points in (10**9, 100):
        half, cut = unequal_lengths(estimates["half"]), unequal_lengths(truth)
        figure = plots.llr_scatter({"a": half}, cut, points=points)
        (hexagons,) = figure.axes[0].collections
        counts.append(int(hexagons.get_array().sum()))
        assert "slope 0.50" in texts(figure.axes[0])
    steps = sum(20 - i % 10 for i in range(60))
    assert counts == [3 * steps, 100]


def test_scatter_points_have_true_and_estimated_llr_as_coordinates():
    truth = np.zeros((1, 2, 2))
    truth[0, :, 1] = [4.0, -8.0]
    figure = plots.llr_scatter({"half": truth / 2}, truth)
    (hexagons,) = figure.axes[0].collections
    centers = sorted(hexagons.get_offsets().tolist())
    np.testing.assert_allclose(centers, [[-8, -4], [4, 2]], atol=0.5)


TRAJECTORIES = {
    "no models": (lambda _: ({}, {}), "`estimates` must be a dict"),
    "no dict": (lambda truth: (truth, {}), "`estimates` must be a dict"),
    "one series": (
        lambda truth: ({"a": truth[0]}, {}),
        r"`estimates\['a'\]` must have shape \(n, T, K\)",
    ),
    "same class twice": (lambda truth: ({"a": truth}, {"pair": (1, 1)}), "two different classes in"),
    "unknown class": (
        lambda truth: ({"a": truth}, {"pair": (3, 0)}),
        r"classes in \[0, 2\]; got \(3, 0\)",
    ),
    "three classes": (lambda truth: ({"a": truth}, {"pair": (0, 1, 2)}), "two different classes"),
    "labels": (lambda truth: ({"a": truth}, {"y": [0, 1, 2]}), r"`y` must have shape \(60,\)"),
    "series index": (lambda truth: ({"a": truth}, {"series": [60]}), r"`series` must be in \[0, 59\]"),
    "no series": (lambda truth: ({"a": truth}, {"series": 0}), "`series` must be >= 1"),
    "other classes only": (
        lambda truth: ({"a": truth}, {"y": np.full(60, 2)}),
        "`y` contains no series of the classes",
    ),
    "threshold": (lambda truth: ({"a": truth}, {"thresholds": -1}), "`thresholds` must be in"),
}


@pytest.mark.parametrize(("arguments", "message"), TRAJECTORIES.values(), ids=TRAJECTORIES)
def test_invalid_arguments_of_trajectories_raise(truth, arguments, message):
    estimates, options = arguments(truth)
    with pytest.raises(ValueError, match=message):
        plots.llr_trajectories(estimates, **options)


SCATTER = {
    "shapes": (lambda t: ({"a": t[:5]}, t), "`truth` must have the shape of the other"),
    "infinite": (
        lambda t: ({"a": np.where(np.arange(60)[:, None, None] == 7, np.inf, t)}, t),
        "it contains infinity",
    ),
    "all NaN": (lambda t: ({"a": t}, t * np.nan), "`truth` must hold finite scores"),
    "other lengths": (
        lambda t: ({"a": unequal_lengths(t)}, t),
        "the scores of 'a' must be finite where `truth` is finite",
    ),
    "no truth": (lambda t: ({"a": t}, None), "`truth` must be the exact scores"),
}


@pytest.mark.parametrize(("arguments", "message"), SCATTER.values(), ids=SCATTER)
def test_invalid_arguments_of_scatter_raise(truth, arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.llr_scatter(*arguments(truth))


def test_scatter_without_points_raises(truth):
    with pytest.raises(ValueError, match="`points` must be >= 1"):
        plots.llr_scatter({"a": truth}, truth, points=0)
