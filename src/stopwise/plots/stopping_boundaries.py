"""Plot of stopping boundaries: thresholds of rules and log-likelihood ratios (LLRs) over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stopwise.plots.classes import class_indices, class_names, llr_label
from stopwise.plots.style import COLORS, GRAY, drawing
from stopwise.rules import Rule
from stopwise.validation import check_integer, check_real, check_scores

# Number of LLRs on each side of 0 at which a rule is evaluated.
PROBES = 1000
# Excludes blue and vermilion, which are the colors of the classes.
RULE_COLORS = ("black", *COLORS[2:])
RULE_DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), "-.")


def stopping_boundaries(
    rules: Mapping[str, Rule],
    scores: Any = None,
    y: Any = None,
    *,
    steps: int | None = None,
    max_llr: float | None = None,
    series: int = 8,
    classes: Sequence[Any] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Plot the thresholds of rules over time, for two classes.

    A rule accepts class 1 above its upper line and class 0 below its lower line. The lines are computed by
    evaluating each rule on a grid of LLRs at each step, so any rule can be plotted.

    Parameters
    ----------
    rules
        Rules by name.
    scores
        (n, T, 2) scores of series whose LLRs are also shown, with NaN after the end of a series; or None.
    y
        (n,) true classes that set the colors of the LLRs: labels if `classes` is given, otherwise indices.
    steps
        Number of steps. If None, the number of steps of `scores`.
    max_llr
        The largest LLR that is evaluated and shown. If None, LLRs up to 20 nats are evaluated, and the axis
        ends at 1.2 times the highest threshold.
    series
        Number of series to show, starting with the first.
    classes
        The labels of the two classes, such as `clf.classes_`. If None, the classes are 0 and 1.
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
    >>> from stopwise.plots import stopping_boundaries
    >>> from stopwise.rules import SPRT, Tapering
    >>> figure = stopping_boundaries({"constant": SPRT(4.0), "tapering": Tapering(6.0, horizon=50)}, steps=50)
    >>> figure.axes[0].get_ylabel()
    'LLR of class 1 over class 0 (nats)'
    """
    if not isinstance(rules, Mapping) or not rules:
        raise ValueError(f"`rules` must be a dict {{name: rule}}; got {rules!r:.60}.")
    llrs = None if scores is None else _llrs(scores)
    if llrs is None and steps is None:
        raise ValueError(
            "`steps` and `scores` are both None. Pass one of them to set the length of the time axis."
        )
    count = max(map(len, llrs)) if llrs is not None and steps is None else check_integer("steps", steps, 1)
    names = class_names(classes, 2)
    labels = None if y is None or llrs is None else class_indices(y, len(llrs), 2, classes)
    top = 20.0 if max_llr is None else check_real("max_llr", max_llr, 0, open_low=True, open_high=True)
    thresholds = {name: stopping_thresholds(rule, count, top) for name, rule in rules.items()}
    if max_llr is None:
        heights = np.abs(np.concatenate([np.ravel(pair) for pair in thresholds.values()]))
        top = 1.2 * max(np.max(heights[np.isfinite(heights)], initial=0.0), 1.0)
    canvas = drawing(ax, 1, width=7.0, height=4.2)
    (panel,) = canvas.panels
    time = np.arange(1, count + 1)
    panel.axhline(0, color="0.85", lw=0.8, zorder=0)
    for i, llr in enumerate((llrs or [])[: check_integer("series", series, 0)]):
        color = GRAY if labels is None else COLORS[1 - labels[i]]
        panel.plot(time[: len(llr)], llr[:count], color=color, lw=1, alpha=0.5, zorder=1)
    handles = []
    for i, (name, (lower, upper)) in enumerate(thresholds.items()):
        style: dict[str, Any] = {
            "color": RULE_COLORS[i % len(RULE_COLORS)], "ls": RULE_DASHES[i % len(RULE_DASHES)], "lw": 2.2
        }  # fmt: skip
        panel.plot(time, upper, **style, zorder=3)
        panel.plot(time, lower, **style, zorder=3)
        handles.append(Line2D([], [], **style, label=name))
    for c, height, side in ((1, 0.97, "top"), (0, 0.03, "bottom")):
        color = "0.35" if labels is None else COLORS[1 - c]
        panel.text(
            0.99, height, f"accept class {names[c]}", transform=panel.transAxes, ha="right", va=side,
            color=color, style="italic", bbox={"color": "white", "alpha": 0.8, "pad": 1},
        )  # fmt: skip
    panel.set(
        xlabel="step", ylabel=llr_label(f"class {names[1]}", f"class {names[0]}"), xlim=(1, max(count, 2))
    )
    panel.set_ylim(-top, top)
    return canvas.finish(title, handles)


def stopping_thresholds(rule: Rule, steps: int, max_llr: float = 20.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the thresholds of a rule on the LLR of class 1 over class 0, at each step.

    Class 0 is accepted at or below the lower threshold, class 1 at or above the upper threshold.

    Parameters
    ----------
    rule
        A rule for two classes.
    steps
        Number of steps T.
    max_llr
        The rule is evaluated at LLRs from `-max_llr` to `max_llr`. Thresholds outside this range are NaN.

    Returns
    -------
    lower, upper
        (T,) lower and upper thresholds.

    Examples
    --------
    >>> from stopwise.plots import stopping_thresholds
    >>> from stopwise.rules import Tapering
    >>> lower, upper = stopping_thresholds(Tapering(4.0, horizon=4), steps=4)
    >>> upper.round(1)
    array([3., 2., 1., 0.])
    """
    if not isinstance(rule, Rule):
        raise TypeError(f"`rule` must be a stopping rule such as SPRT(4.0); got {rule!r}.")
    llr = np.linspace(-max_llr, max_llr, 2 * PROBES + 1)
    probes = np.stack([np.zeros_like(llr), llr], -1)  # (P, 2)
    lower, upper = np.full(steps, np.nan), np.full(steps, np.nan)
    for t in range(1, steps + 1):
        accepted = rule.accept(probes, t)  # (P,)
        waits = np.flatnonzero(accepted < 0)
        if not len(waits):  # the rule always stops: both thresholds are at the change of class
            ones = np.flatnonzero(accepted == 1)
            lower[t - 1] = upper[t - 1] = llr[ones[0]] if len(ones) else np.nan
            continue
        if waits[0] > 0:
            lower[t - 1] = llr[waits[0] - 1]
        if waits[-1] < len(llr) - 1:
            upper[t - 1] = llr[waits[-1] + 1]
    return lower, upper


def _llrs(scores: Any) -> list[np.ndarray]:
    """Return the LLRs (T_i,) of each series up to its end."""
    array = np.asarray(scores)
    lengths = None
    if array.ndim == 3 and array.dtype.kind == "f":
        lengths = np.maximum(np.isfinite(array).all(-1).cumprod(1).sum(1), 1)
    array, lengths = check_scores(array, lengths)
    if array.shape[2] != 2:
        raise ValueError(f"`scores` must have 2 classes; got {array.shape[2]}. Select two classes to plot.")
    return [row[:length, 1] - row[:length, 0] for row, length in zip(array, lengths)]
