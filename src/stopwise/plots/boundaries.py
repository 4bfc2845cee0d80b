"""Where rules stop: their thresholds over time, with log-likelihood ratios (LLRs) walking between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stopwise.plots.style import COLOURS, QUIET, figure_with_panels, finish
from stopwise.rules import Rule
from stopwise.validation import check_class_indices, check_integer, check_real, check_scores

# LLRs at which a rule is asked, on each side of 0.
PROBES = 1000
# Blue and vermilion are the classes.
RULE_COLOURS = ("black", *COLOURS[2:])
RULE_DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), "-.")


def boundaries(
    rules: Mapping[str, Rule],
    scores: Any = None,
    y: Any = None,
    *,
    steps: int | None = None,
    reach: float | None = None,
    series: int = 8,
    title: str | None = None,
) -> Figure:
    """Draw where rules for two classes stop: above the upper line class 1 is accepted, below the lower 0.

    The lines are found by asking each rule about a grid of LLRs at each step, so any rule can be drawn.

    Parameters
    ----------
    rules
        Rules by name.
    scores
        (n, T, 2) scores whose LLRs are drawn between the lines; None for none. NaN past a series' end.
    y
        (n,) class indices that colour the LLRs.
    steps
        Number of steps; None: those of `scores`.
    reach
        The largest LLR to look at; None: 1.2 times the highest line below 20 nats.
    series
        How many series are drawn, the first ones.
    title
        Title of the figure.

    Examples
    --------
    >>> from stopwise.rules import SPRT, Tapering
    >>> figure = boundaries({"constant": SPRT(4.0), "tapering": Tapering(6.0, horizon=50)}, steps=50)
    >>> figure.axes[0].get_ylabel()
    'LLR of class 1 over class 0 (nats)'
    """
    if not isinstance(rules, Mapping) or not rules:
        raise ValueError(f"`rules` must be a dict {{name: rule}}; got {rules!r:.60}.")
    walks = None if scores is None else _walks(scores)
    if walks is None and steps is None:
        raise ValueError("`steps` is None and so are `scores`: give either, to tell how long the axis is.")
    count = max(map(len, walks)) if walks is not None and steps is None else check_integer("steps", steps, 1)
    labels = None if y is None or walks is None else check_class_indices(y, len(walks), 2)
    top = 20.0 if reach is None else check_real("reach", reach, 0, open_low=True, open_high=True)
    lines = {name: stopping_lines(rule, count, top) for name, rule in rules.items()}
    if reach is None:
        heights = np.abs(np.concatenate([np.ravel(pair) for pair in lines.values()]))
        top = 1.2 * max(np.max(heights[np.isfinite(heights)], initial=0.0), 1.0)
    figure, (panel,) = figure_with_panels(1, width=7.0, height=4.2)
    time = np.arange(1, count + 1)
    panel.axhline(0, color="0.85", lw=0.8, zorder=0)
    for i, walk in enumerate((walks or [])[: check_integer("series", series, 0)]):
        colour = QUIET if labels is None else COLOURS[1 - labels[i]]
        panel.plot(time[: len(walk)], walk[:count], color=colour, lw=1, alpha=0.5, zorder=1)
    handles = []
    for i, (name, (lower, upper)) in enumerate(lines.items()):
        style: dict[str, Any] = {
            "color": RULE_COLOURS[i % len(RULE_COLOURS)], "ls": RULE_DASHES[i % len(RULE_DASHES)], "lw": 2.2
        }  # fmt: skip
        panel.plot(time, upper, **style, zorder=3)
        panel.plot(time, lower, **style, zorder=3)
        handles.append(Line2D([], [], **style, label=name))
    for c, height, side in ((1, 0.97, "top"), (0, 0.03, "bottom")):
        colour = "0.35" if labels is None else COLOURS[1 - c]
        panel.text(
            0.99, height, f"accept class {c}", transform=panel.transAxes, ha="right", va=side, color=colour,
            style="italic", bbox={"color": "white", "alpha": 0.8, "pad": 1},
        )  # fmt: skip
    panel.set(xlabel="step", ylabel="LLR of class 1 over class 0 (nats)", xlim=(1, max(count, 2)))
    panel.set_ylim(-top, top)
    finish(figure, title, handles)
    return figure


def stopping_lines(rule: Rule, steps: int, reach: float = 20.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the LLRs (T,) at or below which class 0, and at or above which class 1, is accepted.

    Parameters
    ----------
    rule
        A rule for two classes.
    steps
        Number of steps T.
    reach
        LLRs from -reach to reach are looked at; a line beyond them is NaN.

    Examples
    --------
    >>> from stopwise.rules import Tapering
    >>> lower, upper = stopping_lines(Tapering(4.0, horizon=4), steps=4)
    >>> upper.round(1)
    array([3., 2., 1., 0.])
    """
    if not isinstance(rule, Rule):
        raise TypeError(f"a line can be drawn of a stopping rule such as SPRT(4.0); got {rule!r}.")
    llr = np.linspace(-reach, reach, 2 * PROBES + 1)
    probes = np.stack([np.zeros_like(llr), llr], -1)  # (P, 2)
    lower, upper = np.full(steps, np.nan), np.full(steps, np.nan)
    for t in range(1, steps + 1):
        accepted = rule.accept(probes, t)  # (P,)
        waits = np.flatnonzero(accepted < 0)
        if not len(waits):  # both lines are where the answer turns
            ones = np.flatnonzero(accepted == 1)
            lower[t - 1] = upper[t - 1] = llr[ones[0]] if len(ones) else np.nan
            continue
        if waits[0] > 0:
            lower[t - 1] = llr[waits[0] - 1]
        if waits[-1] < len(llr) - 1:
            upper[t - 1] = llr[waits[-1] + 1]
    return lower, upper


def _walks(scores: Any) -> list[np.ndarray]:
    """Return the LLRs of each series up to its end."""
    array = np.asarray(scores)
    lengths = None
    if array.ndim == 3 and array.dtype.kind == "f":
        lengths = np.maximum(np.isfinite(array).all(-1).cumprod(1).sum(1), 1)
    array, lengths = check_scores(array, lengths)
    if array.shape[2] != 2:
        raise ValueError(f"`scores` must be of 2 classes for a picture of thresholds; got {array.shape[2]}.")
    return [row[:length, 1] - row[:length, 0] for row, length in zip(array, lengths)]
