"""Plot of speed-accuracy tradeoff curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stopwise.plots.style import DASHES, GRAY, MARKERS, TRUTH_COLOR, drawing, line_style, log_axis
from stopwise.validation import check_real

MAX_CURVE_POINTS = 2000
AUTO = "auto"


def sat_curves(
    curves: Mapping[str, Any],
    oracle: Any = None,
    *,
    points: Mapping[str, Any] | None = None,
    log: bool = True,
    end: float | str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Plot speed-accuracy tradeoff curves: macro error rate against mean hitting time.

    Curves further to the lower left are better. The legend lists the curves from the worst to the best mean
    error.

    Parameters
    ----------
    curves
        Curves by model name: objects with the arrays `mean_time` and `error`, as returned by
        `stopwise.metrics.sat_curve`.
    oracle
        The curve of the true LLRs, shown as a black dashed line. It is the best possible curve on average.
    points
        Operating points of stopping rules, by name: (mean time, macro error), or what
        `stopwise.metrics.summarize` returns. A point with the name of a curve has the color of that curve.
    log
        Whether the error axis is logarithmic. An error of exactly 0 is then shown on a labeled line below all
        other errors.
    end
        The last mean hitting time to show. None: the slowest of all curves. "auto": shortly after the last
        curve is within 5 % of its minimal error. If curves are cut, the figure says so.
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
    >>> from stopwise.datasets import gaussian
    >>> from stopwise.metrics import sat_curve
    >>> from stopwise.plots import sat_curves
    >>> X, y, truth = gaussian(n=200, offset=1.0, seed=0)
    >>> curves = {"last sample": sat_curve(X[..., :2], y)}
    >>> figure = sat_curves(curves, oracle=sat_curve(truth, y), points={"last sample": (5.2, 0.11)})
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['last sample', 'true LLR', 'last sample: rule in use']
    """
    if not isinstance(curves, Mapping) or not curves:
        raise ValueError(f"`curves` must be a dict {{model name: curve}}; got {curves!r:.60}.")
    drawn = {name: _curve_points(name, curve) for name, curve in curves.items()}
    styles = {name: line_style(i) for i, name in enumerate(drawn)}
    if oracle is not None:
        if "true LLR" in drawn:
            raise ValueError("the name 'true LLR' in `curves` is reserved for the oracle. Rename the curve.")
        styles["true LLR"] = {"color": TRUTH_COLOR, "lw": 1.6, "ls": DASHES, "zorder": 4}
        drawn["true LLR"] = _curve_points("oracle", oracle)
    used = {name: _operating_point(name, point) for name, point in (points or {}).items()}
    canvas = drawing(ax, 1, width=6.4, height=3.8)
    (panel,) = canvas.panels
    errors = [error for _, error in drawn.values()] + [np.array([error]) for _, error in used.values()]
    floor = _error_floor(errors) if log else 0.0
    whole = max([float(time[-1]) for time, _ in drawn.values()] + [time for time, _ in used.values()])
    last = _last_time(end, drawn, [time for time, _ in used.values()], whole)
    # From worst to best, as the lines are ordered from top to bottom in the plot.
    names = sorted(drawn, key=lambda name: -_mean_error(*drawn[name], last))
    handles = []
    for name in names:
        time, error = _within(*drawn[name], last)
        handles += panel.plot(
            time, 100 * np.maximum(error, floor), drawstyle="steps-post", label=name, **styles[name]
        )
    for i, (name, (mean_time, macro_error)) in enumerate(used.items()):
        look = {
            "marker": MARKERS[i % len(MARKERS)], "ms": 8, "ls": "", "mec": "white", "mew": 1.2,
            "color": styles.get(name, {"color": "0.2"})["color"],
        }  # fmt: skip
        panel.plot([mean_time], [100 * max(macro_error, floor)], **look, zorder=6, clip_on=False)
        label = f"{name}: rule in use" if name in styles else name
        handles.append(Line2D([], [], **look, label=label))
    if log:
        log_axis(panel)
    if log and any((error == 0).any() for error in errors):
        panel.axhline(100 * floor, color=GRAY, lw=0.8, ls=":", zorder=1)
        panel.annotate(
            "no errors (0 %)", (0, 100 * floor), (4, 4), xycoords=("axes fraction", "data"),
            textcoords="offset points", fontsize=9, color="0.35",
        )  # fmt: skip
    panel.set(xlabel="mean hitting time (steps)", ylabel="macro error (%)", xlim=(1, max(last, 1 + 1e-9)))
    if last < whole:
        panel.annotate(
            f"cut at {last:.3g} of {whole:.3g} steps", (1, 1), (-2, -2), xycoords="axes fraction",
            textcoords="offset points", ha="right", va="top", fontsize=9, color="0.35",
        )  # fmt: skip
    return canvas.finish(title, handles, "outside right center")


def _last_time(
    end: float | str | None,
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]],
    times: list[float],
    whole: float,
) -> float:
    """Return the last mean hitting time to show, at most that of the slowest curve."""
    if end is None:
        return whole
    if isinstance(end, str):
        if end != AUTO:
            raise ValueError(f"`end` must be a mean hitting time, {AUTO!r} or None; got {end!r}.")
        best = max(_time_of_min_error(*curve) for curve in curves.values())
        return min(whole, 1 + 1.08 * (max([best, *times]) - 1))
    return min(whole, check_real("end", end, 1, open_low=True, open_high=True))


def _operating_point(name: str, point: Any) -> tuple[float, float]:
    """Return the mean time and the macro error of an operating point."""
    try:
        pair = (point["mean_time"], point["macro_error"]) if isinstance(point, Mapping) else tuple(point)
        time, error = pair
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"`points[{name!r}]` must be (mean time, macro error), or what stopwise.metrics.summarize "
            f"returns; got {point!r:.80}."
        ) from None
    return (
        check_real(f"points[{name!r}]", time, 1, open_high=True),
        check_real(f"points[{name!r}]", error, 0, 1),
    )


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
