"""Base class of stopping rules: a rule maps scores and times to acceptance margins."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from stopwise.decision import Decision, Decisions
from stopwise.rules.arrays import add_log_prior, check_prior, check_prior_fits
from stopwise.rules.parameters import Parameters
from stopwise.validation import check_integer, check_scores, inside

# Maximum number of values per chunk: limits the memory needed to decide millions of series.
CHUNK_NUMBERS = 1_000_000


class Rule(Parameters, ABC):
    """Base class of stopping rules.

    A rule computes a margin for each class and step: how far the class is above its threshold. A class is
    accepted at the first step where its margin is >= 0. If several classes reach their thresholds at the
    same step, the one with the largest margin is accepted. If a series ends before a class is accepted, the
    decision is forced: it is the class with the highest score, or with the highest posterior probability if
    a prior is bound to the rule (see `with_prior`).

    A rule holds no state. `decide` decides complete series, `accept` decides many streams at one moment and
    `step` decides one stream sample by sample; all three make the same decisions.

    A custom rule implements `margins`. Its constructor must store each argument in an attribute of the same
    name, as scikit-learn estimators do. `repr`, comparison, cloning and saving use these attributes.

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
        """Return how far each class is above its threshold.

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Steps, counted from 1; broadcastable to the leading dimensions of `scores`.

        Returns
        -------
        margins
            (..., K) margins; class k is accepted where its margin is >= 0.
        """

    def best_guess(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the class of a forced decision: the argmax of `S + log prior`.

        Parameters
        ----------
        scores
            (..., K) scores at the end of each series.
        times
            Steps at which the series end, counted from 1; broadcastable to the leading dimensions of
            `scores`.

        Returns
        -------
        labels
            (...) class indices.
        """
        return add_log_prior(scores, self._bound_prior).argmax(-1)

    def with_prior(self, prior: Any) -> Self:
        """Return a copy of the rule that is bound to a class prior.

        The bound prior is used for decisions forced by the end of a series, by `FixedTime`, and by
        `MaxProbability` if it was created without a prior. `SPRT`, `Tapering` and `Calibrated` accept a
        class by its log-likelihood ratios only, with or without a prior. `FiniteHorizon` uses the prior
        passed to `fit` and ignores the bound prior.

        The bound prior is not a parameter of the rule. Copies, clones and pickles keep it; `to_dict`,
        comparisons and `repr` do not include it.

        Parameters
        ----------
        prior
            (K,) class probabilities, positive, summing to 1.

        Returns
        -------
        rule
            A copy of the rule.

        Examples
        --------
        >>> from stopwise.rules import SPRT
        >>> rule = SPRT(3.0).with_prior([0.9, 0.1])
        >>> rule.decide([[[0.0, 1.0]]]).labels  # forced; the prior adds log 9 = 2.2 nats to class 0
        array([0])
        >>> rule == SPRT(3.0), rule.bound_prior
        (True, array([0.9, 0.1]))
        """
        bound = copy.deepcopy(self)
        bound._bound_prior = check_prior(prior)
        return bound

    @property
    def bound_prior(self) -> np.ndarray | None:
        """The prior (K,) set by `with_prior`, or None."""
        return self._bound_prior

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters in place; the bound prior is kept.

        Parameters
        ----------
        **params
            New values by name, validated by the constructor. If a value is invalid, the rule is unchanged.

        Returns
        -------
        self
            The rule itself.
        """
        prior = self._bound_prior
        super().set_params(**params)
        self._bound_prior = prior
        return self

    def decide(self, scores: Any, lengths: Any = None) -> Decisions:
        """Decide n complete series.

        Parameters
        ----------
        scores
            (n, T, K) scores of every prefix.
        lengths
            (n,) lengths of the series; None means all have T steps.

        Returns
        -------
        decisions
            A `Decisions` object with arrays of labels (class indices), times and forced flags.
        """
        scores, lengths = check_scores(scores, lengths)
        n, _, classes = scores.shape
        check_prior_fits(self._bound_prior, classes)
        # Cut padding beyond the longest series: a rule with thresholds per step does not have to cover it.
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
        """Return the class that each stream accepts now, or -1 to wait for the next sample.

        Parameters
        ----------
        scores
            (n, K) current scores of n streams.
        times
            Number of samples that each stream has seen: (n,), or one number for all streams.

        Returns
        -------
        labels
            (n,) class indices, -1 where no class is accepted.
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
        """Return the same as `accept`, without validation of the arguments.

        Parameters
        ----------
        scores
            (n, K) finite scores.
        times
            (n,) integers >= 1.
        """
        margins = self.margins(scores, times)  # (n, K)
        return np.where(margins.max(-1) >= 0, margins.argmax(-1), -1)

    def step(self, scores: Any, time: int, *, last: bool = False) -> Decision | None:
        """Return the decision of one stream at one step, or None to wait for the next sample.

        Parameters
        ----------
        scores
            (K,) scores after `time` samples.
        time
            Number of samples that the stream has seen.
        last
            True if this is the last sample of the stream. A decision is then always returned.

        Returns
        -------
        decision
            A `Decision`, or None.
        """
        time = check_integer("time", time, 1)
        # A copy, because the decision keeps the scores and the caller may reuse the array.
        scores = np.array(scores)
        if scores.ndim != 1:
            raise ValueError(
                f"`scores` must have shape (K,), one per class; got shape {scores.shape}. "
                "For many streams use accept(), for complete series decide()."
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
        """Return labels, times and forced flags, all (n,), for scores (n, T, K)."""
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
        raise ValueError(f"`times` must be >= 1, because samples are counted from 1; got {array.min()}.")
    return array.astype(np.int64)
