"""Example series: a sample that shows every kind of decision, with its scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.decision import Decisions
from stopwise.reporting.packing import pack

MOST_NUMBERS = 300_000  # scores in the page, 2 bytes each
FEWEST, MOST = 12, 200  # series
MOST_STEPS = 300  # of a series; longer ones are drawn with fewer points


def choose_examples(decisions: Decisions, y: np.ndarray, classes: int) -> np.ndarray:
    """Return the indices of example series, ascending.

    Every pair of true and decided class gets its share in turn, wrong decisions first; within a pair, the
    series are spread over the stopping times.

    Parameters
    ----------
    decisions
        Decisions with class indices as labels.
    y
        (n,) true class indices.
    classes
        Number of classes K.
    """
    points = min(int(decisions.lengths.max()), MOST_STEPS)
    count = int(np.clip(MOST_NUMBERS // (points * classes), FEWEST, MOST))
    pair = y * classes + decisions.labels
    queues = [_spread(np.flatnonzero(pair == one), decisions.times) for one in np.unique(pair)]
    queues.sort(key=lambda rows: y[rows[0]] == decisions.labels[rows[0]])
    turns = [(turn, place, row) for place, rows in enumerate(queues) for turn, row in enumerate(rows[:count])]
    return np.sort([row for _, _, row in sorted(turns)[:count]])


def describe_examples(scores: np.ndarray, lengths: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """Return the examples for the page.

    Each score is stored as its distance from the highest score of its step, in multiples of the `unit` of
    the series.

    Parameters
    ----------
    scores
        (n, T, K) scores.
    lengths
        (n,) lengths of the series.
    rows
        (m,) indices of the examples.
    """
    steps = drawn_steps(int(lengths.max()))
    points, units, parts = [], [], []
    for row in rows:
        own = steps[steps <= lengths[row]]
        values = scores[row, own - 1].astype(np.float64)  # (s, K)
        below = values.max(-1, keepdims=True) - values
        units.append(float(below.max()) / 65535 or 1.0)
        points.append(len(own))
        parts.append(np.round(below / units[-1]).astype(np.int64).ravel())
    return {
        "rows": rows.tolist(),
        "steps": steps.tolist(),
        "points": points,
        "units": [float(f"{unit:.6g}") for unit in units],
        "below": pack(np.concatenate(parts)),
    }


def drawn_steps(longest: int) -> np.ndarray:
    """Return the steps that are drawn, counted from 1, for series of up to `longest` steps.

    Examples
    --------
    >>> drawn_steps(4).tolist(), len(drawn_steps(100_000))
    ([1, 2, 3, 4], 300)
    """
    return np.unique(np.linspace(1, longest, min(longest, MOST_STEPS)).round().astype(np.int64))


def _spread(rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return rows in an order in which the first ones are far apart in time: slowest, fastest, middle, …"""
    ordered = rows[np.argsort(times[rows], kind="stable")]
    order: list[int] = [len(ordered) - 1, 0] if len(ordered) > 1 else [0]
    gaps = [(0, len(ordered) - 1)]
    while gaps and len(order) < MOST:
        low, high = gaps.pop(0)
        middle = (low + high) // 2
        if middle > low:
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return ordered[order]
