"""The exact speed-accuracy tradeoff (SAT) curve for all thresholds at once, without a grid.

With a common threshold a, a series stops at the first step where its lead (the best score minus the second
best) reaches a. Its hitting time changes only where a exceeds a record of the lead, that is, a lead higher
than all earlier ones. Sorting the records of all series therefore gives every point of the curve.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stopwise.metrics.curve import ClassChanges, SATCurve
from stopwise.validation import check_class_indices, check_scores

# Numbers processed at once: limits the memory used on top of the inputs.
CHUNK_NUMBERS = 1_000_000


def sat_curve(scores: Any, y: Any, lengths: Any = None) -> SATCurve:
    """Return the exact speed-accuracy tradeoff curve of the test with one common threshold.

    The curve covers `SPRT(threshold)` for every possible threshold. At the end of a series the decision is
    forced: the class with the highest score.

    Parameters
    ----------
    scores
        (n, T, K) scores of every prefix.
    y
        (n,) true class indices.
    lengths
        (n,) lengths of the series; None means all have T steps.

    Examples
    --------
    >>> scores = [[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 2.5]]]  # leads 1, 3 and 2, 2.5
    >>> curve = sat_curve(scores, [0, 1])
    >>> curve.thresholds
    array([1. , 2. , 2.5, 3. , inf])
    >>> curve.mean_time
    array([1. , 1.5, 2. , 2. , 2. ])
    >>> curve.error  # the first series is wrong after one sample, right after two
    array([0.5, 0. , 0. , 0. , 0. ])
    >>> curve.forced
    array([0. , 0. , 0. , 0.5, 1. ])
    """
    scores, lengths = check_scores(scores, lengths)
    n, _, classes = scores.shape
    if n == 0:
        raise ValueError("`scores` holds no series; pass at least one.")
    y = check_class_indices(y, n, classes)
    steps = int(lengths.max())
    events = _events(*leads_and_errors(scores[:, :steps], y, lengths), lengths)
    new_value = np.append(True, events.value[1:] != events.value[:-1])
    first = np.flatnonzero(new_value)  # (P - 1,) first event of each distinct value

    def running_sum(start: int, change: np.ndarray) -> np.ndarray:
        return np.cumsum(np.append(start, np.add.reduceat(change, first, dtype=np.int64)))  # (P,)

    # Integers until the end, so that rounding errors do not accumulate along the curve.
    total = running_sum(n, events.next_time - events.time)
    squares = running_sum(n, events.next_time**2 - events.time**2)
    changed = np.flatnonzero(events.next_wrong != events.wrong)
    changes = ClassChanges(
        totals=np.bincount(y, minlength=classes),
        start=np.bincount(y[events.series[(events.time == 1) & events.wrong]], minlength=classes),
        points=np.cumsum(new_value)[changed],
        classes=y[events.series[changed]],
        change=np.where(events.next_wrong[changed], 1, -1),
    )
    return SATCurve(
        thresholds=np.append(events.value[first], np.inf),
        mean_time=total / n,
        std_time=np.sqrt(n * squares - total**2) / n,
        error=_macro_error(changes, len(first) + 1),
        forced=running_sum(0, events.final) / n,
        length=steps,
        _changes=changes,
    )


class _Events(NamedTuple):
    """The records of the leads, lowest first.

    Once the threshold exceeds `value`, the series stops at `next_time` instead of at `time`.
    """

    value: np.ndarray  # (m,) the lead at the record
    series: np.ndarray  # (m,)
    time: np.ndarray  # (m,) of the record
    wrong: np.ndarray  # (m,) whether the decision at `time` is wrong
    next_time: np.ndarray  # (m,) of the next record of the series, or of its end
    next_wrong: np.ndarray  # (m,) whether the decision at `next_time` is wrong
    final: np.ndarray  # (m,) True for the last record of a series: the next decision is forced


def _events(leads: np.ndarray, wrong: np.ndarray, lengths: np.ndarray) -> _Events:
    series, step = np.nonzero(leads > _previous_best(leads))  # (m,), sorted by series, then time
    final = np.append(series[1:] != series[:-1], True)
    next_step = np.where(final, lengths[series] - 1, np.roll(step, -1))
    value = leads[series, step]
    ascending = np.argsort(value)
    columns = (value, series, step + 1, wrong[series, step], next_step + 1, wrong[series, next_step], final)
    return _Events(*(column[ascending] for column in columns))


def leads_and_errors(scores: np.ndarray, y: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lead of the best class at each step, and whether that class is wrong: both (n, T).

    After the end of a series the lead is minus infinity.
    """
    n, steps, classes = scores.shape
    leads = np.empty((n, steps))
    wrong = np.empty((n, steps), dtype=bool)
    rows = max(1, CHUNK_NUMBERS // (steps * classes))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        outside = np.arange(steps) >= lengths[part, None]  # (rows, T)
        chunk = scores[part].astype(np.float64)  # (rows, T, K), a copy
        chunk[outside] = 0
        top = chunk.argmax(-1)[..., None]
        best = np.take_along_axis(chunk, top, -1)[..., 0]
        np.put_along_axis(chunk, top, -np.inf, -1)
        leads[part] = np.where(outside, -np.inf, best - chunk.max(-1))
        wrong[part] = top[..., 0] != y[part, None]
    return leads, wrong


def _previous_best(leads: np.ndarray) -> np.ndarray:
    """Return the highest lead of all earlier steps (n, T), minus infinity at the first step."""
    best = np.full_like(leads, -np.inf)
    np.maximum.accumulate(leads[:, :-1], axis=1, out=best[:, 1:])
    return best


def _macro_error(changes: ClassChanges, points: int) -> np.ndarray:
    """Return the mean of the class error rates at each point, (P,)."""
    error = np.zeros(points)
    # A wrong decision has the same weight in all classes of equal size, so count these together.
    for size in np.unique(changes.totals[changes.totals > 0]):
        same_size = changes.totals == size  # (K,)
        chosen = same_size[changes.classes]  # (m,)
        counts = np.bincount(changes.points[chosen], changes.change[chosen], minlength=points)
        counts[0] += changes.start[same_size].sum()
        error += np.cumsum(counts) / size
    return error / np.count_nonzero(changes.totals)
