"""Bar plots of LLR errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stopwise.plots.style import COLORS, DASHES, TRUTH_COLOR, drawing, mean_and_sem
from stopwise.validation import check_real


def llr_error_bars(
    errors: Mapping[str, float | Sequence[float]],
    *,
    limit: float | None = None,
    trivial: float | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Plot mean absolute LLR errors as horizontal bars, with the smallest error on top.

    Parameters
    ----------
    errors
        Errors in nats by model name: one number, or the errors of several runs. For several runs, the mean
        and its standard error are shown.
    limit
        The statistical limit, shown as a line: the smallest possible error with the given amount of data.
    trivial
        The error of always predicting 0, shown as a line.
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
    >>> from stopwise.plots import llr_error_bars
    >>> figure = llr_error_bars({"lstm": 88.0, "accumulator": [1.8, 2.0, 1.9]}, limit=1.61)
    >>> [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    ['accumulator', 'lstm']
    """
    means, sems = _means_and_sems(errors)
    names = sorted(means, key=means.__getitem__)
    canvas = drawing(ax, 1, width=6.2, height=1.1 + 0.42 * len(names))
    (panel,) = canvas.panels
    values = [means[name] for name in names]
    whiskers = [sems[name] for name in names]
    rows = np.arange(len(names))
    panel.barh(rows, values, height=0.66, color=COLORS[0])
    panel.errorbar(values, rows, xerr=whiskers, fmt="none", ecolor="0.2", elinewidth=1.4, capsize=3)
    for row, value, whisker in zip(rows, values, whiskers):
        text = _three_digits(value, whisker)
        # The white background keeps the number readable where a reference line crosses it.
        panel.annotate(
            text, (value + whisker, row), (6, 0), textcoords="offset points", va="center",
            zorder=5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )  # fmt: skip
    panel.set_yticks(rows, names)
    panel.invert_yaxis()
    references = {"limit": ("statistical limit", limit), "trivial": ("predicting 0", trivial)}
    lines = {
        text: check_real(argument, value, 0.0, open_high=True)
        for argument, (text, value) in references.items()
        if value is not None
    }
    for name, value in lines.items():
        panel.axvline(value, color=TRUTH_COLOR, ls=DASHES, lw=1.2, zorder=3)
        panel.annotate(
            f"{name}: {value:.3g}", (value, 1), (0, 3), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", fontsize=9,
        )  # fmt: skip
    panel.set_xlim(0, 1.18 * max(*values, *lines.values(), 1e-12))
    panel.set_xlabel("mean absolute LLR error (nats)")
    panel.spines["left"].set_visible(False)
    panel.tick_params(axis="y", length=0)
    return canvas.finish(title, [])


def _means_and_sems(errors: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the mean of the runs of each model and its standard error."""
    if not isinstance(errors, Mapping) or not errors:
        raise ValueError(
            f"`errors` must be a dict {{model name: error or errors of runs}}; got {errors!r:.60}."
        )
    means, sems = {}, {}
    for name, value in errors.items():
        runs = np.atleast_1d(np.asarray(value, dtype=float))
        if runs.ndim != 1 or not runs.size or not np.isfinite(runs).all() or runs.min() < 0:
            raise ValueError(f"`errors[{name!r}]` must be one or more finite numbers >= 0; got {value!r}.")
        means[name], sems[name] = map(float, mean_and_sem(runs))
    return means, sems


def _three_digits(value: float, sem: float) -> str:
    """Format a value with three significant digits, followed by its standard error if that is not 0.

    Both have the same number of decimal places, enough to show at least one digit of the standard error.

    Examples
    --------
    >>> _three_digits(38.71, 7.2), _three_digits(11.45, 0.04), _three_digits(0.5, 0.0)
    ('38.7 ± 7.2', '11.45 ± 0.04', '0.500')
    """
    places = _places(value, 3)
    if not sem:
        return f"{value:.{places}f}"
    places = max(places, _places(sem, 1))
    return f"{value:.{places}f} ± {sem:.{places}f}"


def _places(value: float, digits: int) -> int:
    """Return the number of decimal places needed to show `digits` significant digits."""
    return max(0, digits - 1 - int(np.floor(np.log10(value)))) if value > 0 else 0
