"""Plot of true error rates against guaranteed error rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from stopwise.plots.style import COLORS, DASHES, MARKERS, TRUTH_COLOR, drawing

VIOLATED_COLOR = "#fbe9e4"
BAND = (5, 95)  # percentiles of the draws


def guarantees(
    levels: Any,
    panels: Mapping[str, Mapping[str, Any]],
    *,
    title: str | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Plot true error rates against guaranteed error rates.

    Above the diagonal the guarantee is violated.

    Parameters
    ----------
    levels
        (A,) guaranteed error rates, increasing.
    panels
        Nested dicts {panel title: {method: true error rates}}, where a method is a way to set thresholds. The
        rates have shape (A,), or (draws, A) for several draws of the calibration series. For draws, the
        median and the central 90 % are shown.
    title
        Title of the figure, or of `ax`.
    ax
        Matplotlib `Axes` to draw on, one per panel. If None, a new figure is created.

    Returns
    -------
    figure
        The matplotlib `Figure`: a new one, or that of `ax`.

    Examples
    --------
    >>> from stopwise.plots import guarantees
    >>> draws = [[0.04, 0.08], [0.03, 0.09], [0.05, 0.07]]
    >>> figure = guarantees([0.05, 0.1], {"a model": {"textbook": [0.2, 0.3], "calibrated": draws}})
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['textbook', 'calibrated', 'as guaranteed']
    """
    levels = np.asarray(levels, dtype=float)
    if levels.ndim != 1 or len(levels) < 2 or (np.diff(levels) <= 0).any() or not 0 < levels[0] < 1:
        raise ValueError(f"`levels` must be two or more increasing rates in (0, 1); got {levels.tolist()}.")
    if not isinstance(panels, Mapping) or not panels:
        raise ValueError(f"`panels` must be a dict {{panel: {{method: error rates}}}}; got {panels!r:.60}.")
    rates = {
        panel: {name: _rates(name, values, len(levels)) for name, values in lines.items()}
        for panel, lines in panels.items()
    }
    names = list(dict.fromkeys(name for lines in rates.values() for name in lines))
    colors = {name: COLORS[(1 - i) % len(COLORS)] for i, name in enumerate(names)}
    canvas = drawing(ax, len(rates), width=4.2, height=4.0)
    markers = {name: MARKERS[i % len(MARKERS)] for i, name in enumerate(names)}
    for panel, (heading, lines) in zip(canvas.panels, rates.items()):
        _draw(panel, levels, lines, colors, markers)
        panel.set_title(heading, fontsize=10)
    canvas.panels[0].set_ylabel("true error rate (%)")
    handles = [
        Line2D([], [], color=color, lw=2.2, marker=markers[name], ms=4, label=name)
        for name, color in colors.items()
    ]
    handles.append(Line2D([], [], color=TRUTH_COLOR, ls=DASHES, lw=1.4, label="as guaranteed"))
    return canvas.finish(title, handles)


def _draw(
    panel: Axes,
    levels: np.ndarray,
    lines: Mapping[str, np.ndarray],
    colors: Mapping[str, str],
    markers: Mapping[str, str],
) -> None:
    top = 100 * max(levels[-1], max(float(np.percentile(draws, 95)) for draws in lines.values())) * 1.1
    right = 105 * levels[-1]
    panel.fill_between([0, right], [0, right], top, color=VIOLATED_COLOR, lw=0, zorder=0)
    panel.plot([0, right], [0, right], color=TRUTH_COLOR, ls=DASHES, lw=1.4, zorder=4)
    panel.annotate(
        "guarantee violated", (0.03, 0.97), xycoords="axes fraction", va="top", fontsize=9, color="#a0412a"
    )
    panel.annotate(
        "guarantee kept", (0.97, 0.03), xycoords="axes fraction", ha="right", fontsize=9, color="0.35"
    )
    for name, draws in lines.items():
        low, middle, high = 100 * np.percentile(draws, [BAND[0], 50, BAND[1]], axis=0)
        panel.plot(100 * levels, middle, color=colors[name], lw=2.2, marker=markers[name], ms=4, zorder=3)
        panel.fill_between(100 * levels, low, high, color=colors[name], alpha=0.25, lw=0, zorder=2)
    panel.set(xlabel="guaranteed error rate (%)", xlim=(0, right), ylim=(0, top))
    panel.yaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10]))


def _rates(name: str, values: Any, count: int) -> np.ndarray:
    """Return error rates as (draws, A)."""
    rates = np.atleast_2d(np.asarray(values, dtype=float))
    if rates.ndim != 2 or rates.shape[1] != count or not rates.size:
        raise ValueError(
            f"the rates of {name!r} must have shape ({count},) or (draws, {count}); got {rates.shape}."
        )
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError(
            f"the rates of {name!r} must be in [0, 1]; got values from {rates.min():g} to {rates.max():g}."
        )
    return rates
