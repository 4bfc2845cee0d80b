import numpy as np
import pytest

from stopwise import plots
from stopwise.metrics import llr_error


def test_inputs_are_not_changed(truth, unequal_lengths):
    cut = unequal_lengths(truth)
    scores, copy = {"a": cut.copy()}, cut.copy()
    plots.llr_scatter(scores, cut)
    np.testing.assert_array_equal(cut, copy)
    np.testing.assert_array_equal(scores["a"], copy)


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


def test_scatter_samples_at_most_the_given_number_of_points(estimates, truth, texts, unequal_lengths):
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


SCATTER = {
    "shapes": (lambda t: ({"a": t[:5]}, t), "`truth` must have the shape of the other"),
    "infinite": (
        lambda t: ({"a": np.where(np.arange(60)[:, None, None] == 7, np.inf, t)}, t),
        "it contains infinity",
    ),
    "all NaN": (lambda t: ({"a": t}, t * np.nan), "`truth` must hold finite scores"),
    "other lengths": (
        lambda t: ({"a": np.where(np.arange(20)[:, None] < 15, t, np.nan)}, t),
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
