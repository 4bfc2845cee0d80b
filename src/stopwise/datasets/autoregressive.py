"""The autoregressive Gaussian world: classes differ only in their transitions.

In class k, ``x_t = A_k x_{t-p} + noise``, where ``A_k`` is a scaled orthogonal matrix. The distribution of a
single sample, N(0, I / (1 - radius^2)), is the same in every class, and so is the joint distribution of any p
consecutive samples. A model of order less than p therefore cannot separate the classes, while a model of
order p can be exact.
"""

from __future__ import annotations

import numpy as np

from stopwise.datasets.labels import balanced_labels
from stopwise.validation import check_integer, check_real


def autoregressive(
    n: int,
    classes: int = 2,
    channels: int = 8,
    length: int = 50,
    radius: float = 0.6,
    order: int = 1,
    seed: int = 0,
    world: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Generate autoregressive Gaussian series with their labels and exact scores.

    In class k, each sample is ``A_k`` times the sample `order` steps earlier, plus standard normal noise. A
    single sample carries no evidence for a class; see `transition_matrices` for ``A_k``.

    Parameters
    ----------
    n
        Number of series.
    classes
        Number of classes K. The class counts differ by at most one.
    channels
        Number of channels D, at least 2.
    length
        Number of steps T.
    radius
        Scale of the transition matrices, in [0, 1). It sets the strength of the dependence between samples;
        at 0 the classes are identical.
    order
        Lag p, in [1, T - 1]: a sample depends on the sample p steps earlier.
    seed
        Seed of the labels and of the noise.
    world
        Seed of the transition matrices. Training and test sets need the same `world` and a different `seed`.

    Returns
    -------
    X
        (n, T, D) float32 series.
    y
        (n,) int64 labels.
    scores
        (n, T, K) float64 exact scores: the log-likelihood of each class given the samples so far, up to a
        term common to all classes. They are 0 in the first p steps. The difference between the scores of
        two classes is the true log-likelihood ratio.

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
            f"`order` must be in [1, length - 1], because the first `order` samples carry no evidence; got "
            f"order={order} for length={length}. Raise `length` or lower `order`."
        )
    matrices = transition_matrices(classes, channels, radius, world)  # (K, D, D)
    labels, noise = (
        np.random.default_rng(s) for s in _seeds("series", check_integer("seed", seed, 0)).spawn(2)
    )
    y = balanced_labels(n, classes, labels)
    X = noise.standard_normal((n, length, channels), dtype=np.float32)
    X[:, :order] /= np.sqrt(1 - radius**2)
    for k, matrix in enumerate(matrices.astype(np.float32)):
        own = X[y == k]  # (n_k, T, D)
        for t in range(order, length):
            own[:, t] += own[:, t - order] @ matrix.T
        X[y == k] = own
    return X, y, _exact_scores(X, matrices, order)


def transition_matrices(
    classes: int = 2, channels: int = 8, radius: float = 0.6, world: int = 0
) -> np.ndarray:
    """Return the transition matrices of the series that `autoregressive` generates.

    Each matrix is `radius` times a random orthogonal matrix, drawn uniformly.

    Parameters
    ----------
    classes
        Number of classes K.
    channels
        Number of channels D, at least 2.
    radius
        Scale of the matrices, in [0, 1).
    world
        Seed of the matrices.

    Returns
    -------
    matrices
        (K, D, D) float64, one matrix per class.

    Examples
    --------
    >>> A = transition_matrices(classes=3, channels=4, radius=0.5)
    >>> A.shape
    (3, 4, 4)
    >>> (A[2] @ A[2].T).diagonal().round(6).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    classes = check_integer("classes", classes, 2)
    # With one channel the only orthogonal matrices are +1 and -1, so two classes could be identical.
    channels = check_integer("channels", channels, 2)
    radius = check_real("radius", radius, 0.0, 1.0, open_high=True)
    rng = np.random.default_rng(_seeds("world", check_integer("world", world, 0)))
    Q, R = np.linalg.qr(rng.standard_normal((classes, channels, channels)))
    # Multiplying by the signs of the diagonal of R makes the distribution of Q uniform (Haar).
    return radius * Q * np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None, :]


def _seeds(purpose: str, number: int) -> np.random.SeedSequence:
    """Return a seed sequence that is independent of the one for the same number and another purpose."""
    return np.random.SeedSequence([number, *purpose.encode()])


def _exact_scores(X: np.ndarray, matrices: np.ndarray, order: int) -> np.ndarray:
    """Return the scores (n, T, K): log densities of the transitions so far, up to a common constant."""
    n, steps, _ = X.shape
    exact = X.astype(np.float64)  # (n, T, D)
    increments = np.zeros((n, steps, len(matrices)))  # (n, T, K)
    for k, matrix in enumerate(matrices):
        residual = exact[:, order:] - exact[:, :-order] @ matrix.T
        increments[:, order:, k] = -0.5 * np.einsum("ntd,ntd->nt", residual, residual)
    return increments.cumsum(axis=1)
