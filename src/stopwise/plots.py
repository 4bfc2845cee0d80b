"""Pictures of log-likelihood ratios (LLRs) and of the speed-accuracy tradeoff.

Every function returns a matplotlib Figure and leaves pyplot's global state alone; `save` writes it. Colours
are told apart by the colour-blind (Okabe and Ito); the truth is always black and dashed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from stopwise.datasets.aside import written_aside
from stopwise.metrics import llr_error
from stopwise.validation import check_class_indices, check_integer, check_real

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
TRUTH = "black"
DASHES = (0, (4, 3))
QUIET = "0.55"
DENSITY = LinearSegmentedColormap.from_list("density", ["#A6CEE6", COLOURS[0], "#00304D"])
MOST_CURVE_POINTS = 2000


def llr_trajectories(
    estimates: Mapping[str, Any],
    truth: Any = None,
    y: Any = None,
    *,
    pair: tuple[int, int] = (1, 0),
    series: int | Sequence[int] = 6,
    thresholds: float | Sequence[float] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw LLRs over time, one panel a model on a common axis: a saturating model stays flat.

    Parameters
    ----------
    estimates
        Scores (n, T, K) by model name; steps past a series' end are NaN.
    truth
        (n, T, K) exact scores, drawn dashed behind the estimates; None if not known.
    y
        (n,) class indices that colour the lines; None draws all of them in one colour.
    pair
        The classes (k, l) of the LLR log p(x | k) / p(x | l).
    series
        How many series, taken from the classes of the pair in turn; or the indices of the series.
    thresholds
        Drawn as lines at plus and minus each; infinite ones are left out.
    title
        Title of the figure.

    Examples
    --------
    >>> from stopwise.datasets import gaussian
    >>> X, y, truth = gaussian(n=20, seed=0)
    >>> figure = llr_trajectories({"saturating": 30 * np.tanh(truth / 30)}, truth, y, thresholds=5.0)
    >>> figure.axes[0].get_title(), figure.axes[0].get_ylabel()
    ('saturating', 'LLR of class 1 over class 0 (nats)')
    """
    scores, exact = _check_estimates(estimates, truth)
    n, steps, classes = next(iter(scores.values())).shape
    k, l = _check_pair(pair, classes)  # noqa: E741
    labels = None if y is None else check_class_indices(y, n, classes)
    chosen = _choose_series(series, labels, (l, k), n)
    levels = _finite_levels(thresholds)
    figure, panels = _panels(len(scores), width=3.1, height=3.3, sharey=True)
    time = np.arange(1, steps + 1)
    for panel, (name, estimate) in zip(panels, scores.items()):
        for i in chosen:
            colour = _class_colour(None if labels is None else int(labels[i]), (l, k))
            if exact is not None:
                panel.plot(time, exact[i, :, k] - exact[i, :, l], color=TRUTH, ls=DASHES, lw=0.9, zorder=2)
            panel.plot(
                time, estimate[i, :, k] - estimate[i, :, l], color=colour, lw=2.4, alpha=0.75, zorder=3
            )
        panel.axhline(0, color="0.85", lw=0.8, zorder=0)
        for level in levels:
            panel.axhline(level, color=QUIET, lw=1, ls=":", zorder=1)
            panel.axhline(-level, color=QUIET, lw=1, ls=":", zorder=1)
        panel.set_title(name)
        panel.set_xlabel("step")
        panel.set_xlim(1, max(steps, 2))
    panels[0].set_ylabel(f"LLR of class {k} over class {l} (nats)")
    present = sorted({int(label) for label in labels[chosen]}) if labels is not None else []
    handles = [Line2D([], [], color=_class_colour(c, (l, k)), lw=2, label=f"true class {c}") for c in present]
    if exact is not None:
        handles.append(Line2D([], [], color=TRUTH, ls=DASHES, lw=1, label="true LLR"))
    if levels:
        handles.append(Line2D([], [], color=QUIET, ls=":", lw=1, label="threshold"))
    _finish(figure, title, handles)
    return figure


