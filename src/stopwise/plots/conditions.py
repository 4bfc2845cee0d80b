"""Plot of the LLR errors of several models under several conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stopwise.plots.style import (
    COLORS,
    DASHES,
    GRAY,
    MARKERS,
    TRUTH_COLOR,
    Drawing,
    NotebookFigure,
    drawing,
    log_axis,
    mean_and_sem,
)

STAR_SPACE = 0.08  # share of the height of a panel that is added for stars
# panel → condition → model → errors of the runs
Panels = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]


def llr_errors_by_condition(
    rows: Mapping[str, Panels],
    *,
    starred: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    limits: Mapping[str, float] | None = None,
    trivial: Mapping[str, float] | None = None,
    title: str | None = None,
    ax: Any = None,
) -> Figure:
    """Plot mean LLR errors with standard errors in a grid of panels.

    Parameters
    ----------
    rows
        Nested dicts {row: {panel: {condition: {model: errors of its runs}}}}. All rows have the same panels.
    starred
        Conditions that are shaded and marked with a star, as nested dicts {row: {panel: conditions}}.
    limits
        Statistical limit of each row, shown as a dashed line.
    trivial
        Error of always predicting 0 in each row, shown as a dotted line.
    title
        Title of the figure, or of `ax` if that is a single one.
    ax
        Matplotlib `Axes` to draw on, one per panel, row by row. If None, a new figure is created.

    Returns
    -------
    figure
        The matplotlib `Figure`: a new one, or that of `ax`.

    Examples
    --------
    >>> from stopwise.plots import llr_errors_by_condition
    >>> errors = {"0": {"lstm": [80.0, 82.0], "ours": [1.9, 2.1]}, "0.01": {"lstm": [95.0, 96.0]}}
    >>> figure = llr_errors_by_condition({"a = 2": {"weight decay": errors}}, limits={"a = 2": 1.6})
    >>> figure.axes[0].get_title()
    'weight decay'
    """
    panels = list(next(iter(rows.values())))
    models = list(
        dict.fromkeys(
            model
            for row in rows.values()
            for panel in row.values()
            for cell in panel.values()
            for model in cell
        )
    )
    canvas = _grid(rows, panels) if ax is None else drawing(ax, len(rows) * len(panels), 0, 0)
    grid = np.array(canvas.panels, dtype=object).reshape(len(rows), len(panels))
    for number, (line, (row, content)) in enumerate(zip(grid, rows.items())):
        for axes, panel in zip(line, panels):
            _panel(axes, content[panel], models, (starred or {}).get(row, {}).get(panel, ()))
            if limits and row in limits:
                axes.axhline(limits[row], color=TRUTH_COLOR, ls=DASHES, lw=1.1, zorder=1)
            if trivial and row in trivial:
                axes.axhline(trivial[row], color=GRAY, ls=":", lw=1.2, zorder=1)
            if number == 0:
                axes.set_title(panel)
        line[0].set_ylabel(f"{row}\nLLR error (nats)")
        _star(list(line), content, panels, (starred or {}).get(row, {}))
    handles = [
        Line2D([], [], color=COLORS[i % 6], marker=MARKERS[i % 6], ls="", label=model)
        for i, model in enumerate(models)
    ]
    if limits:
        handles.append(Line2D([], [], color=TRUTH_COLOR, ls=DASHES, label="statistical limit"))
    if trivial:
        handles.append(Line2D([], [], color=GRAY, ls=":", label="predicting 0"))
    return canvas.finish(title, handles)


def _grid(rows: Mapping[str, Panels], panels: Sequence[str]) -> Drawing:
    """Return a new figure with one panel per row and group; panels are wider for more conditions."""
    widths = [max(len(next(iter(rows.values()))[panel]), 1) + 0.6 for panel in panels]
    size = (0.72 * sum(widths) + 1.0, 2.7 * len(rows) + 0.9)
    figure = NotebookFigure(figsize=size, layout="constrained")
    grid = figure.subplots(len(rows), len(panels), sharey="row", squeeze=False, width_ratios=widths)
    return Drawing(figure, grid.ravel().tolist(), own=True)


def _panel(
    axes: Axes,
    cells: Mapping[str, Mapping[str, Sequence[float]]],
    models: list[str],
    starred: Sequence[str],
) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    log_axis(axes)
    axes.set_xticks(range(len(cells)), list(cells))
    axes.set_xlim(-0.6, len(cells) - 0.4)
    for place, (condition, cell) in enumerate(cells.items()):
        if condition in starred:
            axes.axvspan(place - 0.5, place + 0.5, color="0.92", zorder=0)
        for i, model in enumerate(models):
            if not len(cell.get(model, ())):
                continue
            x = place + (i - (len(models) - 1) / 2) * 0.13
            mean, sem = mean_and_sem(cell[model])
            # An error bar must not reach 0 on a logarithmic axis.
            axes.errorbar(
                x, mean, yerr=[[min(sem, 0.9 * mean)], [sem]], marker=MARKERS[i % 6], ms=5,
                color=COLORS[i % 6], elinewidth=1.4, capsize=2, zorder=3,
            )  # fmt: skip


def _star(
    line: Sequence[Axes], content: Panels, panels: Sequence[str], starred: Mapping[str, Sequence[str]]
) -> None:
    """Draw a star above each shaded condition, at the top of its panel, in space above the errors."""
    if any(starred.values()):
        low, high = line[0].get_ylim()
        line[0].set_ylim(low, high * (high / low) ** STAR_SPACE)  # the panels of a row share their axis
    for axes, panel in zip(line, panels):
        for place, condition in enumerate(content[panel]):
            if condition in starred.get(panel, ()):
                axes.annotate(
                    "*", (place, 1), (0, -2), xycoords=("data", "axes fraction"),
                    textcoords="offset points", ha="center", va="top", fontsize=15, weight="bold",
                )  # fmt: skip
