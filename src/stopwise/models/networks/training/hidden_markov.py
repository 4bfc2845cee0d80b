"""Fit of hidden-Markov models with common emissions by expectation-maximization (EM).

Each class has transitions and a first state of its own. A sample is Gaussian with one covariance. Its mean is
that of the state plus an offset of the class. EM learns from every sample of a series. LSEL learns hardly
anything from a series after its class is clear, so EM is far more precise where such a model is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics import pairwise_distances_argmin

from stopwise.progress import Reporter
from stopwise.validation import inside

# Half of the starts have the offsets of the class means; the states then explain the rest.
STARTS = 4
FIRST_ITERATIONS = 10  # of each start
ITERATIONS = 100
FEW_STARTS, FEW_ITERATIONS = 2, 10  # of a brief fit
TOLERANCE = 1e-6  # gain in log-likelihood per sample below which EM stops
SEED_SAMPLES = 10_000  # number of samples from which the first means are drawn
# Prior, as a number of imagined observations: of each transition and first state, and of a sample at the
# overall mean in each state.
PSEUDO_COUNT = 0.5
PSEUDO_SAMPLES = 1.0
# Shares of the overall variance that are added to the covariance: of each channel's own, and of their mean.
OWN_SHARE, COMMON_SHARE = 1e-3, 1e-6


class HiddenMarkov(NamedTuple):
    """Hidden-Markov models of K classes with M common states.

    Parameters
    ----------
    means
        (M, D) means of the samples in each state.
    precision
        (D, D) inverse of the covariance of the samples in any state.
    transition
        (K, M, M) transition matrices; [k, i, j] is the probability of going from i to j.
    start
        (K, M) distributions of the first state.
    offsets
        (K, D) offsets of the classes, which are added to the means.
    """

    means: np.ndarray
    precision: np.ndarray
    transition: np.ndarray
    start: np.ndarray
    offsets: np.ndarray

    @property
    def center(self) -> np.ndarray:
        """Mean (D,) of the means."""
        return self.means.mean(0)

    @property
    def emission(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights (D, M) and bias (M,) of the part of the log-densities that depends on state and sample."""
        # Relative to the center: the evidence between states is not a small difference of large numbers, and
        # channels in which the means are equal have weight 0.
        away = self.means - self.center
        weights = self.precision @ away.T
        return weights, -self.center @ weights - 0.5 * (away.T * weights).sum(0)

    @property
    def class_bias(self) -> np.ndarray:
        """Part (K, M) of the log-densities that depends on class and state."""
        return -self.offsets @ self.emission[0]

    @property
    def class_evidence(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights (D, K) and bias (K,) of the part of the log-densities that depends on class and sample."""
        weights = self.precision @ self.offsets.T
        return weights, -self.center @ weights - 0.5 * (self.offsets.T * weights).sum(0)


class Series:
    """Labeled series in the layout that EM reads.

    Parameters
    ----------
    x
        (n, T, D) series. Values after the end of a series are not used.
    y
        (n,) class indices.
    lengths
        (n,) lengths of the series.
    classes
        K, the number of classes.
    offsets
        Whether the classes may have offsets.
    """

    def __init__(
        self, x: np.ndarray, y: np.ndarray, lengths: np.ndarray, classes: int, offsets: bool = True
    ) -> None:
        self.offsets = offsets
        by_class = np.argsort(y, kind="stable")
        self.inside = np.ascontiguousarray(inside(lengths, x.shape[1])[by_class].T)  # (T, n)
        x = np.ascontiguousarray(x[by_class].transpose(1, 0, 2), dtype=np.float64)  # (T, n, D)
        self.samples = np.where(self.inside[..., None], x, 0.0)
        ends = np.searchsorted(y[by_class], np.arange(classes), side="right")
        self.of_class = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends)]
        self.count = int(self.inside.sum())
        flat = self.samples[self.inside]
        self.mean, self.moments = flat.mean(0), flat.T @ flat
        self.class_sums = np.stack([self.samples[:, own].sum((0, 1)) for own in self.of_class])  # (K, D)
        self.class_counts = np.array([self.inside[:, own].sum() for own in self.of_class])  # (K,)
        variance = flat.var(0)
        self.least_covariance = np.diag(
            OWN_SHARE * variance + COMMON_SHARE * variance.mean() + np.finfo(np.float32).tiny
        )


def fit_hidden_markov(
    series: Series,
    few: Series,
    states: int,
    seed: int,
    *,
    brief: bool = False,
    progress: bool | str = False,
) -> tuple[HiddenMarkov, list[float]]:
    """Fit hidden-Markov models by EM. The best of several starts on few series is continued on all.

    Parameters
    ----------
    series
        Training series.
    few
        A part of the training series, for the choice of the start.
    states
        M, the number of states.
    seed
        Random seed of the starts.
    brief
        Whether to end after few starts and iterations.
    progress
        As for `Reporter`.

    Returns
    -------
    model, history
        The model, and the objective of `expect` per sample at each iteration on all series.
    """
    count, iterations = (FEW_STARTS, FEW_ITERATIONS) if brief else (STARTS, ITERATIONS)
    with Reporter("finding hidden states", count * FIRST_ITERATIONS + iterations, progress) as reporter:
        starts = [
            improve(random_start(few, states, [seed, i], i % 2 == 0), few, FIRST_ITERATIONS, reporter)
            for i in range(count)
        ]
        best, _ = max(starts, key=lambda start: start[1][-1])
        return improve(best, series, iterations, reporter)


def improve(
    model: HiddenMarkov, series: Series, iterations: int, reporter: Reporter | None = None
) -> tuple[HiddenMarkov, list[float]]:
    """Run EM until it converges or ends; return the model and the objective per sample at each iteration."""
    history: list[float] = []
    for _ in range(iterations):
        objective, expected = expect(model, series)
        history.append(float(objective / series.count))
        if reporter is not None:
            reporter.advance(f"log-likelihood {history[-1]:.4g}")
        if len(history) > 1 and history[-1] - history[-2] < TOLERANCE:
            break
        model = maximize(expected, model.offsets, series)
    return model, history


class Expected(NamedTuple):
    """Expected counts of a model on the training series."""

    samples: np.ndarray  # (K, M), in each class and state
    sums: np.ndarray  # (M, D), of the samples in each state
    moves: np.ndarray  # (K, M, M)
    starts: np.ndarray  # (K, M)


def expect(model: HiddenMarkov, series: Series) -> tuple[float, Expected]:
    """Return the log-posterior density of a model, up to a constant, and the expected counts."""
    weights, bias = model.emission
    logs = series.samples @ weights + bias  # (T, n, M)
    for own, of_class in zip(series.of_class, model.class_bias):
        logs[:, own] += of_class
    peaks = logs.max(-1)
    # A sample after the end has density 1 in every state, so it changes nothing.
    densities = np.where(series.inside[..., None], np.exp(logs - peaks[..., None]), 1.0)
    posteriors = np.empty_like(densities)
    total = float(peaks[series.inside].sum())
    moves = np.zeros_like(model.transition)
    for k, own in enumerate(series.of_class):
        part = _smooth(densities[:, own], series.inside[:, own], model.transition[k], model.start[k])
        logs_of_class, posteriors[:, own], moves[k] = part
        total += logs_of_class
    posteriors *= series.inside[..., None]
    samples = np.stack([posteriors[:, own].sum((0, 1)) for own in series.of_class])
    starts = np.stack([posteriors[0, own].sum(0) for own in series.of_class])
    sums = posteriors.reshape(-1, samples.shape[1]).T @ series.samples.reshape(-1, series.samples.shape[-1])
    return total + _log_prior_and_common_terms(model, series), Expected(samples, sums, moves, starts)


def _smooth(
    densities: np.ndarray, inside: np.ndarray, transition: np.ndarray, start: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the log-likelihood, the posteriors (T, n, M) of the states and the expected moves (M, M)."""
    steps = len(densities)
    beliefs, totals = np.empty_like(densities), np.empty(densities.shape[:2])
    prediction = np.broadcast_to(start, densities.shape[1:])
    for t in range(steps):
        joint = prediction * densities[t]
        totals[t] = joint.sum(-1)
        beliefs[t] = joint / totals[t][:, None]
        prediction = beliefs[t] @ transition
    later = np.ones(densities.shape[1:])  # density of the samples after t given the state at t, scaled
    posteriors, moves = beliefs, np.zeros_like(transition)
    for t in range(steps - 1, 0, -1):
        arrived = densities[t] * later / totals[t][:, None]
        moves += beliefs[t - 1].T @ (arrived * inside[t][:, None])
        posteriors[t] *= later
        later = arrived @ transition.T
    posteriors[0] *= later
    return float(np.log(totals).sum()), posteriors, moves * transition


def _log_prior_and_common_terms(model: HiddenMarkov, series: Series) -> float:
    """Return the terms of the objective that do not depend on the states."""
    shifts = model.center + model.offsets  # (K, D), about which the emissions are written
    cross = series.class_sums.T @ shifts
    moments = series.moments - cross - cross.T + (shifts.T * series.class_counts) @ shifts
    spread = moments + _prior_spread(model.means, model.offsets, series)
    volume = series.count * np.linalg.slogdet(model.precision)[1] - (model.precision * spread).sum()
    return 0.5 * volume + PSEUDO_COUNT * float(np.log(model.transition).sum() + np.log(model.start).sum())


def _prior_spread(means: np.ndarray, offsets: np.ndarray, series: Series) -> np.ndarray:
    """Return what the prior adds to the sum of squares (D, D) of the samples about their means."""
    away = means - series.mean
    return PSEUDO_SAMPLES * (away.T @ away + offsets.T @ offsets) + series.count * series.least_covariance


def maximize(expected: Expected, offsets: np.ndarray, series: Series) -> HiddenMarkov:
    """Return a model with a larger expected objective: the best means, then offsets, then the rest."""
    counts = expected.samples  # (K, M)
    shifted = expected.sums - counts.T @ offsets
    means = (shifted + PSEUDO_SAMPLES * series.mean) / (counts.sum(0) + PSEUDO_SAMPLES)[:, None]
    if series.offsets:
        offsets = (series.class_sums - counts @ means) / (series.class_counts + PSEUDO_SAMPLES)[:, None]
    cross = expected.sums.T @ means + series.class_sums.T @ offsets
    both = means.T @ counts.T @ offsets
    squares = (means.T * counts.sum(0)) @ means + (offsets.T * series.class_counts) @ offsets
    spread = series.moments - cross - cross.T + squares + both + both.T
    covariance = (spread + _prior_spread(means, offsets, series)) / series.count
    moves, starts = expected.moves + PSEUDO_COUNT, expected.starts + PSEUDO_COUNT
    return HiddenMarkov(
        means,
        np.linalg.inv(covariance),
        moves / moves.sum(-1, keepdims=True),
        starts / starts.sum(-1, keepdims=True),
        offsets,
    )


def random_start(series: Series, states: int, seed: Sequence[int], offset: bool) -> HiddenMarkov:
    """Return a model whose means are samples far from each other, with random transitions.

    Parameters
    ----------
    series
        Training series.
    states
        M, the number of states.
    seed
        Random seed.
    offset
        Whether the offsets of the classes are those of their means; otherwise they are 0.
    """
    rng = np.random.default_rng(seed)
    classes = len(series.of_class)
    offsets = np.zeros_like(series.class_sums)
    if offset and series.offsets:
        counts = series.class_counts[:, None]
        offsets = np.where(counts, series.class_sums / np.maximum(counts, 1) - series.mean, 0.0)
    shifted = [series.samples[:, own] - shift for own, shift in zip(series.of_class, offsets)]
    flat = np.concatenate(shifted, axis=1)[series.inside]
    chosen = flat[rng.permutation(len(flat))[:SEED_SAMPLES]]
    # Repeat samples if there are fewer than states, and move them a little so that means differ.
    chosen = np.resize(chosen, (max(len(chosen), states), chosen.shape[1]))
    spread = np.sqrt(series.least_covariance.diagonal())
    chosen = chosen + spread * rng.standard_normal(chosen.shape)
    centers, _ = kmeans_plusplus(chosen, states, random_state=int(rng.integers(2**31)))
    residuals = chosen - centers[pairwise_distances_argmin(chosen, centers)]
    covariance = residuals.T @ residuals / len(chosen) + series.least_covariance
    return HiddenMarkov(
        centers,
        np.linalg.inv(covariance),
        rng.dirichlet(np.full(states, 10.0), size=(classes, states)),
        np.full((classes, states), 1 / states),
        offsets,
    )
