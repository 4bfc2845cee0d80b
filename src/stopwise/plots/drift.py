"""Plot of the LLR error and its slope during training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from stopwise.plots.style import (
    COLORS,
    DASHES,
    TRUTH_COLOR,
    Drawing,
    NotebookFigure,
    drawing,
    line_style,
    log_axis,
)

Run = Mapping[str, Sequence[float]]
MOST_COLUMNS = 4  # largest number of panels next to each other in a figure of its own


def llr_drift(
    panels: Mapping[str, Mapping[str, Sequence[Run]]],
    *,
    steps: float,
    title: str | None = None,
    ax: Any = None,
) -> Figure:
    """Plot the LLR error (top) and the slope (bottom) over the training steps, one line per run.

    A dot marks the smallest validation loss of a run.

    Parameters
    ----------
    panels
        Runs by condition and panel. A run has lists of equal length by name: "llr_error", "slope" and
        "validation_loss".
    steps
        Number of training steps between two entries of a list.
    title
        Title of the figure.
    ax
        Matplotlib `Axes` to draw on: first those of the LLR error, one per panel, then those of the slope. If
        None, a new figure is created.

    Returns
    -------
    figure
        The matplotlib `Figure`: a new one, or that of `ax`.

    Examples
    --------
    >>> from stopwise.plots import llr_drift
    >>> run = {"llr_error": [50, 20, 30], "slope": [0.5, 0.9, 1.3], "validation_loss": [0.1, 0.05, 0.04]}
    >>> figure = llr_drift({"rate": {"0.001": [run]}}, steps=100)
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['LLR error (nats)', 'slope']
    """
    canvas = _pairs(len(panels)) if ax is None else drawing(ax, 2 * len(panels), 0, 0)
    grid = np.array(canvas.panels, dtype=object).reshape(2, len(panels))
    for column, (panel, conditions) in zip(grid.T, panels.items()):
        top, bottom = column
        top.set_title(panel)
        bottom.axhline(1.0, color=TRUTH_COLOR, ls=DASHES, lw=1.1)
        bottom.set_xlabel("training steps")
        for i, (condition, runs) in enumerate(conditions.items()):
            for number, run in enumerate(runs):
                label = condition if number == 0 else None
                best = int(np.argmin(run["validation_loss"]))
                at = steps * np.arange(1, len(run["slope"]) + 1)
                for axes, key in ((top, "llr_error"), (bottom, "slope")):
                    line = np.asarray(run[key], dtype=float)
                    axes.plot(at, line, **line_style(i) | {"lw": 1.6}, label=label)
                    axes.plot(at[best], line[best], "o", color=COLORS[i % len(COLORS)], ms=6)
        bottom.legend(frameon=False, fontsize=8)
        log_axis(top)
        for axes in column:
            axes.spines[["top", "right"]].set_visible(False)
    for column in grid.T[:: _columns(len(panels)) if canvas.own else len(panels)]:
        column[0].set_ylabel("LLR error (nats)")
        column[1].set_ylabel("slope")
    return canvas.finish(title, [])


def _columns(count: int) -> int:
    """Return the number of panels next to each other, so that the last row is as full as the others."""
    blocks = -(-count // MOST_COLUMNS)
    return -(-count // blocks)


def _pairs(count: int) -> Drawing:
    """Return `count` panels of the error, then as many of the slope below them, some next to each other."""
    columns = _columns(count)
    blocks = -(-count // columns)
    size = (2.6 * columns + 1.2, 5.4 * blocks + 0.2)
    figure = NotebookFigure(figsize=size, layout="constrained")
    grid = figure.subplots(2 * blocks, columns, sharex=True, squeeze=False)
    rows = [grid[first::2].ravel() for first in (0, 1)]  # of the error, of the slope
    for row in rows:
        for number, axes in enumerate(row):
            axes.xaxis.set_tick_params(labelbottom=row is rows[1])
            if number >= count:
                axes.remove()
            elif number:
                axes.sharey(row[0])
                axes.yaxis.set_tick_params(labelleft=number % columns == 0)
    return Drawing(figure, [axes for row in rows for axes in row[:count]], own=True)
