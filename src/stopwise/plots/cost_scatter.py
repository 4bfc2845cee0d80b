"""Plot of the cost of one method against that of others, one point per dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stopwise.plots.style import COLORS, DASHES, GRAY, TRUTH_COLOR, drawing

LABELED = 3  # points with a name in each panel: the largest ratios above 1, or the largest ones


def cost_scatter(
    costs: Mapping[str, float],
    others: Mapping[str, Mapping[str, float]],
    *,
    name: str = "default",
    title: str | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Plot costs against those of other methods, one panel per method, on logarithmic axes.

    Points below the diagonal are datasets on which the method `name` costs less. The points with the largest
    ratio of costs are labeled.

    Parameters
    ----------
    costs
        Cost of the method on each dataset.
    others
        By other method, its cost on each dataset. Datasets that only one of the two has are left out.
    name
        Name of the method.
    title
        Title of the figure, or of `ax` if that is a single one.
    ax
        Matplotlib `Axes` to draw on, one per other method. If None, a new figure is created.

    Returns
    -------
    figure
        The matplotlib `Figure`: a new one, or that of `ax`.

    Examples
    --------
    >>> figure = cost_scatter({"Plane": 0.07, "Trace": 0.3}, {"peer": {"Plane": 0.13, "Trace": 0.2}})
    >>> figure.axes[0].get_title()
    'lower on 1 of 2'
    """
    shared = {
        other: [data for data in costs if data in values and costs[data] > 0 and values[data] > 0]
        for other, values in others.items()
    }
    shared = {other: names for other, names in shared.items() if names}
    if not shared:
        raise ValueError(
            "`others` must have at least one method with a positive cost on a dataset in `costs`."
        )
    canvas = drawing(ax, len(shared), 3.6, 4.3)
    for panel, (other, names) in zip(canvas.panels, shared.items()):
        x = np.array([others[other][data] for data in names])
        y = np.array([costs[data] for data in names])
        _panel(panel, x, y, names)
        panel.set_xlabel(f"cost of {other}")
        panel.set_ylabel(f"cost of {name}")
    return canvas.finish(title, [])


def _panel(panel: Axes, x: np.ndarray, y: np.ndarray, names: list[str]) -> None:
    low, high = min(x.min(), y.min()) / 1.25, max(x.max(), y.max()) * 1.25
    panel.plot([low, high], [low, high], color=TRUTH_COLOR, ls=DASHES, lw=1.1, zorder=1)
    panel.fill_between([low, high], [low, high], low, color="0.95", zorder=0, lw=0)
    better = y < x
    panel.scatter(x[better], y[better], s=26, color=COLORS[0], zorder=3)
    panel.scatter(x[~better], y[~better], s=30, color=COLORS[1], marker="D", zorder=3)
    labeled = np.argsort(y / x, kind="stable")[::-1][:LABELED]
    for place, i in enumerate(labeled):
        # Labels of points at about the same height are put above each other.
        near = np.abs(np.log(y[labeled[:place]] / y[i])) < 0.05 * np.log(high / low)
        left = np.log(x[i] / low) > 0.35 * np.log(high / low)  # there is space above the diagonal
        panel.annotate(
            names[i], (x[i], y[i]), (-5 if left else 5, 4 + 9 * near.sum()), textcoords="offset points",
            fontsize=7.5, ha="right" if left else "left", zorder=4,
            color=TRUTH_COLOR if not better[i] else GRAY,
        )  # fmt: skip
    panel.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
        axis.set_tick_params(which="both", labelsize=8)
    panel.set_title(f"lower on {int(better.sum())} of {len(names)}", fontsize=10)
