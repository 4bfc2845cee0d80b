"""Critical-difference diagram: mean ranks of methods, with bars over those that do not differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stopwise.plots.style import COLORS, TRUTH_COLOR, drawing

ROW = 0.28  # height of a row in inches


def critical_difference(
    ranks: Mapping[str, float],
    cliques: Sequence[Sequence[str]] = (),
    *,
    highlight: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw the mean ranks of methods on a line, the best one on the left.

    Parameters
    ----------
    ranks
        Mean rank of each method; 1 is best.
    cliques
        Sets of methods of which no two differ significantly; each is drawn as a bar.
    highlight
        A method to draw in color.
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
    >>> figure = critical_difference({"ours": 1.2, "a": 2.3, "b": 2.5}, [("a", "b")])
    >>> [text.get_text() for text in figure.axes[0].texts][-3:]
    ['ours  1.20', 'a  2.30', 'b  2.50']
    """
    unknown = {name for clique in cliques for name in clique} - set(ranks)
    if len(ranks) < 2 or unknown:
        raise ValueError(
            "`ranks` must have at least 2 methods, among them all of `cliques`; got "
            f"{len(ranks)}, without {sorted(unknown)}."
        )
    names = sorted(ranks, key=lambda name: ranks[name])
    count, half = len(names), (len(names) + 1) // 2
    bars = len(cliques)
    height = ROW * (half + bars + 3) + (0.4 if title else 0)
    canvas = drawing(ax, 1, 7.2, height)
    (axes,) = canvas.panels
    low, high = 1, count
    axes.plot([low, high], [0, 0], color=TRUTH_COLOR, lw=1.2)
    for tick in range(low, high + 1):
        axes.plot([tick, tick], [0, 0.25], color=TRUTH_COLOR, lw=1.2)
        axes.text(tick, 0.35, str(tick), ha="center", va="bottom", fontsize=9)
    for i, clique in enumerate(cliques):
        ends = [ranks[name] for name in clique]
        y = -0.35 - 0.45 * i
        axes.plot(
            [min(ends) - 0.04, max(ends) + 0.04], [y, y], color=TRUTH_COLOR, lw=4, solid_capstyle="butt"
        )
    top = -0.35 - 0.45 * bars - 0.5
    margin = 0.12 * (high - low)
    for i, name in enumerate(names):
        left = i < half
        # Names on the left are listed from top to bottom, those on the right from bottom to top.
        y = top - (i if left else count - 1 - i)
        end = low - margin if left else high + margin
        color = COLORS[0] if name == highlight else TRUTH_COLOR
        axes.plot([ranks[name], ranks[name], end], [0, y, y], color=color, lw=1.1)
        label = f"{name}  {ranks[name]:.2f}"
        axes.text(
            end + (-0.02 if left else 0.02) * (high - low), y, label, ha="right" if left else "left",
            va="center", fontsize=10, color=color, weight="bold" if name == highlight else "normal",
        )  # fmt: skip
    axes.set_xlim(low - margin - 0.33 * (high - low), high + margin + 0.33 * (high - low))
    axes.set_ylim(top - half, 1.2)
    axes.axis("off")
    return canvas.finish(title, [])
