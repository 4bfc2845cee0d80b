"""Common style of all plots: a colorblind-safe palette (Okabe and Ito) and, for lines, dashes that differ.

True values are black and dashed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

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
Side = Literal["outside lower center", "outside right center"]
BELOW: Final = "outside lower center"
COLUMN_INCHES = 1.6  # width of a column of a legend
# Five styles and six colors: neighbors differ in both, and 30 combinations are different.
LINE_STYLES = ("-", "--", ":", "-.", (0, (3, 1, 1, 1, 1, 1)))


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
    """Return the style of line i; lines next to each other differ in color and in dashes."""
    style = {"color": COLORS[i % len(COLORS)], "ls": LINE_STYLES[i % len(LINE_STYLES)]}
    return style | {"lw": 2, "zorder": 3}


def plain(name: Any) -> str:
    r"""Return a name as text that matplotlib does not read as mathematics.

    Examples
    --------
    >>> print(plain("5 $ to 9 $"))
    5 \$ to 9 \$
    """
    return str(name).replace("$", r"\$")


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


class Drawing(NamedTuple):
    """The axes to draw on, their figure, and whether the figure was created for them."""

    figure: Figure
    panels: list[Axes]
    own: bool

    def finish(self, title: str | None, handles: Sequence[Line2D], legend: Side = BELOW) -> Figure:
        """Add the title and the legend, and return the figure.

        In a figure of its own, the legend is outside the panels. On the axes of a user, nothing outside of
        them changes: the last one gets the legend, and a single one gets the title.
        """
        if title is not None and (self.own or len(self.panels) > 1):
            self.figure.suptitle(title, weight="bold")
        elif title is not None:
            self.panels[0].set_title(title, weight="bold")
        if handles and self.own:
            fitting = max(2, int(self.figure.get_figwidth() / COLUMN_INCHES))
            columns = min(len(handles), fitting) if legend == BELOW else 1
            self.figure.legend(handles=handles, loc=legend, ncols=columns, frameon=False)
        elif handles:
            self.panels[-1].legend(handles=handles, frameon=False, fontsize="small")
        return self.figure


def drawing(ax: Any, count: int, width: float, height: float, sharey: bool = False) -> Drawing:
    """Return `count` panels: the given axes, or if None, those of a new figure, at most five per row.

    Parameters
    ----------
    ax
        One matplotlib `Axes`, or `count` of them in a sequence or an array; or None.
    count
        Number of panels.
    width, height
        Size of a panel in a new figure, in inches.
    sharey
        Whether the panels of a new figure share the y-axis. Given axes are never linked.
    """
    if ax is not None:
        panels = given_axes(ax, count)
        return Drawing(root_figure(panels[0]), panels, own=False)
    columns = min(count, 5)
    rows = -(-count // columns)
    figure = NotebookFigure(figsize=(max(width * columns, 4.2), height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharey=sharey, squeeze=False).ravel().tolist()
    for unused in grid[count:]:
        unused.remove()
    for panel in grid[:count]:
        panel.spines[["top", "right"]].set_visible(False)
    return Drawing(figure, grid[:count], own=True)


def given_axes(ax: Any, count: int) -> list[Axes]:
    """Return the axes that a user passed as `ax` as a list; raise an error if they are not `count` axes."""
    panels = [ax] if isinstance(ax, Axes) else list(np.array(ax, dtype=object).ravel())
    if len(panels) != count or not all(isinstance(panel, Axes) for panel in panels):
        wanted = "matplotlib Axes" if count == 1 else f"a sequence of {count} matplotlib Axes, one per panel"
        what = f"{len(panels)} values" if len(panels) != count else "other objects"
        raise ValueError(f"`ax` must be {wanted}; got {what}. Create them with plt.subplots(1, {count}).")
    return panels


def root_figure(panel: Axes) -> Figure:
    """Return the figure that contains the axes, also if they are in a subfigure."""
    figure: Any = panel.figure
    while not isinstance(figure, Figure):
        figure = figure.figure
    return figure


def same_limits(panels: Sequence[Axes]) -> None:
    """Give all panels the same range of the y-axis."""
    limits = np.array([panel.get_ylim() for panel in panels])
    for panel in panels:
        panel.set_ylim(limits[:, 0].min(), limits[:, 1].max())


def log_axis(panel: Axes) -> None:
    """Make the y-axis logarithmic, with tick labels such as 1, 2, 3, 5, 10 instead of powers of ten."""
    panel.set_yscale("log")

    def name(value: float, _: object) -> str:
        low, high = panel.get_ylim()
        named = "3" if high > 2000 * low else "235"  # more labels would overlap
        return f"{value:g}" if f"{value:e}"[0] in named else ""

    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.yaxis.set_minor_formatter(name)
