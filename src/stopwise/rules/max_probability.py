"""Stop when the posterior probability of a class is high enough."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stopwise.rules.arrays import add_log_prior, check_prior
from stopwise.rules.base import Rule
from stopwise.validation import check_real


class MaxProbability(Rule):
    """Stop when the posterior probability of a class reaches a threshold.

    Class k is accepted at the first step where its posterior probability `softmax(S + log prior)_k` is at
    least `probability`. If the scores are the true log-likelihoods and the prior is correct, a series decided
    before its end is decided correctly with at least this probability. This is an average over the classes,
    weighted by the prior.

    A decision forced by the end of a series is made for the class with the highest posterior probability.

    Parameters
    ----------
    probability
        The posterior probability to reach, in (0, 1]. The value 1 is never reached, so the rule then waits
        for the end of the series.
    prior
        (K,) prior probabilities, positive, summing to 1. If None, the prior bound by `with_prior` is used;
        if there is none, all classes are equally likely.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[[0.0, 1.0], [0.0, 2.5]]])  # posteriors of class 1: 0.73, 0.92
    >>> MaxProbability(0.9).decide(scores)[0].time
    2
    >>> MaxProbability(0.9, prior=[0.2, 0.8]).decide(scores)[0].time  # 0.92 at the first step
    1
    """

    def __init__(self, probability: float, *, prior: Any = None) -> None:
        self.probability = check_real("probability", probability, 0, 1, open_low=True)
        self.prior = None if prior is None else check_prior(prior)

    def margins(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the posterior log-odds of each class minus the log-odds of `probability`, (..., K).

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Not used.
        """
        # Log-odds keep the order of posteriors that would all be rounded to 1.
        p = self.probability
        return log_odds(self._weigh(scores)) - (math.inf if p == 1 else math.log(p) - math.log1p(-p))

    def best_guess(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the class with the highest posterior probability, (...).

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Not used.
        """
        return self._weigh(scores).argmax(-1)

    def _weigh(self, scores: np.ndarray) -> np.ndarray:
        prior = self._bound_prior if self.prior is None else self.prior
        return add_log_prior(np.asarray(scores, dtype=np.float64), prior)


def log_odds(weighed: np.ndarray) -> np.ndarray:
    """Return `z_k - logsumexp over l != k of z_l` for each class k, (..., K)."""
    top = weighed.argmax(-1)[..., None]  # (..., 1)
    best = np.take_along_axis(weighed, top, -1)
    # For all classes except the top one, the sum over the other classes includes the top class, so the
    # subtraction is accurate. For the top class it would cancel, so its sum is computed relative to the
    # second-best class.
    share = np.exp(weighed - best)
    np.put_along_axis(share, top, 0.0, -1)
    others = best + np.log1p(share.sum(-1, keepdims=True) - share)
    rest = weighed.copy()
    np.put_along_axis(rest, top, -np.inf, -1)
    second = rest.max(-1, keepdims=True)
    runners_up = second + np.log(np.exp(rest - second).sum(-1, keepdims=True))
    np.put_along_axis(others, top, runners_up, -1)
    return weighed - others
