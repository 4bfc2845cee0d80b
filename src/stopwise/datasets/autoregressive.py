"""The autoregressive Gaussian world: single samples say nothing, only transitions tell the class.

``x_t = A_k x_{t-p} + noise`` with ``A_k`` a scaled rotation: every class has the same law of one sample,
N(0, I / (1 - radius^2)), and of any p samples in a row. An estimator that looks back less than p samples is
blind here; one that looks back p samples can be exact. No data of independent samples can show that.
"""

from __future__ import annotations

import numpy as np

from stopwise.datasets.labels import balanced_labels
from stopwise.validation import check_integer, check_real


def autoregressive(
    n: int,
    classes: int = 2,
    dim: int = 8,
    length: int = 50,
    radius: float = 0.6,
    order: int = 1,
    seed: int = 0,
    world: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return series of the autoregressive world, their labels and exact scores.

    Parameters
    ----------
    n
        Number of series.
    classes
        Number of classes K; their counts differ by at most one.
    dim
        Number of features D, at least 2.
    length
        Number of steps T.
    radius
        How much of a sample survives into the one it causes, in [0, 1); at 0 the classes are the same.
    order
        The lag p: a sample depends on the one p steps before it.
    seed
        What the labels and the noise are drawn from.
    world
        What the transition matrices are drawn from: train and test sets share it and differ in `seed`.

    Returns
    -------
    X
        (n, T, D) float32 series.
    y
        (n,) int64 labels.
    scores
        (n, T, K) float64 exact scores, 0 in the first p steps; their differences are the true
        log-likelihood ratios.

    Examples
    --------
    >>> X, y, scores = autoregressive(n=1000, seed=0)
    >>> X.shape, scores.shape
    ((1000, 50, 8), (1000, 50, 2))
    >>> bool(scores[:, 0].any())
    False
    >>> errors = (scores.argmax(axis=2) != y[:, None]).mean(axis=0)
    >>> print(f"error at step 1: {errors[0]:.2f}, at step 10: {errors[9]:.2f}")
    error at step 1: 0.50, at step 10: 0.00
    """
    n = check_integer("n", n, 1)
    length = check_integer("length", length, 2)
    if check_integer("order", order, 1) >= length:
        raise ValueError(
            f"`order` must be in [1, length - 1], as the first `order` samples tell nothing; got "
            f"order={order} for length={length}. Take longer series."
        )
    matrices = transition_matrices(classes, dim, radius, world)  # (K, D, D)
    labels, noise = (
        np.random.default_rng(s) for s in _seeds("series", check_integer("seed", seed, 0)).spawn(2)
    )
    y = balanced_labels(n, classes, labels)
    X = noise.standard_normal((n, length, dim), dtype=np.float32)
    X[:, :order] /= np.sqrt(1 - radius**2)
    for k, matrix in enumerate(matrices.astype(np.float32)):
        own = X[y == k]  # (n_k, T, D)
        for t in range(order, length):
            own[:, t] += own[:, t - order] @ matrix.T
        X[y == k] = own
    return X, y, _exact_scores(X, matrices, order)


def transition_matrices(classes: int = 2, dim: int = 8, radius: float = 0.6, world: int = 0) -> np.ndarray:
    """Return the matrices A_k, (K, D, D) float64, of the autoregressive world.

    Each is `radius` times a random orthogonal matrix, uniform over all of them.

    Parameters
    ----------
    classes, dim, radius, world
        As in `autoregressive`.

    Examples
    --------
    >>> A = transition_matrices(classes=3, dim=4, radius=0.5)
    >>> A.shape
    (3, 4, 4)
    >>> (A[2] @ A[2].T).diagonal().round(6).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    classes = check_integer("classes", classes, 2)
    # In one dimension the only rotations are +1 and -1, and classes would coincide.
    dim = check_integer("dim", dim, 2)
    radius = check_real("radius", radius, 0.0, 1.0, open_high=True)
    rng = np.random.default_rng(_seeds("world", check_integer("world", world, 0)))
    Q, R = np.linalg.qr(rng.standard_normal((classes, dim, dim)))
    # Signs of the diagonal of R make the law of Q uniform (Haar).
    return radius * Q * np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None, :]


def _seeds(purpose: str, number: int) -> np.random.SeedSequence:
    """Return a source of seeds that the same number under another purpose has nothing in common with."""
    return np.random.SeedSequence([number, *purpose.encode()])


def _exact_scores(X: np.ndarray, matrices: np.ndarray, order: int) -> np.ndarray:
    """Return the scores (n, T, K): the log densities of the transitions so far, up to a common constant."""
    n, steps, _ = X.shape
    exact = X.astype(np.float64)  # (n, T, D)
    increments = np.zeros((n, steps, len(matrices)))  # (n, T, K)
    for k, matrix in enumerate(matrices):
        residual = exact[:, order:] - exact[:, :-order] @ matrix.T
        increments[:, order:, k] = -0.5 * np.einsum("ntd,ntd->nt", residual, residual)
    return increments.cumsum(axis=1)
