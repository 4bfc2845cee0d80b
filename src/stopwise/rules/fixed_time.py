"""Decide after a fixed number of samples: the baseline for early stopping."""

from __future__ import annotations

import numpy as np

from stopwise.rules.arrays import add_log_prior
from stopwise.rules.base import Rule
from stopwise.validation import check_integer


class FixedTime(Rule):
    """Decide at a fixed step for the class with the highest score.

    If a prior is bound by `with_prior`, the class with the highest posterior probability is accepted
    instead. For a series that ends before step `time`, the decision is forced at its end.

    Parameters
    ----------
    time
        The step at which the decision is made, counted from 1.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[[9.0, 0.0], [0.0, 1.0], [5.0, 0.0]]])
    >>> decisions = FixedTime(2).decide(scores)
    >>> decisions.labels, decisions.times
    (array([1]), array([2]))
    """

    def __init__(self, time: int) -> None:
        self.time = check_integer("time", time, 1)

    def margins(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return `S_k - max S` for each class k from step `time` on, and minus infinity before it.

        S includes the logarithm of the bound prior, if any.

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Steps, counted from 1; broadcastable to the leading dimensions of `scores`.
        """
        scores = add_log_prior(np.asarray(scores, dtype=np.float64), self._bound_prior)
        due = np.asarray(times) >= self.time
        return np.where(due[..., None], scores - scores.max(-1, keepdims=True), -np.inf)
