"""Plot of speed-accuracy tradeoff curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from stopwise.plots.style import DASHES, GRAY, TRUTH_COLOR, figure_with_panels, finish, line_style, log_axis

MAX_CURVE_POINTS = 2000


def sat_curves(
    curves: Mapping[str, Any], oracle: Any = None, *, log: bool = True, title: str | None = None
) -> Figure:
    """Plot speed-accuracy tradeoff curves: macro error rate against mean hitting time.

    Curves further to the lower left are better. The time axis ends shortly after the last curve reaches its
    minimal error, because waiting longer does not reduce the error further. The legend lists the curves from
    the worst to the best mean error.

    Parameters
    ----------
    curves
        Curves by model name: objects with the arrays `mean_time` and `error`, as returned by
        `stopwise.metrics.sat_curve`.
    oracle
        The curve of the true LLRs, shown as a black dashed line. It is the best possible curve on average.
    log
        Whether the error axis is logarithmic. An error of exactly 0 is then shown on a labeled line below all
        other errors.
    title
        Title of the figure.

    Returns
    -------
    figure
        A matplotlib `Figure`.

    Examples
    --------
    >>> from stopwise.datasets import gaussian
    >>> from stopwise.metrics import sat_curve
    >>> from stopwise.plots import sat_curves
    >>> X, y, truth = gaussian(n=200, offset=1.0, seed=0)
    >>> figure = sat_curves({"last sample": sat_curve(X[..., :2], y)}, oracle=sat_curve(truth, y))
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['last sample', 'true LLR']
    """
    if not isinstance(curves, Mapping) or not curves:
        raise ValueError(f"`curves` must be a dict {{model name: curve}}; got {curves!r:.60}.")
    points = {name: _curve_points(name, curve) for name, curve in curves.items()}
    styles = {name: line_style(i) for i, name in enumerate(points)}
    if oracle is not None:
        if "true LLR" in points:
            raise ValueError("the name 'true LLR' in `curves` is reserved for the oracle. Rename the curve.")
        styles["true LLR"] = {"color": TRUTH_COLOR, "lw": 1.6, "ls": DASHES, "zorder": 4}
        points["true LLR"] = _curve_points("oracle", oracle)
    figure, (panel,) = figure_with_panels(1, width=6.4, height=3.8)
    floor = _error_floor([error for _, error in points.values()]) if log else 0.0
    end = 1 + 1.08 * (max(_time_of_min_error(*curve) for curve in points.values()) - 1) + 1e-9
    # From worst to best, as the lines are ordered from top to bottom in the plot.
    names = sorted(points, key=lambda name: -_mean_error(*points[name], end))
    for name in names:
        time, error = _within(*points[name], end)
        panel.plot(time, 100 * np.maximum(error, floor), drawstyle="steps-post", label=name, **styles[name])
    if log:
        log_axis(panel)
    if log and any((error == 0).any() for _, error in points.values()):
        panel.axhline(100 * floor, color=GRAY, lw=0.8, ls=":", zorder=1)
        panel.annotate(
            "no errors (0 %)", (0, 100 * floor), (4, 4), xycoords=("axes fraction", "data"),
            textcoords="offset points", fontsize=9, color="0.35",
        )  # fmt: skip
    panel.set(xlabel="mean hitting time (steps)", ylabel="macro error (%)", xlim=(1, end))
    figure.legend(loc="outside right center", frameon=False, labelcolor="linecolor")
    finish(figure, title, [])
    return figure


def _curve_points(name: str, curve: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return times (P,) and errors (P,) of a curve."""
    if not hasattr(curve, "mean_time") or not hasattr(curve, "error"):
        raise ValueError(
            f"curve {name!r} must have the arrays `mean_time` and `error`; got {type(curve).__name__}. "
            "Compute it with stopwise.metrics.sat_curve(scores, y)."
        )
    time, error = np.asarray(curve.mean_time, float), np.asarray(curve.error, float)
    if time.ndim != 1 or time.shape != error.shape or not time.size:
        raise ValueError(
            f"curve {name!r} needs `mean_time` and `error` of the same shape (P,), P >= 1; got {time.shape} "
            f"and {error.shape}."
        )
    if (
        not np.isfinite([time, error]).all()
        or error.min() < 0
        or error.max() > 1
        or (np.diff(time) < 0).any()
    ):
        raise ValueError(
            f"curve {name!r} must have finite `error` in [0, 1] and finite, non-decreasing `mean_time`."
        )
    return time, error


def _error_floor(errors: Iterable[np.ndarray]) -> float:
    """Return the height for an error of 0 on a logarithmic axis: half the smallest positive error."""
    positive = np.concatenate([error[error > 0] for error in errors])
    return float(positive.min()) / 2 if positive.size else 1e-3


def _mean_error(time: np.ndarray, error: np.ndarray, end: float) -> float:
    """Return the mean error over [first time, end] of the step function."""
    widths = np.diff(np.minimum(time, end), append=max(end, time[0] + 1e-12))
    return float(error @ widths / widths.sum())


def _time_of_min_error(time: np.ndarray, error: np.ndarray) -> float:
    """Return the first time at which the error is within 5 % of its minimum."""
    return float(time[np.argmax(error <= 1.05 * error.min())])


def _within(time: np.ndarray, error: np.ndarray, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the step function up to `end`, with at most `MAX_CURVE_POINTS` points plus the end."""
    changes = np.append(True, error[1:] != error[:-1]) & (time <= end)
    changes[0] = True
    time, error = time[changes], error[changes]
    if len(time) > MAX_CURVE_POINTS:
        grid = np.linspace(time[0], end, MAX_CURVE_POINTS)
        keep = np.unique(np.searchsorted(time, grid, side="right") - 1)
        time, error = time[keep], error[keep]
    return np.append(time, max(end, time[-1])), np.append(error, error[-1])
