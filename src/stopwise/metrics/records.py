"""Records of the lead: the steps at which the lead of the best class reaches a new maximum.

The lead is the difference between the two highest scores. With a common threshold a, a series stops at the
first step where its lead reaches a. So its hitting time, as a function of a, changes only at the records of
the lead. Sorting the records of all series gives the exact result of every threshold, without a grid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stopwise.validation import inside

# Maximum number of values per chunk: limits the memory used in addition to the inputs.
CHUNK_NUMBERS = 1_000_000


class Records(NamedTuple):
    """The m records of the leads of all series, in ascending order.

    If the threshold increases beyond `value`, the series stops at `next_time` instead of `time`.
    """

    value: np.ndarray  # (m,) the lead at the record
    series: np.ndarray  # (m,) index of the series
    time: np.ndarray  # (m,) step of the record, counted from 1
    wrong: np.ndarray  # (m,) whether the decision there is wrong
    next_time: np.ndarray  # (m,) step of the next record of the series, or its last step
    next_wrong: np.ndarray  # (m,) whether the decision there is wrong
    final: (
        np.ndarray
    )  # (m,) True for the last record of a series; for a higher threshold the decision is forced

    @property
    def is_new_value(self) -> np.ndarray:
        """(m,) True at the first record of each distinct value."""
        return np.append(True, self.value[1:] != self.value[:-1])

    @property
    def thresholds(self) -> np.ndarray:
        """(P,) ascending: the distinct values, then infinity."""
        return np.append(self.value[self.is_new_value], np.inf)

    def totals(self, start: float, change: np.ndarray) -> np.ndarray:
        """Return the total of a quantity at each threshold, (P,).

        Parameters
        ----------
        start
            The total at the lowest threshold.
        change
            (m,) change of the total when the threshold increases beyond each record.
        """
        # Integers are summed as integers, so that no rounding error accumulates along the curve.
        dtype = np.float64 if change.dtype.kind == "f" else np.int64
        first = np.flatnonzero(self.is_new_value)
        return np.cumsum(np.append(start, np.add.reduceat(change, first, dtype=dtype)), dtype=dtype)


def lead_records(
    leads: np.ndarray, wrong: np.ndarray, forced_wrong: np.ndarray, lengths: np.ndarray
) -> Records:
    """Return the records of n >= 1 series.

    Parameters
    ----------
    leads, wrong
        (n, T) from `leads_and_errors`.
    forced_wrong
        (n,) whether the decision forced at the end of each series is wrong.
    lengths
        (n,) lengths of the series.
    """
    series, step = np.nonzero(leads > _best_before(leads))  # (m,), by series, then by time
    final = np.append(series[1:] != series[:-1], True)
    next_step = np.where(final, lengths[series] - 1, np.roll(step, -1))
    next_wrong = np.where(final, forced_wrong[series], wrong[series, next_step])
    value = leads[series, step]
    columns = (value, series, step + 1, wrong[series, step], next_step + 1, next_wrong, final)
    ascending = np.argsort(value)
    return Records(*(column[ascending] for column in columns))


def leads_and_errors(scores: np.ndarray, y: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lead of the best class and whether this class is wrong, at each step: both (n, T).

    Past the end of a series the lead is minus infinity.
    """
    n, steps, classes = scores.shape
    leads = np.empty((n, steps))
    wrong = np.empty((n, steps), dtype=bool)
    rows = max(1, CHUNK_NUMBERS // (steps * classes))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        outside = ~inside(lengths[part], steps)  # (rows, T)
        chunk = scores[part].astype(np.float64)  # (rows, T, K), a copy
        chunk[outside] = 0
        top = chunk.argmax(-1)[..., None]
        best = np.take_along_axis(chunk, top, -1)[..., 0]
        np.put_along_axis(chunk, top, -np.inf, -1)
        leads[part] = np.where(outside, -np.inf, best - chunk.max(-1))
        wrong[part] = top[..., 0] != y[part, None]
    return leads, wrong


def _best_before(leads: np.ndarray) -> np.ndarray:
    """Return the highest lead of all earlier steps, minus infinity at the first step, (n, T)."""
    best = np.full_like(leads, -np.inf)
    np.maximum.accumulate(leads[:, :-1], axis=1, out=best[:, 1:])
    return best
