"""A threshold that decreases to zero at a horizon."""

from __future__ import annotations

import math

import numpy as np

from stopwise.rules.arrays import best_other
from stopwise.rules.base import Rule
from stopwise.validation import check_integer, check_real


class Tapering(Rule):
    """Stop when the best class leads by a threshold that decreases with time.

    The threshold at step t is `threshold * (1 - t / horizon) ** exp(kappa)`, common to all classes. From step
    `horizon` on it is 0, so every series is decided by then.

    Parameters
    ----------
    threshold
        The threshold in nats at t = 0, >= 0 and finite.
    horizon
        The step at which the threshold reaches 0.
    kappa
        The shape of the curve. With 0, the threshold decreases linearly; with positive values, most of the
        decrease is early; with negative values, most of it is late.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[[0.0, 1.0]] * 10])  # a lead of 1 nat that never grows
    >>> Tapering(4.0, horizon=10).decide(scores)[0].time  # 4 * (1 - 8 / 10) = 0.8 <= 1
    8
    >>> Tapering(4.0, horizon=10, kappa=1.0).decide(scores)[0].time
    4
    """

    def __init__(self, threshold: float, horizon: int, *, kappa: float = 0.0) -> None:
        self.threshold = check_real("threshold", threshold, 0, open_high=True)
        self.horizon = check_integer("horizon", horizon, 1)
        self.kappa = check_real("kappa", kappa, open_low=True, open_high=True)

    def margins(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the score of each class minus the best other score minus the threshold, (..., K).

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Steps, counted from 1; broadcastable to the leading dimensions of `scores`.
        """
        scores = np.asarray(scores, dtype=np.float64)
        left = np.maximum(1 - np.asarray(times) / self.horizon, 0)
        # Capped at 700, where the power is already 0 for every step; a larger exponent would overflow.
        needed = self.threshold * left ** math.exp(min(self.kappa, 700.0))
        return scores - best_other(scores) - needed[..., None]
