"""Common style of all plots: a colorblind-safe palette (Okabe and Ito); true values are black and dashed."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stopwise.atomic import atomic_write

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
TRUTH_COLOR = "black"
DASHES = (0, (4, 3))
GRAY = "0.55"
MARKERS = "osD^vP"


class NotebookFigure(Figure):
    """A figure that notebooks display as a picture, with any backend and without pyplot."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=110)
        return file.getvalue()


def save(figure: Figure, path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a figure as ``path.png`` (150 dpi) and ``path.svg``.

    The files are written atomically. The output is deterministic: the same figure gives the same bytes.

    Parameters
    ----------
    figure
        The figure to save.
    path
        Path of the files without suffix; a suffix ``.png`` or ``.svg`` is removed. The folder must exist.

    Returns
    -------
    png, svg
        Paths of the two files.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from stopwise.plots import llr_error_bars, save
    >>> figure = llr_error_bars({"lstm": 88.0})
    >>> [path.name for path in save(figure, Path(tempfile.mkdtemp()) / "errors")]
    ['errors.png', 'errors.svg']
    """
    base = str(path).removesuffix(".png").removesuffix(".svg")
    png, svg = Path(f"{base}.png"), Path(f"{base}.svg")
    with atomic_write(png, svg) as [part_png, part_svg], mpl.rc_context({"svg.hashsalt": "stopwise"}):
        figure.savefig(part_png, dpi=150)
        figure.savefig(part_svg, metadata={"Date": None})
    return png, svg


def line_style(i: int) -> dict[str, Any]:
    """Return the line style of model i; from the seventh model on, colors repeat with dash-dotted lines."""
    ls = "-" if i < len(COLORS) else "-."
    return {"color": COLORS[i % len(COLORS)], "lw": 2, "ls": ls, "zorder": 3}


def mean_and_sem(runs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over the runs (R, ...) and its standard error; the latter is 0 for a single run.

    Examples
    --------
    >>> mean, sem = mean_and_sem([4.0, 6.0])
    >>> float(mean), float(sem)
    (5.0, 1.0)
    """
    runs = np.asarray(runs, dtype=float)
    mean = runs.mean(axis=0)
    if len(runs) == 1:
        return mean, np.zeros_like(mean)
    return mean, runs.std(axis=0, ddof=1) / np.sqrt(len(runs))


def figure_with_panels(
    count: int, width: float, height: float, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels, at most five per row."""
    columns = min(count, 5)
    rows = -(-count // columns)
    figure = NotebookFigure(figsize=(max(width * columns, 4.2), height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharey=sharey, squeeze=False).ravel().tolist()
    for unused in grid[count:]:
        unused.remove()
    for panel in grid[:count]:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, grid[:count]


def log_axis(panel: Axes) -> None:
    """Make the y-axis logarithmic, with tick labels such as 1, 2, 3, 5, 10 instead of powers of ten."""
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "235" else "")


def finish(figure: Figure, title: str | None, handles: list[Line2D]) -> None:
    """Add the title, and a legend below the panels."""
    if title is not None:
        figure.suptitle(title, weight="bold")
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
