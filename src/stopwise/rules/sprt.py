"""The sequential probability ratio test: stop when one class leads all others by a threshold."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from stopwise.rules.arrays import best_other, frozen_floats
from stopwise.rules.base import Rule
from stopwise.validation import check_real


class SPRT(Rule):
    """The sequential probability ratio test (SPRT) for two or more classes.

    Class k is accepted at the first step where its log-likelihood ratio to every other class l reaches
    the threshold `a_kl`, that is where `S_k - S_l >= a_kl`. A threshold of 0 stops at the first sample; an
    infinite threshold waits for the end of the series.

    With `error_rate`, the thresholds are `a_kl = log((K - 1) / error_rate_l)`. If the scores are the true
    log-likelihoods (up to a term common to all classes), then at most a fraction `error_rate_l` of the series
    of class l is decided wrongly *before their end*, for any dependence between samples. This bound does not
    include decisions forced by the end of a series, and does not hold for estimated scores; see `calibrate`
    for a guarantee that does.

    A prior bound by `with_prior` changes only forced decisions. The thresholds bound the error rate of each
    class separately, so they do not depend on the prior.

    Parameters
    ----------
    threshold
        The required log-likelihood ratio in nats, >= 0; infinity is allowed. One number; or (K,), one per
        accepted class; or (K, K) with `a_kl` in row k (accepted class) and column l (rejected class), where
        the diagonal is ignored.
    error_rate
        The target error rate in (0, 1), given instead of `threshold`. One number, or (K,) with one rate per
        true class.
    per_step
        Whether `threshold` has a leading axis of steps: (T,), (T, K) or (T, K, K).

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[[0.0, 1.0], [0.0, 2.5], [0.0, 4.0]]])  # one series, 3 steps, 2 classes
    >>> decisions = SPRT(2.0).decide(scores)
    >>> decisions.labels, decisions.times
    (array([1]), array([2]))
    >>> SPRT(error_rate=0.01).decide(scores).forced  # the lead never reaches log(100) = 4.6 nats
    array([ True])
    """

    def __init__(self, threshold: Any = None, *, error_rate: Any = None, per_step: bool = False) -> None:
        if (threshold is None) == (error_rate is None):
            raise ValueError(
                "SPRT needs exactly one of `threshold` and `error_rate`; "
                f"got {'neither' if threshold is None else 'both'}."
            )
        if not isinstance(per_step, bool):
            raise TypeError(f"`per_step` must be True or False; got {per_step!r}.")
        if per_step and threshold is None:
            raise ValueError(
                "`per_step` can only be used with `threshold`; got `error_rate`. Leave `per_step` False."
            )
        self.threshold = None if threshold is None else _check_threshold(threshold, per_step)
        self.error_rate = None if error_rate is None else _check_error_rate(error_rate)
        self.per_step = per_step

    @classmethod
    def wald(cls, alpha: float, beta: float) -> Self:
        """Return Wald's test for two classes.

        Parameters
        ----------
        alpha
            Target probability of deciding 1 for a series of class 0. The threshold for accepting class 1
            is `log((1 - beta) / alpha)`.
        beta
            Target probability of deciding 0 for a series of class 1. The threshold for accepting class 0
            is `log((1 - alpha) / beta)`.

        Examples
        --------
        >>> SPRT.wald(0.01, 0.1)
        SPRT(threshold=[2.29, 4.49])
        """
        alpha = check_real("alpha", alpha, 0, 1, open_low=True, open_high=True)
        beta = check_real("beta", beta, 0, 1, open_low=True, open_high=True)
        if alpha + beta >= 1:
            raise ValueError(
                f"`alpha` + `beta` must be below 1; got {alpha:g} + {beta:g}. "
                "Such error rates are reached by guessing, without any sample."
            )
        return cls([math.log((1 - alpha) / beta), math.log((1 - beta) / alpha)])

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters in place; a new `threshold` replaces `error_rate`, and vice versa.

        Parameters
        ----------
        **params
            New values by name, validated by the constructor. If a value is invalid, the rule is unchanged.

        Examples
        --------
        >>> SPRT(error_rate=0.05).set_params(threshold=3.0)
        SPRT(threshold=3.0)
        """
        replaced: dict[str, dict[str, Any]] = {
            "threshold": {"error_rate": None},
            "error_rate": {"threshold": None, "per_step": False},
        }
        for name, cleared in replaced.items():
            if params.get(name) is not None:
                params = cleared | params
        return super().set_params(**params)

    def margins(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the minimum over l != k of `S_k - S_l - a_kl` for each class k, (..., K).

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Steps, counted from 1; broadcastable to the leading dimensions of `scores`.
        """
        # Always in float64, so that the differences equal those of the exact speed-accuracy curve.
        scores = np.asarray(scores, dtype=np.float64)
        if self.error_rate is not None:
            return self._error_rate_margins(scores)
        table = np.asarray(self.threshold)
        self._check_fit(table, scores.shape[-1], times)
        kind = table.ndim - self.per_step
        if kind == 2:
            return self._pair_margins(table, scores, times)
        needed = table[times - 1] if self.per_step else table
        return scores - best_other(scores) - (needed if kind else needed[..., None])

    def accept_checked(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the same as `accept`, without validation of the arguments.

        Parameters
        ----------
        scores
            (n, K) finite scores.
        times
            (n,) integers >= 1.
        """
        needed = self.threshold
        if self.error_rate is not None and np.ndim(self.error_rate) == 0:
            needed = math.log((scores.shape[-1] - 1) / float(self.error_rate))
        if self.per_step or not isinstance(needed, float):
            return super().accept_checked(scores, times)
        # With one threshold for all pairs, only the two largest scores matter: three times as fast.
        if len(scores) == 1:  # one stream: lists are faster than arrays
            values = scores[0].tolist()
            label = values.index(max(values))
            lead = values.pop(label) - max(values)
            return np.array([label if lead >= needed else -1])
        second, first = np.moveaxis(np.partition(scores.astype(np.float64), -2, axis=-1)[..., -2:], -1, 0)
        return np.where(first - second >= needed, scores.argmax(-1), -1)

    def _error_rate_margins(self, scores: np.ndarray) -> np.ndarray:
        classes = scores.shape[-1]
        needed = np.log((classes - 1) / np.asarray(self.error_rate))
        if needed.ndim == 0:
            return scores - best_other(scores) - needed
        _check_classes("error_rate", len(needed), classes)
        # a_kl depends only on the rejected class l, so it can be added to the score of that class.
        return scores - best_other(scores + needed)

    def _pair_margins(self, table: np.ndarray, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        margins = np.empty_like(scores)
        # Loop over the accepted classes: all pairs at once would need K times the memory of the scores.
        for k in range(scores.shape[-1]):
            needed = table[times - 1, k] if self.per_step else table[k]  # (..., K)
            lead = scores[..., k, None] - scores - needed
            lead[..., k] = np.inf
            margins[..., k] = lead.min(-1)
        return margins

    def _check_fit(self, table: np.ndarray, classes: int, times: np.ndarray) -> None:
        if table.ndim - self.per_step > 0:
            _check_classes("threshold", table.shape[-1], classes)
        if self.per_step and times.size and times.max() > len(table):
            raise ValueError(
                f"`threshold` must cover every step; it has {len(table)} steps, but the scores reach step "
                f"{times.max()}. Give thresholds for more steps, or truncate the series."
            )


def _check_classes(name: str, expected: int, classes: int) -> None:
    if expected != classes:
        raise ValueError(
            f"`{name}` is for {expected} classes; the scores have {classes}. "
            f"Give {classes} values, or one number for all classes."
        )


def _check_threshold(threshold: Any, per_step: bool) -> float | np.ndarray:
    if np.isscalar(threshold) and not per_step:
        return check_real("threshold", threshold, 0)
    array = frozen_floats("threshold", threshold)
    shapes = "(T,), (T, K) or (T, K, K)" if per_step else "(), (K,) or (K, K)"
    kind = array.ndim - per_step
    square = kind < 2 or array.shape[-1] == array.shape[-2]
    wide = kind < 1 or array.shape[-1] >= 2
    if not (0 <= kind <= 2 and square and wide and array.size):
        raise ValueError(
            f"`threshold` must have shape {shapes} with K >= 2 when per_step={per_step}; "
            f"got shape {array.shape}."
        )
    if kind == 2:
        array = _without_diagonal(array)
    if not (array >= 0).all():
        raise ValueError(
            f"all values of `threshold` must be >= 0, not NaN; got {array[~(array >= 0)][0]:g}. "
            "Use 0 to stop at the first sample, infinity to wait for the end of the series."
        )
    return float(array) if array.ndim == 0 else array


def _without_diagonal(array: np.ndarray) -> np.ndarray:
    """Return (..., K, K) with a zero diagonal, so that rules that differ only there are equal."""
    return frozen_floats("threshold", np.where(np.eye(array.shape[-1], dtype=bool), 0, array))


def _check_error_rate(error_rate: Any) -> float | np.ndarray:
    if np.isscalar(error_rate):
        return check_real("error_rate", error_rate, 0, 1, open_low=True, open_high=True)
    array = frozen_floats("error_rate", error_rate)
    if array.ndim == 0:
        return _check_error_rate(float(array))
    if array.ndim != 1 or len(array) < 2:
        raise ValueError(
            f"`error_rate` must be one number or have shape (K,) with K >= 2; got shape {array.shape}."
        )
    for rate in array:
        check_real("error_rate", rate, 0, 1, open_low=True, open_high=True)
    return array
