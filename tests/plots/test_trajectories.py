import numpy as np
import pytest

from stopwise import plots
from stopwise.plots import style


def test_inputs_are_not_changed(truth, y, unequal_lengths):
    cut = unequal_lengths(truth)
    scores, labels, copy = {"a": cut.copy()}, y.copy(), cut.copy()
    plots.llr_trajectories(scores, cut, labels)
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
    figure = plots.llr_trajectories({"a": truth}, y=y, pair=(1, 0), series=range(10))
    colors = [one.get_color() for one in lines(figure.axes[0])]
    expected = {0: style.COLORS[1], 1: style.COLORS[0], 2: style.GRAY}
    assert colors == [expected[label] for label in y[:10]]


def test_trajectories_without_labels_end_with_their_series(truth, lines, unequal_lengths):
    figure = plots.llr_trajectories({"a": unequal_lengths(truth)}, series=[3, 9])
    lengths = [np.isfinite(one.get_ydata()).sum() for one in lines(figure.axes[0])]
    assert lengths == [17, 11]
    assert not figure.legends


def test_more_than_five_models_use_two_rows(truth, y):
    figure = plots.llr_trajectories({f"m{i}": truth for i in range(6)}, y=y)
    assert len(figure.axes) == 6
    assert len({round(panel.get_subplotspec().rowspan.start) for panel in figure.axes}) == 2


def test_many_classes_show_the_true_class_against_its_best_rival(truth, y, lines):
    names = np.array(["sit", "$tand", "walk"])
    figure = plots.llr_trajectories({"a": truth}, truth, names[y], series=4, classes=names)
    panel = figure.axes[0]
    assert panel.get_ylabel() == "LLR of the true class\nover its best rival (nats)"
    first_of_each = [int(np.flatnonzero(y == c)[0]) for c in range(3)]
    chosen = [*sorted(first_of_each), min(int(np.flatnonzero(y == c)[1]) for c in range(3))]
    expected = [
        [scores[y[i]] - max(scores[c] for c in range(3) if c != y[i]) for scores in truth[i]] for i in chosen
    ]
    drawn = [one for one in lines(panel) if one.get_color() != "black"]
    np.testing.assert_allclose([one.get_ydata() for one in drawn], expected)
    np.testing.assert_allclose([one.get_ydata() for one in lines(panel, "black")], expected)
    assert [one.get_color() for one in drawn] == [style.COLORS[y[i]] for i in chosen]
    assert len({one.get_linestyle() for one in drawn}) == 3
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["true class sit", r"true class \$tand", "true class walk", "true LLR"]


def test_many_classes_without_labels_show_the_lead(truth, lines):
    figure = plots.llr_trajectories({"a": truth}, series=[5])
    (line,) = lines(figure.axes[0])
    top = np.sort(truth[5], axis=1)
    np.testing.assert_allclose(line.get_ydata(), top[:, 2] - top[:, 1])


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
        lambda truth: ({"a": truth}, {"y": np.full(60, 2), "pair": (1, 0)}),
        "`y` contains no series of the classes",
    ),
    "too few names": (
        lambda truth: ({"a": truth}, {"classes": ["a", "b"]}),
        "`classes` must hold 3 different",
    ),
    "same names": (
        lambda truth: ({"a": truth}, {"classes": ["a", "b", "a"]}),
        "`classes` must hold 3 different",
    ),
    "unknown label": (
        lambda truth: ({"a": truth}, {"classes": ["a", "b", "c"], "y": ["d"] * 60}),
        "`y` must hold labels in `classes`, 'a', 'b', 'c'; got 'd'",
    ),
    "threshold": (lambda truth: ({"a": truth}, {"thresholds": -1}), "`thresholds` must be in"),
}


@pytest.mark.parametrize(("arguments", "message"), TRAJECTORIES.values(), ids=TRAJECTORIES)
def test_invalid_arguments_of_trajectories_raise(truth, arguments, message):
    estimates, options = arguments(truth)
    with pytest.raises(ValueError, match=message):
        plots.llr_trajectories(estimates, **options)
