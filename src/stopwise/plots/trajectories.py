"""Plot of log-likelihood ratios (LLRs) over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stopwise.plots.classes import class_indices, class_names, llr_label
from stopwise.plots.estimates import check_estimates
from stopwise.plots.style import COLORS, DASHES, GRAY, TRUTH_COLOR, drawing, line_style, same_limits
from stopwise.validation import check_integer, check_real


def llr_trajectories(
    estimates: Mapping[str, Any],
    truth: Any = None,
    y: Any = None,
    *,
    pair: tuple[int, int] | None = None,
    series: int | Sequence[int] = 6,
    thresholds: float | Sequence[float] | None = None,
    classes: Sequence[Any] | None = None,
    title: str | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    r"""Plot LLRs over time, with one panel per model and a common axis.

    The LLRs of a saturating model stop growing. With three classes or more, the LLR of the true class over
    its best rival is shown, that is, over the other class with the highest score at that step. It is below 0
    where a wrong class leads.

    Parameters
    ----------
    estimates
        Scores (n, T, K) by model name; NaN after the end of a series.
    truth
        (n, T, K) exact scores, shown as dashed lines; None if not known.
    y
        (n,) true classes that set the colors of the lines: labels if `classes` is given, otherwise indices.
        If None, all lines have the same color.
    pair
        The classes (k, l) of the LLR `log p(x | k) / p(x | l)`, as indices. If None, (1, 0) for two classes.
        For more classes, the true class and its best rival, or without `y`, the two classes that lead.
    series
        Number of series to show, taken alternately from the classes; or indices of the series.
    thresholds
        One or more thresholds, shown as lines at plus and minus their values. Infinite thresholds are
        omitted.
    classes
        The labels of the K classes, such as `clf.classes_`. If None, the classes are 0 to K - 1.
    title
        Title of the figure, or of `ax` if that is a single one.
    ax
        Matplotlib `Axes` to draw on, one per model. If None, a new figure is created.

    Returns
    -------
    figure
        The matplotlib `Figure`: a new one, or that of `ax`.

    Examples
    --------
    >>> import numpy as np
    >>> from stopwise.plots import llr_trajectories
    >>> from stopwise.datasets import gaussian
    >>> X, y, truth = gaussian(n=20, seed=0)
    >>> figure = llr_trajectories({"saturating": 30 * np.tanh(truth / 30)}, truth, y, thresholds=5.0)
    >>> figure.axes[0].get_title(), figure.axes[0].get_ylabel()
    ('saturating', 'LLR of class 1 over class 0 (nats)')
    >>> X, y, truth = gaussian(n=20, classes=3, channels=3, seed=0)
    >>> figure = llr_trajectories({"exact": truth}, y=y, classes=range(3))
    >>> figure.axes[0].get_ylabel()
    'LLR of the true class\nover its best rival (nats)'
    """
    scores, exact = check_estimates(estimates, truth)
    n, steps, count = next(iter(scores.values())).shape
    names = class_names(classes, count)
    labels = None if y is None else class_indices(y, n, count, classes)
    shown = _comparison(pair, labels, names)
    chosen = _choose_series(series, labels, shown.classes, n)
    levels = _finite_levels(thresholds)
    canvas = drawing(ax, len(scores), width=3.1, height=3.3, sharey=True)
    time = np.arange(1, steps + 1)
    for panel, (name, estimate) in zip(canvas.panels, scores.items()):
        for i in chosen:
            style = shown.style(None if labels is None else int(labels[i]))
            if exact is not None:
                true = shown.llr(exact[i], labels, i)
                panel.plot(time, true, color=TRUTH_COLOR, ls=DASHES, lw=0.9, zorder=2)
            panel.plot(time, shown.llr(estimate[i], labels, i), **style | {"lw": 2.4, "alpha": 0.75})
        panel.axhline(0, color="0.85", lw=0.8, zorder=0)
        for level in levels:
            panel.axhline(level, color=GRAY, lw=1, ls=":", zorder=1)
            panel.axhline(-level, color=GRAY, lw=1, ls=":", zorder=1)
        panel.set_title(name)
        panel.set_xlabel("step")
        panel.set_xlim(1, max(steps, 2))
    same_limits(canvas.panels)
    canvas.panels[0].set_ylabel(llr_label(shown.first, shown.second))
    present = sorted({int(label) for label in labels[chosen]}) if labels is not None else []
    handles = [Line2D([], [], **shown.style(c), label=f"true class {names[c]}") for c in present]
    if exact is not None:
        handles.append(Line2D([], [], color=TRUTH_COLOR, ls=DASHES, lw=1, label="true LLR"))
    if levels:
        handles.append(Line2D([], [], color=GRAY, ls=":", lw=1, label="threshold"))
    return canvas.finish(title, handles)


class _Comparison(NamedTuple):
    """Which classes an LLR compares: two fixed ones, or if `pair` is None, a class and its best rival."""

    pair: tuple[int, int] | None
    first: str
    second: str
    classes: tuple[int, ...]  # the classes from which series are chosen

    def llr(self, scores: np.ndarray, labels: np.ndarray | None, i: int) -> np.ndarray:
        """Return the LLRs (T,) of series i from its scores (T, K)."""
        if self.pair is not None:
            return scores[:, self.pair[0]] - scores[:, self.pair[1]]
        if labels is None:
            second, first = np.partition(scores, -2, axis=1)[:, -2:].T
            return first - second
        rivals = np.delete(scores, labels[i], axis=1)  # (T, K - 1)
        return scores[:, labels[i]] - rivals.max(1)

    def style(self, label: int | None) -> dict[str, Any]:
        """Return the style of a class: vermilion and blue for a pair, gray for others."""
        if self.pair is None or label is None:
            return line_style(label or 0)
        color = {self.pair[1]: COLORS[1], self.pair[0]: COLORS[0]}.get(label, GRAY)
        return {"color": color, "lw": 2, "zorder": 3}


def _comparison(pair: tuple[int, int] | None, labels: np.ndarray | None, names: Sequence[str]) -> _Comparison:
    if pair is None and len(names) > 2:
        every = tuple(range(len(names)))
        if labels is None:
            return _Comparison(None, "the best class", "the second best", every)
        return _Comparison(None, "the true class", "its best rival", every)
    k, l = _check_pair((1, 0) if pair is None else pair, len(names))  # noqa: E741
    return _Comparison((k, l), f"class {names[k]}", f"class {names[l]}", (l, k))


def _check_pair(pair: tuple[int, int], classes: int) -> tuple[int, int]:
    """Return two different class indices."""
    try:
        k, other = (check_integer("pair", c, 0, classes - 1) for c in pair)
    except (TypeError, ValueError):
        k = other = -1
    if k == other:
        raise ValueError(f"`pair` must be two different classes in [0, {classes - 1}]; got {pair!r}.")
    return k, other


def _choose_series(
    series: int | Sequence[int], labels: np.ndarray | None, classes: Sequence[int], n: int
) -> np.ndarray:
    """Return the given indices, or the indices of the first series, alternating between the classes."""
    if np.ndim(series):
        return np.array([check_integer("series", i, 0, n - 1) for i in series])  # type: ignore[union-attr]
    count = check_integer("series", series, 1)
    if labels is None:
        return np.arange(min(count, n))
    ranks = {int(i): rank for c in classes for rank, i in enumerate(np.flatnonzero(labels == c))}
    if not ranks:
        raise ValueError(
            f"`y` contains no series of the classes {tuple(classes)} of `pair`. Choose another `pair`, or "
            "pass indices as `series`."
        )
    return np.array(sorted(ranks, key=lambda i: (ranks[i], i))[:count])


def _finite_levels(thresholds: float | Sequence[float] | None) -> list[float]:
    """Return the finite thresholds."""
    values = [] if thresholds is None else np.atleast_1d(np.asarray(thresholds)).ravel().tolist()
    return [v for v in (check_real("thresholds", value, 0.0) for value in values) if np.isfinite(v)]
