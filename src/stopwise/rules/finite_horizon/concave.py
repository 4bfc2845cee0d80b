"""Concave functions of the posterior as sums of tents: what waiting costs, learnt by least squares.

The expected cost of waiting is a concave function of the posterior p. A tent
`min(p_k (1 - q), q (1 - p_k))` is concave, 0 at both ends and peaked at p_k = q, so a sum of tents with
weights >= 0, plus a term linear in p, is concave too; with two classes it is every concave function
with kinks at the knots.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

# The log-odds of the peaks q span ±REACH: posteriors further out cost next to nothing to be wrong about.
REACH = 8.0
# Weights a step has at most; many classes share them, with at least MIN_KNOTS each.
BUDGET, MOST_KNOTS, MIN_KNOTS = 200, 21, 3
# In units of each regressor's own size: neighbouring tents are nearly alike.
RIDGE = 1e-5


def knots_for(classes: int) -> np.ndarray:
    """Return the log-odds (J,) at which tents peak, symmetric around 0."""
    if classes == 2:  # the tents of the two classes are the same ones
        return np.linspace(-REACH, REACH, 2 * MOST_KNOTS - 1)
    return np.linspace(-REACH, REACH, max(MIN_KNOTS, min(MOST_KNOTS, BUDGET // classes)))


def features_for(classes: int) -> int:
    """Return F, the number of regressors of `tents` on `knots_for(classes)`."""
    return classes + len(knots_for(classes)) * (1 if classes == 2 else classes)


def tents(posterior: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Return the regressors (n, F) of posteriors (n, K): p itself, then the tents of each class."""
    n, classes = posterior.shape
    peaked = posterior[:, 1:] if classes == 2 else posterior
    q = 1 / (1 + np.exp(-knots))  # (J,)
    columns = np.minimum(peaked[..., None] * (1 - q), (1 - peaked[..., None]) * q)  # (n, K or 1, J)
    return np.concatenate([posterior, columns.reshape(n, -1)], axis=1)


class ConcaveFit:
    """Weighted least squares with weights >= 0 on tents, for any number of targets.

    Parameters
    ----------
    regressors
        (n, F) what `tents` returned.
    weights
        (n,) weights of the series.
    known_zero
        (n, M) variables whose expectation given the posterior is known to be 0: what they explain of the
        targets is noise, and is taken out. None for none.
    """

    def __init__(self, regressors: np.ndarray, weights: np.ndarray, known_zero: np.ndarray | None) -> None:
        self.regressors, self.weights = regressors, weights
        self.noise = known_zero
        weighed = regressors * weights[:, None]  # (n, F)
        gram = regressors.T @ weighed
        if known_zero is not None:
            inner = known_zero.T @ (known_zero * weights[:, None])  # (M, M)
            # Never singular: where the posteriors do not move at all, there is nothing to take out.
            inner += (1e-8 * np.trace(inner) / len(inner) + 1e-300) * np.eye(len(inner))
            self.taken = np.linalg.solve(inner, known_zero.T @ weighed)  # (M, F)
            gram -= weighed.T @ known_zero @ self.taken
        # A regressor that no series moves gets weight 0.
        self.size = np.sqrt(np.maximum(np.diag(gram), 0)) + 1e-12
        scaled = gram / np.outer(self.size, self.size) + RIDGE * np.eye(len(gram))
        self.root = np.linalg.cholesky(scaled)  # (F, F)

    def solve(self, target: np.ndarray) -> np.ndarray:
        """Return the weights (F,), all >= 0, that fit `target` (n,) best."""
        weighed = target * self.weights
        moment = self.regressors.T @ weighed
        if self.noise is not None:
            moment -= self.taken.T @ (self.noise.T @ weighed)
        right = solve_triangular(self.root, moment / self.size, lower=True)
        return nnls(self.root.T, right)[0] / self.size