def llr_scatter(
    estimates: Mapping[str, Any],
    truth: Any,
    *,
    points: int = 20_000,
    seed: int = 0,
    title: str | None = None,
) -> Figure:
    """Draw estimated against true LLRs, one panel a model: on the diagonal is right, flat is saturated.

    The slope in each panel is the regression slope over all pairs of classes, steps and series.

    Parameters
    ----------
    estimates
        Scores (n, T, K) by model name; steps past a series' end are NaN.
    truth
        (n, T, K) exact scores.
    points
        How many LLRs to draw at most, a random sample of all of them.
    seed
        What the sample is drawn from.
    title
        Title of the figure.

    Examples
    --------
    >>> from stopwise.datasets import gaussian
    >>> X, y, truth = gaussian(n=50, seed=0)
    >>> figure = llr_scatter({"half as sure": 0.5 * truth}, truth)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['slope 0.50', 'exact']
    """
    scores, exact = _check_estimates(estimates, truth)
    if exact is None:
        raise ValueError(
            "`truth` must be the exact scores (n, T, K); got None. Use llr_trajectories without it."
        )
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    lengths = np.isfinite(exact[:, :, 0]).sum(axis=1)
    inside = np.arange(exact.shape[1]) < lengths[:, None]  # (n, T)
    for name, array in {**scores, "truth": exact}.items():
        if np.isnan(array[inside]).any():
            raise ValueError(
                f"{name!r} holds NaN before the end of a series, as `truth` has it. Mend the scores."
            )
    rows = np.argwhere(inside)  # (m, 2) series and step
    first, second = np.triu_indices(exact.shape[2], k=1)
    total = len(rows) * len(first)
    sample = rng.choice(total, min(check_integer("points", points, 1), total), replace=False)
    (i, t), pairs = rows[sample // len(first)].T, sample % len(first)

    def ratios(values: np.ndarray) -> np.ndarray:
        return values[i, t, second[pairs]] - values[i, t, first[pairs]]

    true = ratios(exact)
    drawn = {name: ratios(estimate) for name, estimate in scores.items()}
    reach = 1.05 * max(max(np.abs(values).max() for values in (true, *drawn.values())), 1e-12)
    extent = (-reach, reach, -reach, reach)
    figure, panels = _panels(len(scores), width=3.1, height=3.6, sharey=True)
    for panel, (name, estimate) in zip(panels, drawn.items()):
        panel.hexbin(
            true, estimate, gridsize=50, extent=extent, mincnt=1, bins="log", cmap=DENSITY, linewidths=0.1
        )
        panel.plot([-reach, reach], [-reach, reach], color=TRUTH, ls=DASHES, lw=1)
        slope = llr_error(scores[name], exact, lengths).slope
        panel.text(0.05, 0.94, f"slope {slope:.2f}", transform=panel.transAxes, va="top", weight="bold")
        panel.set(title=name, xlabel="true LLR (nats)", xlim=extent[:2], ylim=extent[2:], box_aspect=1)
    panels[0].set_ylabel("estimated LLR (nats)")
    panels[0].annotate("exact", (-0.6 * reach, -0.6 * reach), (5, -3), textcoords="offset points", va="top")
    _finish(figure, title, [])
    return figure


def sat_curves(
    curves: Mapping[str, Any], oracle: Any = None, *, log: bool = True, title: str | None = None
) -> Figure:
    """Draw speed-accuracy tradeoff curves: macro error against mean hitting time; lower left is better.

    The time axis ends a little after the last curve has come to its least error: waiting longer gains
    nothing. The legend lists the curves from worst to best mean error.

    Parameters
    ----------
    curves
        By model name, objects with the arrays `mean_time` and `error`, as `stopwise.metrics.sat_curve` gives.
    oracle
        The curve of the true LLRs, drawn black and dashed: nothing can be better on average.
    log
        Logarithmic error axis. An error of exactly 0 is drawn on a floor line below all others, marked so.
    title
        Title of the figure.

    Examples
    --------
    >>> from stopwise.datasets import gaussian
    >>> from stopwise.metrics import sat_curve
    >>> X, y, truth = gaussian(n=200, offset=1.0, seed=0)
    >>> figure = sat_curves({"last sample": sat_curve(X[..., :2], y)}, oracle=sat_curve(truth, y))
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['last sample', 'true LLR']
    """
    if not isinstance(curves, Mapping) or not curves:
        raise ValueError(f"`curves` must be a dict {{model name: curve}}; got {curves!r:.60}.")
    points = {name: _curve_points(name, curve) for name, curve in curves.items()}
    styles = {name: _line_style(i) for i, name in enumerate(points)}
    if oracle is not None:
        if "true LLR" in points:
            raise ValueError("the name 'true LLR' in `curves` is kept for the oracle. Rename the curve.")
        styles["true LLR"] = {"color": TRUTH, "lw": 1.6, "ls": DASHES, "zorder": 4}
        points["true LLR"] = _curve_points("oracle", oracle)
    figure, (panel,) = _panels(1, width=6.4, height=3.8)
    floor = _error_floor([error for _, error in points.values()]) if log else 0.0
    end = 1 + 1.08 * (max(_time_of_least_error(*curve) for curve in points.values()) - 1) + 1e-9
    # From worst to best, the order in which the lines lie above one another.
    order = sorted(points, key=lambda name: -_mean_error(*points[name], end))
    for name in order:
        time, error = _within(*points[name], end)
        panel.plot(time, 100 * np.maximum(error, floor), drawstyle="steps-post", label=name, **styles[name])
    if log:
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if log and any((error == 0).any() for _, error in points.values()):
        panel.axhline(100 * floor, color=QUIET, lw=0.8, ls=":", zorder=1)
        panel.annotate(
            "no error seen (0 %)", (0, 100 * floor), (4, 4), xycoords=("axes fraction", "data"),
            textcoords="offset points", fontsize=9, color="0.35",
        )  # fmt: skip
    panel.set(xlabel="mean hitting time (steps)", ylabel="macro error (%)", xlim=(1, end))
    figure.legend(loc="outside right upper", frameon=False, labelcolor="linecolor")
    _finish(figure, title, [])
    return figure


def llr_error_bars(
    errors: Mapping[str, float | Sequence[float]],
    *,
    limit: float | None = None,
    trivial: float | None = None,
    title: str | None = None,
) -> Figure:
    """Draw mean absolute LLR errors as horizontal bars, the best on top.

    Parameters
    ----------
    errors
        By model name, the error in nats, or the errors of several runs: their mean is drawn with the
        standard error of the mean.
    limit
        The least error the amount of data allows, drawn as a line.
    trivial
        The error of predicting 0 always, drawn as a line.
    title
        Title of the figure.

    Examples
    --------
    >>> figure = llr_error_bars({"lstm": 88.0, "accumulator": [1.8, 2.0, 1.9]}, limit=1.61)
    >>> [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    ['accumulator', 'lstm']
    """
    means, sems = _means_and_sems(errors)
    order = sorted(means, key=means.__getitem__)
    figure, (panel,) = _panels(1, width=6.2, height=1.1 + 0.42 * len(order))
    values = [means[name] for name in order]
    whiskers = [sems[name] for name in order]
    rows = np.arange(len(order))
    panel.barh(rows, values, height=0.66, color=COLOURS[0])
    panel.errorbar(values, rows, xerr=whiskers, fmt="none", ecolor="0.2", elinewidth=1.4, capsize=3)
    for row, value, whisker in zip(rows, values, whiskers):
        text = _three_digits(value, whisker)
        # The white ground keeps the number readable where a reference line crosses it.
        panel.annotate(
            text, (value + whisker, row), (6, 0), textcoords="offset points", va="center",
            zorder=5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )  # fmt: skip
    panel.set_yticks(rows, order)
    panel.invert_yaxis()
    references = {"limit": ("statistical limit", limit), "trivial": ("predicting 0", trivial)}
    known = {
        text: check_real(argument, value, 0.0, open_high=True)
        for argument, (text, value) in references.items()
        if value is not None
    }
    for name, value in known.items():
        panel.axvline(value, color=TRUTH, ls=DASHES, lw=1.2, zorder=3)
        panel.annotate(
            f"{name}: {value:.3g}", (value, 1), (0, 3), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", fontsize=9,
        )  # fmt: skip
    panel.set_xlim(0, 1.18 * max(*values, *known.values(), 1e-12))
    panel.set_xlabel("mean absolute LLR error (nats)")
    panel.spines["left"].set_visible(False)
    panel.tick_params(axis="y", length=0)
    _finish(figure, title, [])
    return figure


def save(figure: Figure, path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a figure as ``path.png`` (150 dpi) and ``path.svg``; return both paths.

    The same figure gives the same bytes. Files are written aside and moved into place when whole.

    Examples
    --------
    >>> import tempfile
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


def _check_estimates(
    estimates: Mapping[str, Any], truth: Any
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Return the scores (n, T, K) by model and the exact ones, all of one shape."""
    if not isinstance(estimates, Mapping) or not estimates:
        raise ValueError(
            f"`estimates` must be a dict {{model name: scores (n, T, K)}}; got {estimates!r:.60}."
        )
    named = {f"estimates[{name!r}]": (name, np.asarray(scores)) for name, scores in estimates.items()}
    if truth is not None:
        named["truth"] = ("", np.asarray(truth))
    shape = next(iter(named.values()))[1].shape
    for argument, (_, array) in named.items():
        if array.ndim != 3 or array.shape[2] < 2 or 0 in array.shape:
            raise ValueError(f"`{argument}` must have shape (n, T, K) with K >= 2; got shape {array.shape}.")
        if array.shape != shape:
            raise ValueError(
                f"`{argument}` must have the shape of the other scores, {shape}; got {array.shape}. "
                "All models must be shown the same series."
            )
        if np.isinf(array).any() or not np.isfinite(array).any(axis=(1, 2)).all():
            raise ValueError(
                f"`{argument}` must hold finite scores (NaN past a series' end); it holds infinity, or a "
                "series without any."
            )
    exact = named.pop("truth")[1] if truth is not None else None
    return dict(named.values()), exact


def _check_pair(pair: tuple[int, int], classes: int) -> tuple[int, int]:
    """Return two different class indices."""
    try:
        k, other = (check_integer("pair", c, 0, classes - 1) for c in pair)
    except (TypeError, ValueError):
        k = other = -1
    if k == other:
        raise ValueError(f"`pair` must be two different classes in [0, {classes - 1}]; got {pair!r}.")
    return k, other


def _choose_series(
    series: int | Sequence[int], labels: np.ndarray | None, pair: tuple[int, int], n: int
) -> np.ndarray:
    """Return indices: those asked for, or the first ones of the two classes in turn."""
    if np.ndim(series):
        return np.array([check_integer("series", i, 0, n - 1) for i in series])  # type: ignore[union-attr]
    count = check_integer("series", series, 1)
    if labels is None:
        return np.arange(min(count, n))
    ranks = {int(i): rank for c in pair for rank, i in enumerate(np.flatnonzero(labels == c))}
    if not ranks:
        raise ValueError(
            f"`y` holds no series of the classes {pair} of `pair`. Choose others, or give indices."
        )
    return np.array(sorted(ranks, key=lambda i: (ranks[i], i))[:count])


def _finite_levels(thresholds: float | Sequence[float] | None) -> list[float]:
    """Return the finite thresholds."""
    values = [] if thresholds is None else np.atleast_1d(np.asarray(thresholds)).ravel().tolist()
    return [v for v in (check_real("thresholds", value, 0.0) for value in values) if np.isfinite(v)]


def _class_colour(label: int | None, pair: tuple[int, int]) -> str:
    """Return the colour of a class: vermilion and blue for the pair, grey for others."""
    return {pair[0]: COLOURS[1], pair[1]: COLOURS[0], None: COLOURS[0]}.get(label, QUIET)


def _curve_points(name: str, curve: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return times (P,) and errors (P,) of a curve."""
    if not hasattr(curve, "mean_time") or not hasattr(curve, "error"):
        raise ValueError(
            f"curve {name!r} must have the arrays `mean_time` and `error`; got {type(curve).__name__}. "
            "Make it with stopwise.metrics.sat_curve(scores, y)."
        )
    time, error = np.asarray(curve.mean_time, float), np.asarray(curve.error, float)
    if time.ndim != 1 or time.shape != error.shape or not time.size:
        raise ValueError(
            f"curve {name!r} needs `mean_time` and `error` of one shape (P,), P >= 1; got {time.shape} and "
            f"{error.shape}."
        )
    if (
        not np.isfinite([time, error]).all()
        or error.min() < 0
        or error.max() > 1
        or (np.diff(time) < 0).any()
    ):
        raise ValueError(f"curve {name!r} must have errors in [0, 1] and times that never fall, all finite.")
    return time, error


def _error_floor(errors: Iterable[np.ndarray]) -> float:
    """Return where to draw an error of 0 on a logarithmic axis: half the least error above 0."""
    positive = np.concatenate([error[error > 0] for error in errors])
    return float(positive.min()) / 2 if positive.size else 1e-3


def _mean_error(time: np.ndarray, error: np.ndarray, end: float) -> float:
    """Return the mean error over [first time, end] of the step function."""
    widths = np.diff(np.minimum(time, end), append=max(end, time[0] + 1e-12))
    return float(error @ widths / widths.sum())


def _time_of_least_error(time: np.ndarray, error: np.ndarray) -> float:
    """Return the first time at which the error is within a twentieth of its least."""
    return float(time[np.argmax(error <= 1.05 * error.min())])


def _within(time: np.ndarray, error: np.ndarray, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the step function up to `end`, with no more points than a picture can show."""
    changes = np.append(True, error[1:] != error[:-1]) & (time <= end)
    changes[0] = True
    time, error = time[changes], error[changes]
    if len(time) > MOST_CURVE_POINTS:
        grid = np.linspace(time[0], end, MOST_CURVE_POINTS)
        keep = np.unique(np.searchsorted(time, grid, side="right") - 1)
        time, error = time[keep], error[keep]
    return np.append(time, max(end, time[-1])), np.append(error, error[-1])


def _means_and_sems(errors: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    """Return mean and standard error of the mean of each model's runs; one run has none, 0."""
    if not isinstance(errors, Mapping) or not errors:
        raise ValueError(
            f"`errors` must be a dict {{model name: error or errors of runs}}; got {errors!r:.60}."
        )
    means, sems = {}, {}
    for name, value in errors.items():
        runs = np.atleast_1d(np.asarray(value, dtype=float))
        if runs.ndim != 1 or not runs.size or not np.isfinite(runs).all() or runs.min() < 0:
            raise ValueError(f"`errors[{name!r}]` must be one or more finite numbers >= 0; got {value!r}.")
        means[name] = float(runs.mean())
        sems[name] = float(runs.std(ddof=1) / np.sqrt(runs.size)) if runs.size > 1 else 0.0
    return means, sems


def _three_digits(value: float, sem: float) -> str:
    """Return a value to three digits and its standard error, if any, to as many places."""
    places = max(0, 2 - int(np.floor(np.log10(value)))) if value > 0 else 0
    return f"{value:.{places}f}" + (f" ± {sem:.{places}f}" if sem else "")


def _line_style(i: int) -> dict[str, Any]:
    """Return the style of the i-th model's line; when the colours run out, they start again dash-dotted."""
    ls = "-" if i < len(COLOURS) else "-."
    return {"color": COLOURS[i % len(COLOURS)], "lw": 2, "ls": ls, "zorder": 3}


def _panels(count: int, width: float, height: float, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels, at most four in a row."""
    columns = min(count, 4)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(width * columns, 4.2), height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharey=sharey, squeeze=False).ravel().tolist()
    for spare in grid[count:]:
        spare.remove()
    for panel in grid[:count]:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, grid[:count]


def _finish(figure: Figure, title: str | None, handles: list[Line2D]) -> None:
    """Add the title, and a legend under the panels."""
    if title is not None:
        figure.suptitle(title, weight="bold")
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
