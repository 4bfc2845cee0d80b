"""The common look: colours the colour-blind tell apart (Okabe and Ito), the truth black and dashed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stopwise.atomic import written_aside

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
TRUTH = "black"
DASHES = (0, (4, 3))
QUIET = "0.55"


def save(figure: Figure, path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a figure as ``path.png`` (150 dpi) and ``path.svg``; return both paths.

    The same figure gives the same bytes. Files are written aside and moved into place when whole.

    Examples
    --------
    >>> import tempfile
    >>> from stopwise.plots import llr_error_bars
    >>> figure = llr_error_bars({"lstm": 88.0})
    >>> [path.name for path in save(figure, Path(tempfile.mkdtemp()) / "errors")]
    ['errors.png', 'errors.svg']
    """
    base = str(path).removesuffix(".png").removesuffix(".svg")
    png, svg = Path(f"{base}.png"), Path(f"{base}.svg")
    with written_aside(png, svg) as [aside_png, aside_svg], mpl.rc_context({"svg.hashsalt": "stopwise"}):
        figure.savefig(aside_png, dpi=150)
        figure.savefig(aside_svg, metadata={"Date": None})
    return png, svg


def line_style(i: int) -> dict[str, Any]:
    """Return the style of the i-th model's line; when the colours run out, they start again dash-dotted."""
    ls = "-" if i < len(COLOURS) else "-."
    return {"color": COLOURS[i % len(COLOURS)], "lw": 2, "ls": ls, "zorder": 3}


def figure_with_panels(
    count: int, width: float, height: float, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels, at most five in a row."""
    columns = min(count, 5)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(width * columns, 4.2), height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharey=sharey, squeeze=False).ravel().tolist()
    for spare in grid[count:]:
        spare.remove()
    for panel in grid[:count]:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, grid[:count]


def log_axis(panel: Axes) -> None:
    """Make the y axis logarithmic, with plain numbers: 1, 2, 3, 5, 10, not powers of ten."""
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "235" else "")


def finish(figure: Figure, title: str | None, handles: list[Line2D]) -> None:
    """Add the title, and a legend under the panels."""
    if title is not None:
        figure.suptitle(title, weight="bold")
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
