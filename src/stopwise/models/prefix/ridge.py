"""Ridge regression in closed form, and what it predicts for series that were left out.

The regression has a free intercept. In the dual form, with a centered Gram matrix K and penalty α, the
coefficients are D·Y, where D is the inverse of K + αI without the constant direction. The predictions for a
fold I that is left out are ``Y_I − (D_II)⁻¹ (D·Y)_I``: nothing is fitted again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import eigh

PENALTIES = 10.0 ** np.arange(-3.5, 1.6, 0.5)


def centered(gram: np.ndarray) -> np.ndarray:
    """Return a Gram matrix (n, n) of features with mean zero.

    Examples
    --------
    >>> centered(np.array([[4.0, 2.0], [2.0, 1.0]])).tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    rows = gram.mean(axis=0)
    return gram - rows - rows[:, None] + rows.mean()


class DualRidge:
    """Ridge regressions of the same targets with several penalties.

    Parameters
    ----------
    gram
        (n, n) centered Gram matrix.
    targets
        (n, K) targets.
    """

    def __init__(self, gram: np.ndarray, targets: np.ndarray) -> None:
        n = len(gram)
        # The constant direction has the eigenvalue 0. It is moved to the end of the spectrum and removed.
        values, vectors = eigh(gram + (np.trace(gram) + 1) / n, overwrite_a=True, check_finite=False)
        self.values, self.vectors = np.maximum(values[:-1], 0), vectors[:, :-1]
        self.intercept = targets.mean(axis=0)  # (K,)
        self.targets = targets - self.intercept
        self.rotated = self.vectors.T @ self.targets  # (n−1, K)

    def coefficients(self, penalty: float) -> np.ndarray:
        """Return the dual coefficients (n, K): predictions are ``k(x, ·) @ coefficients + intercept``."""
        return self.vectors @ (self.rotated / (self.values + penalty)[:, None])

    def left_out(self, penalty: float, folds: Sequence[np.ndarray]) -> np.ndarray:
        """Return predictions (n, K); those of a fold come from a regression without this fold.

        Parameters
        ----------
        penalty
            α > 0.
        folds
            Disjoint rows that together are all rows.
        """
        shrunk = self.vectors / np.sqrt(self.values + penalty)  # D = shrunk · shrunkᵀ
        solved = self.coefficients(penalty)
        found = np.empty_like(self.targets)
        for rows in folds:
            block = shrunk[rows] @ shrunk[rows].T
            found[rows] = self.targets[rows] - np.linalg.solve(block, solved[rows])
        return found + self.intercept


class PrimalRidge:
    """Ridge regressions of the same targets on explicit features, with several penalties.

    Parameters
    ----------
    features
        (n, m) features.
    targets
        (n, K) targets.
    folds
        Disjoint rows that together are all rows.
    """

    def __init__(self, features: np.ndarray, targets: np.ndarray, folds: Sequence[np.ndarray]) -> None:
        self.features = np.concatenate([features, np.ones((len(features), 1), features.dtype)], axis=1)
        self.targets, self.folds = targets, folds
        self.normals = [self.features[rows].T @ self.features[rows] for rows in folds]
        self.moments = [self.features[rows].T @ targets[rows].astype(features.dtype) for rows in folds]

    def solve(self, penalty: float, without: int | None = None) -> np.ndarray:
        """Return weights (m+1, K), the last row is the intercept; optionally without one fold."""
        kept = [i for i in range(len(self.folds)) if i != without]
        normal = sum(self.normals[i] for i in kept).astype(np.float64)
        # The intercept has no penalty, except a tiny one that keeps the matrix positive definite.
        normal[np.diag_indices_from(normal)] += np.append(np.full(len(normal) - 1, penalty), 1e-9)
        return _solve(normal, sum(self.moments[i] for i in kept))

    def left_out(self, penalty: float) -> np.ndarray:
        """Return predictions (n, K); those of a fold come from a regression without this fold."""
        found = np.empty(self.targets.shape)
        for i, rows in enumerate(self.folds):
            found[rows] = self.features[rows] @ self.solve(penalty, i)
        return found


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    from scipy.linalg import cho_factor, cho_solve

    return cho_solve(cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False), right)
