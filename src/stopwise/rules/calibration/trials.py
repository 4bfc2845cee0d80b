"""What happens to series under every candidate threshold of the sequential test, in one pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stopwise.metrics.records import leads_and_errors
from stopwise.validation import check_class_indices, check_scores

# Wait for the end first; then by steps of 2 % from a million nats to a millionth; then the first sample.
# Fixed before any data are seen: a sequence of tests in a fixed order pays nothing for its length, and
# the promise is void if the data chose which thresholds are tried, or in which order.
CANDIDATES: np.ndarray = np.concatenate([[np.inf], 2.0 ** (np.arange(640, -641, -1) / 32), [0.0]])  # (J,)
CANDIDATES.setflags(write=False)


class Trials(NamedTuple):
    """Calibration series, seen as the sequential test with one threshold for all classes sees them."""

    leads: np.ndarray  # (n, T) of the best class over the second; minus infinity past the end
    wrong: np.ndarray  # (n, T) whether the best class is wrong
    lengths: np.ndarray  # (n,)
    y: np.ndarray  # (n,) class indices

    @classmethod
    def of(cls, scores: Any, y: Any, lengths: Any = None) -> Trials:
        """Return the trials of scores (n, T, K) with true class indices (n,)."""
        scores, lengths = check_scores(scores, lengths)
        y = check_class_indices(y, *scores.shape[::2])
        if not len(y):
            raise ValueError("`scores` holds no series; calibration needs some.")
        return cls(*leads_and_errors(scores[:, : lengths.max()], y, lengths), lengths, y)

    def part(self, rows: np.ndarray) -> Trials:
        """Return some of the series."""
        return Trials(*(column[rows] for column in self))

    def at_end(self, values: np.ndarray) -> np.ndarray:
        """Return the values (n,) of (n, T) at the end of each series."""
        return np.take_along_axis(values, self.lengths[:, None] - 1, 1)[:, 0]

    def gap(self) -> np.ndarray:
        """Return whether a decision would be wrong at this step and right at the end, (n, T)."""
        return self.wrong & ~self.at_end(self.wrong)[:, None]

    def times(self) -> np.ndarray:
        """Return the number of samples at each step, (n, T)."""
        return np.broadcast_to(np.arange(1, self.leads.shape[1] + 1), self.leads.shape)


def totals_by_candidate(trials: Trials, values: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """Return the sums, over the series of each group, of values at the stopping times of each candidate.

    A series stops under candidate j at its first step whose lead reaches it, else at its end. So step t
    serves the candidates between the highest lead up to t and the highest lead before t: it adds its value
    from the first of them on and takes it off after the last. O(n·T) for all candidates together.

    Parameters
    ----------
    trials
        n series.
    values
        (n, T) whole numbers or booleans.
    groups
        (n,) in [0, count).
    count
        The number of groups G.

    Returns
    -------
    totals
        (G, J), exact.
    """
    best = np.maximum.accumulate(trials.leads, axis=1)  # (n, T)
    total = len(CANDIDATES)
    # The first candidate that is reached by step t, and by the step before; `total` means none.
    reached = total - np.searchsorted(CANDIDATES[::-1], best, side="right")
    before = np.full_like(reached, total)
    before[:, 1:] = reached[:, :-1]
    series, step = np.nonzero(reached < before)
    own = values[series, step]
    offset = groups * (total + 1)  # (n,)
    end, last = trials.at_end(values), reached[:, -1]
    places = [offset[series] + reached[series, step], offset[series] + before[series, step]]
    # Candidates that are never reached end with the series.
    places += [offset, offset + last]
    changes = np.concatenate([own, -1 * own, end, -1 * end]).astype(np.float64)
    sums = np.bincount(np.concatenate(places), changes, minlength=count * (total + 1))
    return np.rint(np.cumsum(sums.reshape(count, total + 1), axis=1)[:, :-1]).astype(np.int64)


def stopping_steps(trials: Trials, thresholds: np.ndarray) -> np.ndarray:
    """Return the step (n,), counted from 0, at which each series stops under thresholds (T,)."""
    hit = trials.leads >= thresholds[: trials.leads.shape[1]]  # (n, T); never past the end
    return np.where(hit.any(1), hit.argmax(1), trials.lengths - 1)
