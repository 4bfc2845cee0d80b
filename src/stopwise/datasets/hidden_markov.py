"""The hidden-Markov world: classes differ only in the transitions between hidden states.

The S hidden states form a ring. At each step the state stays with probability `stay`, otherwise it moves
forward, by one place in class 0, by two in class 1, and so on. A sample is Gaussian around the mean of its
state, which is the same in all classes. A single sample carries no evidence for a class. Because the state
is hidden, no finite window carries all the evidence: the process has no finite Markov order. The forward
algorithm gives the exact likelihood.
"""

from __future__ import annotations

import numpy as np

from stopwise.datasets.labels import balanced_labels
from stopwise.validation import check_integer, check_real


def hidden_markov(
    n: int,
    classes: int = 2,
    states: int = 3,
    channels: int = 4,
    length: int = 50,
    separation: float = 2.0,
    stay: float = 0.5,
    seed: int = 0,
    world: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Generate hidden-Markov series with their labels and exact scores.

    The hidden states form a ring. At each step the state stays with probability `stay`; otherwise it moves
    forward by k + 1 places in class k. A sample is Gaussian around the mean of its state.

    Parameters
    ----------
    n
        Number of series.
    classes
        Number of classes K. The class counts differ by at most one.
    states
        Number of hidden states S; more than K, because each class moves by a different distance.
    channels
        Number of channels D.
    length
        Number of steps T.
    separation
        Norm of the means of the states; the noise has standard deviation 1 in every channel.
    stay
        Probability that the state stays, in [0, 1).
    seed
        Seed of the labels, the states and the noise.
    world
        Seed of the means. Training and test sets need the same `world` and a different `seed`.

    Returns
    -------
    X
        (n, T, D) float32 series.
    y
        (n,) int64 labels.
    scores
        (n, T, K) float64 exact scores: the log-likelihood of each class given the samples so far, up to a
        term common to all classes. They are equal for all classes at the first step. The difference between
        the scores of two classes is the true log-likelihood ratio.

    Examples
    --------
    >>> X, y, scores = hidden_markov(n=1000, seed=0)
    >>> X.shape, scores.shape
    ((1000, 50, 4), (1000, 50, 2))
    >>> errors = (scores.argmax(axis=2) != y[:, None]).mean(axis=0)
    >>> print(f"error at step 1: {errors[0]:.2f}, at step 50: {errors[-1]:.2f}")
    error at step 1: 0.50, at step 50: 0.00
    """
    n, length = check_integer("n", n, 1), check_integer("length", length, 1)
    classes, channels = check_integer("classes", classes, 2), check_integer("channels", channels, 1)
    if check_integer("states", states, 2) <= classes:
        raise ValueError(
            f"`states` must be > classes, because each class moves by a different distance; got "
            f"states={states} for classes={classes}. Raise `states` to {classes + 1} or more."
        )
    separation = check_real("separation", separation, 0.0, open_high=True)
    stay = check_real("stay", stay, 0.0, 1.0, open_high=True)
    world_rng = np.random.default_rng([check_integer("world", world, 0), 1])
    directions = world_rng.standard_normal((states, channels))
    means = separation * directions / np.linalg.norm(directions, axis=1, keepdims=True)  # (S, D)
    rng = np.random.default_rng([check_integer("seed", seed, 0), 2])
    y = balanced_labels(n, classes, rng)
    moves = (rng.random((n, length)) >= stay) * (y[:, None] + 1)  # (n, T)
    moves[:, 0] = rng.integers(states, size=n)
    path = np.cumsum(moves, axis=1) % states  # (n, T) hidden states
    X = (means[path] + rng.standard_normal((n, length, channels))).astype(np.float32)
    return X, y, _forward(X, means, transitions(classes, states, stay))


def transitions(classes: int, states: int, stay: float) -> np.ndarray:
    """Return the transition matrices (K, S, S); [k, i, j] is the probability of going from i to j.

    Examples
    --------
    >>> transitions(classes=2, states=3, stay=0.5)[0].tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]
    """
    unit = np.eye(states)
    return np.stack([stay * unit + (1 - stay) * np.roll(unit, k + 1, axis=1) for k in range(classes)])


def _forward(X: np.ndarray, means: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Return log p(x_1..x_t | k), up to a constant common to the classes: (n, T, K)."""
    n, length, _ = X.shape
    residuals = X.astype(np.float64)[:, :, None] - means  # (n, T, S, D)
    emission = -0.5 * np.einsum("ntsd,ntsd->nts", residuals, residuals)  # (n, T, S)
    peak = emission.max(axis=2)  # (n, T): common to all classes, so it cancels
    likelihood = np.exp(emission - peak[:, :, None])
    belief = np.full((n, len(matrices), len(means)), 1 / len(means))  # (n, K, S): p(state | past, k)
    scores = np.zeros((n, length, len(matrices)))
    for t in range(length):
        if t:
            belief = np.einsum("nks,ksj->nkj", belief, matrices)
        belief = belief * likelihood[:, t, None]
        total = belief.sum(axis=2)  # (n, K): p(x_t | past, k) / exp(peak)
        scores[:, t] = np.log(total)
        belief /= total[:, :, None]
    return scores.cumsum(axis=1)
