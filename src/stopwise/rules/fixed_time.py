"""Decide after a fixed number of samples: the baseline for every early rule."""

from __future__ import annotations

import numpy as np

from stopwise.rules.arrays import add_log_prior
from stopwise.rules.base import Rule
from stopwise.validation import check_integer


class FixedTime(Rule):
    """Accept the class of the highest score at step `time`, never before.

    With a prior bound by `with_prior` it is the class of the highest posterior. A series that ends sooner
    gets a forced decision at its end.

    Parameters
    ----------
    time
        The step to decide at, counted from 1.

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
        """Return `S_k - max S` for each class k from step `time` on, minus infinity before, (..., K).

        S includes the logarithm of the bound prior, if there is one.
        """
        scores = add_log_prior(np.asarray(scores, dtype=np.float64), self._bound_prior)
        due = np.asarray(times) >= self.time
        return np.where(due[..., None], scores - scores.max(-1, keepdims=True), -np.inf)
