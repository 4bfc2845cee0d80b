"""A threshold that falls to zero at a horizon: strict early on, less strict towards the end."""

from __future__ import annotations

import math

import numpy as np

from stopwise.rules.arrays import best_other
from stopwise.rules.base import Rule
from stopwise.validation import check_integer, check_real


class Tapering(Rule):
    """A common threshold that falls with time: `a(t) = threshold * (1 - t / horizon) ** exp(kappa)`.

    From the horizon on it is 0, so every series is decided by then.

    Parameters
    ----------
    threshold
        The threshold in nats at t = 0, >= 0 and finite.
    horizon
        The step at which the threshold reaches 0.
    kappa
        The shape: 0 is a straight line; positive values fall fast at first, negative values fall late.

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
        """Return `S_k - max over l != k of S_l - a(t)` for each class k, (..., K)."""
        scores = np.asarray(scores, dtype=np.float64)
        left = np.maximum(1 - np.asarray(times) / self.horizon, 0)
        # Beyond exp(700) the power is 0 for every step anyway, and exp itself would overflow.
        needed = self.threshold * left ** math.exp(min(self.kappa, 700.0))
        return scores - best_other(scores) - needed[..., None]
