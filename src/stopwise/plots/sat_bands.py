"""Plot of speed-accuracy curves of repeated runs, with significance levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stopwise.plots.style import (
    COLORS,
    GRAY,
    MARKERS,
    drawing,
    line_style,
    log_axis,
    mean_and_sem,
)

# The error axis is logarithmic if the ratio of the largest to the smallest error exceeds this.
LOG_RATIO = 8.0
SIGNIFICANT = 0.05
STARS = ((1e-3, "***"), (1e-2, "**"), (SIGNIFICANT, "*"))


def sat_bands(
    times: Sequence[float],
    errors: Mapping[str, np.ndarray],
    *,
    p_values: Sequence[float] | None = None,
    reference: tuple[str, Sequence[float]] | None = None,
    points: Mapping[str, tuple[float, float]] | None = None,
    error_bars: bool = False,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Plot mean macro error rates of repeated runs, with bands of one standard error.

    All runs are evaluated at the same mean hitting times.

    Parameters
    ----------
    times
        (P,) mean hitting times.
    errors
        (R, P) macro error rates of R runs, by model name.
    p_values
        (P,) p-values of the proposed model being better than every baseline. Times with p < 0.05 are shaded
        and marked with one star; two stars mean p < 0.01, three stars p < 0.001.
    reference
        Name and errors (P,) of a dashed reference line.
    points
        (time, error) by name, for methods with a single operating point.
    error_bars
        Draw standard errors as bars instead of bands, shade in gray, and print the largest p-value of each
        shaded interval.
    title
        Title of the figure, or of `ax`.
    ax
        The matplotlib `Axes` to draw on. If None, a new figure is created.

    Returns
    -------
    figure
        The matplotlib `Figure`: a new one, or that of `ax`.

    Examples
    --------
    >>> import numpy as np
    >>> from stopwise.plots import sat_bands
    >>> runs = np.array([[0.4, 0.2, 0.1], [0.5, 0.2, 0.1]])
    >>> figure = sat_bands([1, 2, 3], {"ours": runs, "theirs": runs + 0.1}, p_values=[0.5, 0.02, 0.0001])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['*', '***']
    """
    canvas = drawing(ax, 1, width=7.6, height=4.4)
    (panel,) = canvas.panels
    at = np.asarray(times, dtype=float)
    handles = []
    for i, (name, runs) in enumerate(errors.items()):
        mean, sem = mean_and_sem(100 * np.asarray(runs, dtype=float))
        style = line_style(i)
        handles += panel.plot(at, mean, label=name, **style)
        if error_bars:
            panel.errorbar(at, mean, sem, fmt="none", ecolor=style["color"], elinewidth=1, capsize=1.5)
        else:
            panel.fill_between(at, mean - sem, mean + sem, color=style["color"], alpha=0.25, lw=0)
    if reference is not None:
        name, line = reference
        handles += panel.plot(
            at, 100 * np.asarray(line, dtype=float), label=name, color=GRAY, lw=1.4, ls="--"
        )
    for i, (name, (time, error)) in enumerate((points or {}).items()):
        panel.plot(
            time, 100 * error, MARKERS[i % len(MARKERS)], color="0.25", ms=7, mfc="none", mew=1.4, zorder=5
        )
        handles.append(
            Line2D([], [], marker=MARKERS[i % len(MARKERS)], ls="", color="0.25", mfc="none", label=name)
        )
    panel.set(xlabel="mean hitting time (samples)", ylabel="macro error (%)", xlim=(at[0], at[-1]))
    means = np.concatenate([np.mean(runs, axis=0) for runs in errors.values()])
    if means.min() > 0 and means.max() > LOG_RATIO * means.min():
        log_axis(panel)
    else:
        panel.set_ylim(bottom=0)
    if p_values is not None:
        p = np.asarray(p_values, dtype=float)
        _shade(panel, at, p, "0.5" if error_bars else COLORS[4])
        if error_bars:
            _print_largest(panel, at, p)
    return canvas.finish(title, handles, "outside right center")


def _print_largest(panel: Axes, at: np.ndarray, p: np.ndarray) -> None:
    """Print the largest p-value of each interval of times with p < 0.05."""
    inside = np.concatenate([[False], p < SIGNIFICANT, [False]])
    starts, ends = np.flatnonzero(np.diff(inside.astype(int)).reshape(-1)).reshape(-1, 2).T
    for start, end in zip(starts, ends):
        middle, largest = at[start:end].mean(), p[start:end].max()
        narrow = end - start < len(at) / 8
        side = "center"
        if narrow and start == 0:
            side = "left"  # not across the axis
        elif narrow and end == len(at):
            side = "right"
        panel.text(
            middle, 0.99, f"p ≤ {largest:.1g}", transform=panel.get_xaxis_transform(), va="top", fontsize=8,
            ha=side, rotation=90 if narrow else 0,
        )  # fmt: skip


def _shade(panel: Axes, at: np.ndarray, p: np.ndarray, color: str) -> None:
    """Shade the times with p < 0.05 and draw stars above each interval of equal significance level."""
    edges = np.concatenate([at[:1], (at[1:] + at[:-1]) / 2, at[-1:]])
    levels = [next((stars for bound, stars in STARS if value < bound), "") for value in p]
    start = 0
    for i in range(1, len(levels) + 1):
        if i < len(levels) and levels[i] == levels[start]:
            continue
        if levels[start]:
            low, high = edges[start], edges[i]
            panel.axvspan(low, high, color=color, alpha=0.07 * len(levels[start]), lw=0, zorder=0)
            panel.text(
                (low + high) / 2, 1.01, levels[start], transform=panel.get_xaxis_transform(),
                ha="center", fontsize=10,
            )  # fmt: skip
        start = i
