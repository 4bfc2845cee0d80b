"""What every stopping rule is: a function from scores and time to acceptance margins."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from stopwise.decision import Decision, Decisions
from stopwise.rules.arrays import add_log_prior, check_prior, check_prior_fits
from stopwise.rules.parameters import Parameters
from stopwise.validation import check_integer, check_scores, inside

# Numbers worked on at once: bounds the memory of a decision on millions of series.
CHUNK_NUMBERS = 1_000_000


class Rule(Parameters, ABC):
    """A stopping rule.

    A rule says by how much each class is past its threshold. Class k is accepted at the first step
    where its margin is >= 0; if several are, the largest margin wins. A series that ends before that gets
    a forced decision: the class of the highest score, or of the highest posterior if a prior is bound to
    the rule (`with_prior`).

    A rule holds no state, so it decides whole arrays (`decide`), many streams at one moment (`accept`)
    and one stream sample by sample (`step`) with the same result.

    A rule of your own implements `margins`. Its constructor stores each argument under its own name:
    printing, comparing, cloning and saving a rule read them there.

    Examples
    --------
    >>> class Strict(Rule):
    ...     def __init__(self, lead=1.0):
    ...         self.lead = lead
    ...     def margins(self, scores, times):
    ...         return scores - self.lead
    >>> Strict(2.0).decide([[[1.0, 0.0], [2.5, 0.0]]])[0].time
    2
    >>> Strict(2.0).set_params(lead=3.0)
    Strict(lead=3.0)
    """

    _bound_prior: np.ndarray | None = None

    @abstractmethod
    def margins(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return by how much each class is past its threshold.

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Steps counted from 1, broadcastable against the leading dimensions of `scores`.

        Returns
        -------
        margins
            (..., K); class k is accepted where its margin is >= 0.
        """

    def best_guess(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the class to decide for when series end at `times`, (...): argmax of S + log prior."""
        return add_log_prior(scores, self._bound_prior).argmax(-1)

    def with_prior(self, prior: Any) -> Self:
        """Return a copy of the rule for classes that occur with these shares.

        The prior weighs the classes where a rule has to: in decisions forced by the end of a series, in
        `FixedTime`, and in a `MaxProbability` without a prior of its own. `SPRT`, `Tapering` and
        `Calibrated` accept by log-likelihood ratios alone, with or without a prior. `FiniteHorizon` learned
        its prior in `fit` and ignores this one.

        The prior is not an argument of the rule: it is kept by copies, clones and pickles, but takes no part
        in `to_dict`, in comparisons or in what is printed.

        Parameters
        ----------
        prior
            (K,) shares of the classes, positive, summing to 1.

        Examples
        --------
        >>> from stopwise.rules import SPRT
        >>> rule = SPRT(3.0).with_prior([0.9, 0.1])
        >>> rule.decide([[[0.0, 1.0]]]).labels  # forced; log 9 = 2.2 nats speak for class 0
        array([0])
        >>> rule == SPRT(3.0), rule.bound_prior
        (True, array([0.9, 0.1]))
        """
        bound = copy.deepcopy(self)
        bound._bound_prior = check_prior(prior)
        return bound

    @property
    def bound_prior(self) -> np.ndarray | None:
        """The prior (K,) that `with_prior` bound to this rule; None without."""
        return self._bound_prior

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments in place; the bound prior is kept.

        Parameters
        ----------
        **params
            New values by name, checked as by the constructor. If one of them is not valid, nothing changes.
        """
        prior = self._bound_prior
        super().set_params(**params)
        self._bound_prior = prior
        return self

    def decide(self, scores: Any, lengths: Any = None) -> Decisions:
        """Decide on n series at once.

        Parameters
        ----------
        scores
            (n, T, K) scores of every prefix.
        lengths
            (n,) lengths of the series; None means all have T steps.
        """
        scores, lengths = check_scores(scores, lengths)
        n, _, classes = scores.shape
        check_prior_fits(self._bound_prior, classes)
        # A rule with a table per step need not cover padding beyond the longest series.
        steps = int(lengths.max(initial=1))
        labels = np.empty(n, dtype=np.int64)
        times = np.empty(n, dtype=np.int64)
        forced = np.empty(n, dtype=bool)
        rows = max(1, CHUNK_NUMBERS // (steps * classes))
        for start in range(0, n, rows):
            part = slice(start, start + rows)
            labels[part], times[part], forced[part] = self._decide_rows(scores[part, :steps], lengths[part])
        return Decisions(labels, times, forced, scores[np.arange(n), times - 1], lengths)

    def accept(self, scores: Any, times: Any) -> np.ndarray:
        """Return the class that each stream accepts at this moment, or -1.

        Parameters
        ----------
        scores
            (n, K) scores of n streams.
        times
            (n,) or one number: how many samples each stream has seen.
        """
        scores = np.asarray(scores)
        if scores.ndim != 2:
            raise ValueError(
                f"`scores` must have shape (n, K): streams, classes; got shape {scores.shape}. "
                "For one stream use step()."
            )
        scores = check_scores(scores[:, None])[0][:, 0]
        check_prior_fits(self._bound_prior, scores.shape[-1])
        return self.accept_checked(scores, _check_times(times, len(scores)))

    def accept_checked(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Do the same as `accept` without checks, for finite scores (n, K) and integer times (n,) >= 1."""
        margins = self.margins(scores, times)  # (n, K)
        return np.where(margins.max(-1) >= 0, margins.argmax(-1), -1)

    def step(self, scores: Any, time: int, *, last: bool = False) -> Decision | None:
        """Decide on one stream at one moment: a `Decision`, or None to wait for the next sample.

        Parameters
        ----------
        scores
            (K,) scores after `time` samples.
        time
            How many samples the stream has seen.
        last
            True when no further sample will come: a decision is forced.
        """
        time = check_integer("time", time, 1)
        # A copy: the decision outlives whatever buffer the caller reuses.
        scores = np.array(scores)
        if scores.ndim != 1:
            raise ValueError(
                f"`scores` must have shape (K,), one per class; got shape {scores.shape}. "
                "For many streams use accept(), for whole series decide()."
            )
        scores = check_scores(scores[None, None])[0][0]  # (1, K)
        check_prior_fits(self._bound_prior, scores.shape[-1])
        label = int(self.accept_checked(scores, np.array(time))[0])
        if label >= 0:
            return Decision(label, time, False, scores[0])
        if not last:
            return None
        return Decision(int(self.best_guess(scores, np.array([time]))[0]), time, True, scores[0])

    def _decide_rows(self, scores: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return labels, times and whether each decision was forced, all (n,), of scores (n, T, K)."""
        n, steps, _ = scores.shape
        steps_of_series = inside(lengths, steps)  # (n, T)
        padded = np.where(steps_of_series[..., None], scores, 0)
        margins = self.margins(padded, np.arange(1, steps + 1))  # (n, T, K)
        accepted = (margins.max(-1) >= 0) & steps_of_series
        forced = ~accepted.any(1)
        first = np.where(forced, lengths - 1, accepted.argmax(1))
        rows = np.arange(n)
        guesses = self.best_guess(scores[rows, first], first + 1)
        labels = np.where(forced, guesses, margins[rows, first].argmax(-1))
        return labels, first + 1, forced


def _check_times(times: Any, n: int) -> np.ndarray:
    array = np.asarray(times)
    if array.shape not in ((), (n,)):
        raise ValueError(
            f"`times` must be one number or have shape ({n},), one per stream; got shape {array.shape}."
        )
    if not np.issubdtype(array.dtype, np.integer) and array.size:
        raise TypeError(f"`times` must be integers; got dtype {array.dtype}.")
    if array.size and array.min() < 1:
        raise ValueError(f"`times` count samples from 1; got {array.min()}.")
    return array.astype(np.int64)
