"""Concave functions of the posterior as sums of tent functions, fitted by least squares.

The expected cost of waiting is a concave function of the posterior p. A tent function
`min(p_k (1 - q), q (1 - p_k))` is concave, is 0 at both ends and has its peak at p_k = q. So a sum of tents
with weights >= 0, plus a term linear in p, is concave too. With two classes, these sums are all concave
functions with kinks at the knots.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

# The log-odds of the peaks q are in ± this range; outside it the risk of an error is negligible.
MAX_LOG_ODDS = 8.0
# Maximum number of weights per step, divided among the classes; each class has at least MIN_KNOTS knots.
MAX_WEIGHTS_PER_STEP, MAX_KNOTS, MIN_KNOTS = 200, 21, 3
# Relative to the size of each regressor. Needed because neighboring tents are nearly equal.
RIDGE = 1e-5
SERIES_PER_CONTROL = 2


def knots_for(classes: int) -> np.ndarray:
    """Return the log-odds (J,) of the peaks of the tents, symmetric around 0."""
    if classes == 2:  # both classes have the same tents
        return np.linspace(-MAX_LOG_ODDS, MAX_LOG_ODDS, 2 * MAX_KNOTS - 1)
    knots = max(MIN_KNOTS, min(MAX_KNOTS, MAX_WEIGHTS_PER_STEP // classes))
    return np.linspace(-MAX_LOG_ODDS, MAX_LOG_ODDS, knots)


def features_for(classes: int) -> int:
    """Return F, the number of regressors of `tents` with the knots `knots_for(classes)`."""
    return classes + len(knots_for(classes)) * (1 if classes == 2 else classes)


def tents(posterior: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Return the regressors (n, F) for posteriors (n, K): p itself, then the tents of each class."""
    n, classes = posterior.shape
    peaked = posterior[:, 1:] if classes == 2 else posterior
    q = 1 / (1 + np.exp(-knots))  # (J,)
    columns = np.minimum(peaked[..., None] * (1 - q), (1 - peaked[..., None]) * q)  # (n, K or 1, J)
    return np.concatenate([posterior, columns.reshape(n, -1)], axis=1)


class ConcaveFit:
    """Weighted least squares on tents with coefficients >= 0, for any number of targets.

    Parameters
    ----------
    regressors
        (n, F) from `tents`.
    weights
        (n,) weights of the series.
    known_zero
        (n, M) variables whose expectation given the posterior is known to be 0, or None. The part of the
        targets that they explain is noise and is removed (control variates). They are not used if there are
        fewer than `SERIES_PER_CONTROL` series for each of them, because they then explain everything.
    """

    def __init__(self, regressors: np.ndarray, weights: np.ndarray, known_zero: np.ndarray | None) -> None:
        if known_zero is not None and len(known_zero) < SERIES_PER_CONTROL * known_zero.shape[1]:
            known_zero = None
        self.regressors, self.weights, self.known_zero = regressors, weights, known_zero
        weighted = regressors * weights[:, None]  # (n, F)
        gram = regressors.T @ weighted
        if known_zero is not None:
            inner = known_zero.T @ (known_zero * weights[:, None])  # (M, M)
            # Regularized, because the matrix is singular if the posteriors do not change.
            inner += (1e-8 * np.trace(inner) / len(inner) + 1e-300) * np.eye(len(inner))
            self.projection = np.linalg.solve(inner, known_zero.T @ weighted)  # (M, F)
            gram -= weighted.T @ known_zero @ self.projection
        # A regressor that is zero for all series gets weight 0.
        self.size = np.sqrt(np.maximum(np.diag(gram), 0)) + 1e-12
        self.root = _root(gram / np.outer(self.size, self.size))  # (F, F)

    def solve(self, target: np.ndarray) -> np.ndarray:
        """Return the weights (F,), all >= 0, that fit `target` (n,) best."""
        weighted = target * self.weights
        moment = self.regressors.T @ weighted
        if self.known_zero is not None:
            moment -= self.projection.T @ (self.known_zero.T @ weighted)
        right = solve_triangular(self.root, moment / self.size, lower=True)
        return nnls(self.root.T, right)[0] / self.size


def _root(gram: np.ndarray) -> np.ndarray:
    """Return a lower triangular matrix L with L Lᵀ = gram + ridge, (F, F)."""
    ridge = RIDGE * np.eye(len(gram))
    try:
        return np.linalg.cholesky(gram + ridge)
    except np.linalg.LinAlgError:
        # The difference of two nearly equal matrices has eigenvalues below 0 by rounding.
        values, vectors = np.linalg.eigh(gram)
        return np.linalg.cholesky((vectors * np.maximum(values, 0)) @ vectors.T + ridge)
