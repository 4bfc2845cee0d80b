"""Plots of log-likelihood ratios (LLRs) over time, and of estimated against true LLRs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stopwise.metrics import llr_error
from stopwise.plots.style import COLORS, DASHES, GRAY, TRUTH_COLOR, figure_with_panels, finish
from stopwise.validation import check_class_indices, check_integer, check_real, inside

DENSITY_COLORMAP = LinearSegmentedColormap.from_list("density", ["#A6CEE6", COLORS[0], "#00304D"])


def llr_trajectories(
    estimates: Mapping[str, Any],
    truth: Any = None,
    y: Any = None,
    *,
    pair: tuple[int, int] = (1, 0),
    series: int | Sequence[int] = 6,
    thresholds: float | Sequence[float] | None = None,
    title: str | None = None,
) -> Figure:
    """Plot LLRs over time, with one panel per model and a common axis.

    The LLRs of a saturating model stop growing.

    Parameters
    ----------
    estimates
        Scores (n, T, K) by model name; NaN after the end of a series.
    truth
        (n, T, K) exact scores, shown as dashed lines; None if not known.
    y
        (n,) class indices that set the colors of the lines. If None, all lines have the same color.
    pair
        The classes (k, l) of the LLR `log p(x | k) / p(x | l)`.
    series
        Number of series to show, taken alternately from the classes of the pair; or indices of the series.
    thresholds
        One or more thresholds, shown as lines at plus and minus their values. Infinite thresholds are
        omitted.
    title
        Title of the figure.

    Returns
    -------
    figure
        A matplotlib `Figure`.

    Examples
    --------
    >>> import numpy as np
    >>> from stopwise.plots import llr_trajectories
    >>> from stopwise.datasets import gaussian
    >>> X, y, truth = gaussian(n=20, seed=0)
    >>> figure = llr_trajectories({"saturating": 30 * np.tanh(truth / 30)}, truth, y, thresholds=5.0)
    >>> figure.axes[0].get_title(), figure.axes[0].get_ylabel()
    ('saturating', 'LLR of class 1 over class 0 (nats)')
    """
    scores, exact = _check_estimates(estimates, truth)
    n, steps, classes = next(iter(scores.values())).shape
    k, l = _check_pair(pair, classes)  # noqa: E741
    labels = None if y is None else check_class_indices(y, n, classes)
    chosen = _choose_series(series, labels, (l, k), n)
    levels = _finite_levels(thresholds)
    figure, panels = figure_with_panels(len(scores), width=3.1, height=3.3, sharey=True)
    time = np.arange(1, steps + 1)
    for panel, (name, estimate) in zip(panels, scores.items()):
        for i in chosen:
            color = _class_color(None if labels is None else int(labels[i]), (l, k))
            if exact is not None:
                panel.plot(
                    time, exact[i, :, k] - exact[i, :, l], color=TRUTH_COLOR, ls=DASHES, lw=0.9, zorder=2
                )
            panel.plot(time, estimate[i, :, k] - estimate[i, :, l], color=color, lw=2.4, alpha=0.75, zorder=3)
        panel.axhline(0, color="0.85", lw=0.8, zorder=0)
        for level in levels:
            panel.axhline(level, color=GRAY, lw=1, ls=":", zorder=1)
            panel.axhline(-level, color=GRAY, lw=1, ls=":", zorder=1)
        panel.set_title(name)
        panel.set_xlabel("step")
        panel.set_xlim(1, max(steps, 2))
    panels[0].set_ylabel(f"LLR of class {k} over class {l} (nats)")
    present = sorted({int(label) for label in labels[chosen]}) if labels is not None else []
    handles = [Line2D([], [], color=_class_color(c, (l, k)), lw=2, label=f"true class {c}") for c in present]
    if exact is not None:
        handles.append(Line2D([], [], color=TRUTH_COLOR, ls=DASHES, lw=1, label="true LLR"))
    if levels:
        handles.append(Line2D([], [], color=GRAY, ls=":", lw=1, label="threshold"))
    finish(figure, title, handles)
    return figure


def llr_scatter(
    estimates: Mapping[str, Any],
    truth: Any,
    *,
    points: int = 20_000,
    seed: int = 0,
    title: str | None = None,
) -> Figure:
    """Plot estimated against true LLRs, with one panel per model.

    Exact estimates lie on the diagonal. The slope in each panel is the regression slope over all pairs of
    classes, steps and series. It is close to 0 if the estimates saturate.

    Parameters
    ----------
    estimates
        Scores (n, T, K) by model name; NaN after the end of a series.
    truth
        (n, T, K) exact scores.
    points
        Maximum number of LLRs to show, a random sample of all LLRs.
    seed
        Seed of the random sample.
    title
        Title of the figure.

    Returns
    -------
    figure
        A matplotlib `Figure`.

    Examples
    --------
    >>> from stopwise.plots import llr_scatter
    >>> from stopwise.datasets import gaussian
    >>> X, y, truth = gaussian(n=50, seed=0)
    >>> figure = llr_scatter({"half": 0.5 * truth}, truth)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['slope 0.50', 'exact']
    """
    scores, exact = _check_estimates(estimates, truth)
    if exact is None:
        raise ValueError(
            "`truth` must be the exact scores (n, T, K); got None. If they are unknown, use llr_trajectories."
        )
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    lengths = np.isfinite(exact[:, :, 0]).sum(axis=1)
    own_steps = inside(lengths, exact.shape[1])  # (n, T)
    for name, array in {**scores, "truth": exact}.items():
        if np.isnan(array[own_steps]).any():
            raise ValueError(
                f"the scores of {name!r} must be finite where `truth` is finite; got NaN before the end of a "
                "series. Use scores of the same series."
            )
    rows = np.argwhere(own_steps)  # (m, 2) series and step
    first, second = np.triu_indices(exact.shape[2], k=1)
    total = len(rows) * len(first)
    sample = rng.choice(total, min(check_integer("points", points, 1), total), replace=False)
    (i, t), pairs = rows[sample // len(first)].T, sample % len(first)

    def ratios(values: np.ndarray) -> np.ndarray:
        return values[i, t, second[pairs]] - values[i, t, first[pairs]]

    true = ratios(exact)
    drawn = {name: ratios(estimate) for name, estimate in scores.items()}
    reach = 1.05 * max(max(np.abs(values).max() for values in (true, *drawn.values())), 1e-12)
    extent = (-reach, reach, -reach, reach)
    figure, panels = figure_with_panels(len(scores), width=3.1, height=3.95, sharey=True)
    for panel, (name, estimate) in zip(panels, drawn.items()):
        panel.hexbin(
            true,
            estimate,
            gridsize=50,
            extent=extent,
            mincnt=1,
            bins="log",
            cmap=DENSITY_COLORMAP,
            linewidths=0.1,
        )
        panel.plot([-reach, reach], [-reach, reach], color=TRUTH_COLOR, ls=DASHES, lw=1)
        slope = llr_error(scores[name], exact, lengths).slope
        panel.text(0.05, 0.94, f"slope {slope:.2f}", transform=panel.transAxes, va="top", weight="bold")
        panel.set(title=name, xlabel="true LLR (nats)", xlim=extent[:2], ylim=extent[2:], box_aspect=1)
    panels[0].set_ylabel("estimated LLR (nats)")
    panels[0].annotate("exact", (-0.6 * reach, -0.6 * reach), (5, -3), textcoords="offset points", va="top")
    finish(figure, title, [])
    return figure


def _check_estimates(
    estimates: Mapping[str, Any], truth: Any
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Validate the arguments; return the scores (n, T, K) by model, and the exact scores."""
    if not isinstance(estimates, Mapping) or not estimates:
        raise ValueError(
            f"`estimates` must be a dict {{model name: scores (n, T, K)}}; got {estimates!r:.60}."
        )
    named = {f"estimates[{name!r}]": (name, np.asarray(scores)) for name, scores in estimates.items()}
    if truth is not None:
        named["truth"] = ("", np.asarray(truth))
    shape = next(iter(named.values()))[1].shape
    for argument, (_, array) in named.items():
        if array.ndim != 3 or array.shape[2] < 2 or 0 in array.shape:
            raise ValueError(f"`{argument}` must have shape (n, T, K) with K >= 2; got shape {array.shape}.")
        if array.shape != shape:
            raise ValueError(
                f"`{argument}` must have the shape of the other scores, {shape}; got {array.shape}. "
                "Use the same series for all models."
            )
        if np.isinf(array).any() or not np.isfinite(array).any(axis=(1, 2)).all():
            raise ValueError(
                f"`{argument}` must hold finite scores, with NaN only after the end of a series; it contains "
                "infinity, or a series with only NaN."
            )
    exact = named.pop("truth")[1] if truth is not None else None
    return dict(named.values()), exact


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
    series: int | Sequence[int], labels: np.ndarray | None, pair: tuple[int, int], n: int
) -> np.ndarray:
    """Return the given indices, or the indices of the first series, alternating between the classes."""
    if np.ndim(series):
        return np.array([check_integer("series", i, 0, n - 1) for i in series])  # type: ignore[union-attr]
    count = check_integer("series", series, 1)
    if labels is None:
        return np.arange(min(count, n))
    ranks = {int(i): rank for c in pair for rank, i in enumerate(np.flatnonzero(labels == c))}
    if not ranks:
        raise ValueError(
            f"`y` contains no series of the classes {pair} of `pair`. Choose another `pair`, or pass indices "
            "as `series`."
        )
    return np.array(sorted(ranks, key=lambda i: (ranks[i], i))[:count])


def _finite_levels(thresholds: float | Sequence[float] | None) -> list[float]:
    """Return the finite thresholds."""
    values = [] if thresholds is None else np.atleast_1d(np.asarray(thresholds)).ravel().tolist()
    return [v for v in (check_real("thresholds", value, 0.0) for value in values) if np.isfinite(v)]


def _class_color(label: int | None, pair: tuple[int, int]) -> str:
    """Return the color of a class: vermilion and blue for the pair, gray for others."""
    return {pair[0]: COLORS[1], pair[1]: COLORS[0], None: COLORS[0]}.get(label, GRAY)
