"""The outcome of each series for every candidate threshold of the sequential test, in one pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stopwise.metrics.records import leads_and_errors
from stopwise.rules.arrays import add_log_prior
from stopwise.validation import check_class_indices, check_scores

# Infinity (always wait for the end), then from a million nats down to a millionth in steps of 2 %, then 0
# (stop at the first sample). The candidates and their order must not depend on the data: only then does a
# fixed sequence of tests need no correction for its length.
CANDIDATES: np.ndarray = np.concatenate([[np.inf], 2.0 ** (np.arange(640, -641, -1) / 32), [0.0]])  # (J,)
CANDIDATES.setflags(write=False)


class Outcomes(NamedTuple):
    """A loss or stopping time of each series, for a decision at each step and for a forced decision."""

    accepted: np.ndarray  # (n, T) value if the best class is accepted at this step
    forced: np.ndarray  # (n,) value if the decision is forced at the end

    def at(self, step: np.ndarray, forced: np.ndarray) -> np.ndarray:
        """Return the values (n,) of series decided at the given steps (n,), counted from 0."""
        return np.where(forced, self.forced, self.accepted[np.arange(len(step)), step])


class Trials(NamedTuple):
    """Calibration series, reduced to what a test with one threshold for all classes depends on."""

    leads: np.ndarray  # (n, T) lead of the best class over the second; minus infinity past the end
    wrong: np.ndarray  # (n, T) whether accepting the best class is wrong
    forced_wrong: np.ndarray  # (n,) whether the decision forced at the end, by S + log prior, is wrong
    lengths: np.ndarray  # (n,)
    y: np.ndarray  # (n,) class indices

    @classmethod
    def of(cls, scores: Any, y: Any, lengths: Any = None, prior: np.ndarray | None = None) -> Trials:
        """Create the trials from scores (n, T, K), true class indices (n,) and the prior (K,) of the rule."""
        scores, lengths = check_scores(scores, lengths)
        y = check_class_indices(y, *scores.shape[::2])
        if not len(y):
            raise ValueError("`scores` holds no series; pass at least one.")
        leads, wrong = leads_and_errors(scores[:, : lengths.max()], y, lengths)
        final = scores[np.arange(len(y)), lengths - 1]  # (n, K)
        return cls(leads, wrong, add_log_prior(final, prior).argmax(-1) != y, lengths, y)

    def part(self, rows: np.ndarray) -> Trials:
        """Return the trials of the given series."""
        return Trials(*(column[rows] for column in self))

    def errors(self) -> Outcomes:
        """Return the outcome "decided wrongly" of each series."""
        return Outcomes(self.wrong, self.forced_wrong)

    def gaps(self) -> Outcomes:
        """Return the outcome "decided wrongly, but a forced decision at the end would be correct"."""
        return Outcomes(self.wrong & ~self.forced_wrong[:, None], np.zeros_like(self.forced_wrong))

    def times(self) -> Outcomes:
        """Return the outcome "number of samples used"."""
        steps = np.broadcast_to(np.arange(1, self.leads.shape[1] + 1), self.leads.shape)
        return Outcomes(steps, self.lengths)


def totals_by_candidate(trials: Trials, outcomes: Outcomes, groups: np.ndarray, count: int) -> np.ndarray:
    """Return the sum of the outcomes in each group, for each candidate threshold.

    With candidate j, a series stops at the first step where its lead reaches the candidate; if there is none,
    the decision is forced. So a series stops at step t for the candidates between its highest lead before t
    and its highest lead up to t. The value of step t is added at the first of these candidates and subtracted
    after the last, and a cumulative sum gives the totals. This takes O(n·T) for all candidates.

    Parameters
    ----------
    trials
        n series.
    outcomes
        Integers or booleans.
    groups
        (n,) group of each series, in [0, count).
    count
        Number of groups G.

    Returns
    -------
    totals
        (G, J) exact sums.
    """
    best = np.maximum.accumulate(trials.leads, axis=1)  # (n, T)
    total = len(CANDIDATES)
    # The first candidate reached by step t, and by the step before it; `total` means none.
    reached = total - np.searchsorted(CANDIDATES[::-1], best, side="right")
    before = np.full_like(reached, total)
    before[:, 1:] = reached[:, :-1]
    series, step = np.nonzero(reached < before)
    accepted, forced = outcomes.accepted[series, step], outcomes.forced
    offset = groups * (total + 1)  # (n,)
    places = [offset[series] + reached[series, step], offset[series] + before[series, step]]
    # Candidates that are never reached come first in the order. For these the decision is forced.
    places += [offset, offset + reached[:, -1]]
    changes = np.concatenate([accepted, -1 * accepted, forced, -1 * forced]).astype(np.float64)
    sums = np.bincount(np.concatenate(places), changes, minlength=count * (total + 1))
    return np.rint(np.cumsum(sums.reshape(count, total + 1), axis=1)[:, :-1]).astype(np.int64)


def stops(trials: Trials, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the step (n,), counted from 0, at which each series stops with thresholds (T,).

    The second array (n,) is True where no threshold is reached and the decision is forced.
    """
    hit = trials.leads >= thresholds  # (n, T); never past the end
    forced = np.logical_not(hit.any(1))
    return np.where(forced, trials.lengths - 1, hit.argmax(1)), forced
