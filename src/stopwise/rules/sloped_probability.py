"""Stop when the posterior log-odds of a class reach a line in time."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.rules.arrays import add_log_prior, check_prior
from stopwise.rules.base import Rule
from stopwise.rules.max_probability import log_odds
from stopwise.validation import check_integer, check_real

PIVOT = 0.3  # share of the horizon at which the line has the value `level`


class SlopedProbability(Rule):
    """Stop when the posterior probability of a class reaches a threshold that changes with time.

    Class k is accepted at the first step t where the log-odds of its posterior probability are at least
    ``level + slope * (t / horizon - 0.3)``. `fit_rule` with a cost learns the two numbers.

    Parameters
    ----------
    level
        The threshold of the log-odds at 30 % of the horizon.
    slope
        The change of the threshold over the horizon. Negative: later decisions need less evidence.
    horizon
        Number of steps T to which the slope refers, usually the longest training series. After it, the
        threshold stays as it is at the horizon.
    prior
        (K,) prior probabilities, positive, summing to 1. If None, the prior bound by `with_prior` is used;
        if there is none, all classes are equally likely.
    cost_range
        (low, high): the range of the mean cost over bootstrap samples when the rule was fitted, 5 % to 95 %.
        None if the rule was not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[[0.0, 1.0]] * 10])  # log-odds of 1, which never grow
    >>> SlopedProbability(level=2.0, slope=-4.0, horizon=10).decide(scores)[0].time  # 2 - 4 * (0.6 - 0.3) < 1
    6
    """

    def __init__(
        self, level: float, slope: float, horizon: int, *, prior: Any = None, cost_range: Any = None
    ) -> None:
        self.level = check_real("level", level, open_low=True, open_high=True)
        self.slope = check_real("slope", slope, open_low=True, open_high=True)
        self.horizon = check_integer("horizon", horizon, 1)
        self.prior = None if prior is None else check_prior(prior)
        self.cost_range = None if cost_range is None else _check_range(cost_range)

    def thresholds(self, times: np.ndarray) -> np.ndarray:
        """Return the thresholds of the log-odds at some steps, counted from 1."""
        share = np.minimum(np.asarray(times) / self.horizon, 1)
        return self.level + self.slope * (share - PIVOT)

    def margins(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the posterior log-odds of each class minus the threshold, (..., K).

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Steps, counted from 1; broadcastable to the leading dimensions of `scores`.
        """
        return log_odds(self._weighted(scores)) - self.thresholds(times)[..., None]

    def best_guess(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the class with the highest posterior probability, (...).

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Not used.
        """
        return self._weighted(scores).argmax(-1)

    def _weighted(self, scores: np.ndarray) -> np.ndarray:
        prior = self._bound_prior if self.prior is None else self.prior
        return add_log_prior(np.asarray(scores, dtype=np.float64), prior)


def _check_range(cost_range: Any) -> list[float]:
    """Return (low, high) as a list; raise a ValueError if it is not two increasing numbers."""
    low, high = (check_real("cost_range", value, open_low=True, open_high=True) for value in cost_range)
    if low > high:
        raise ValueError(f"`cost_range` must be (low, high); got {list(cost_range)}.")
    return [low, high]
