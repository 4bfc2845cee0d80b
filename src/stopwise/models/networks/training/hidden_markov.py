"""Fit of hidden-Markov models with common emissions by expectation-maximization (EM).

Each class has transitions and a first state of its own. The emissions, Gaussians with one covariance for all
states, are the same in all classes. EM learns from every sample of a series. LSEL learns hardly anything from
a series after its class is clear, so EM is far more precise where such a model is right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics import pairwise_distances_argmin

from stopwise.progress import Reporter
from stopwise.validation import inside

STARTS = 3
FIRST_ITERATIONS = 10  # of each start
ITERATIONS = 100
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
    """

    means: np.ndarray
    precision: np.ndarray
    transition: np.ndarray
    start: np.ndarray

    @property
    def emission(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights (D, M) and bias (M,) of the log-densities, up to a term common to all states."""
        # Relative to the center of the means: the evidence between states is not a small difference of large
        # numbers, and channels in which the means are equal have weight 0.
        center = self.means.mean(0)
        away = self.means - center
        weights = self.precision @ away.T
        return weights, -center @ weights - 0.5 * (away.T * weights).sum(0)


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
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, lengths: np.ndarray, classes: int) -> None:
        by_class = np.argsort(y, kind="stable")
        self.inside = np.ascontiguousarray(inside(lengths, x.shape[1])[by_class].T)  # (T, n)
        x = np.ascontiguousarray(x[by_class].transpose(1, 0, 2), dtype=np.float64)  # (T, n, D)
        self.samples = np.where(self.inside[..., None], x, 0.0)
        ends = np.searchsorted(y[by_class], np.arange(classes), side="right")
        self.of_class = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends)]
        self.count = int(self.inside.sum())
        flat = self.samples[self.inside]
        self.mean, self.moments = flat.mean(0), flat.T @ flat
        variance = flat.var(0)
        self.least_covariance = np.diag(
            OWN_SHARE * variance + COMMON_SHARE * variance.mean() + np.finfo(np.float32).tiny
        )


def fit_hidden_markov(
    series: Series, few: Series, states: int, seed: int, *, progress: bool | str = False
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
    progress
        As for `Reporter`.

    Returns
    -------
    model, history
        The model, and the objective of `expect` per sample at each iteration on all series.
    """
    with Reporter("finding hidden states", STARTS * FIRST_ITERATIONS + ITERATIONS, progress) as reporter:
        starts = [
            improve(
                _random_start(few, states, np.random.default_rng([seed, i])), few, FIRST_ITERATIONS, reporter
            )
            for i in range(STARTS)
        ]
        best, _ = max(starts, key=lambda start: start[1][-1])
        return improve(best, series, ITERATIONS, reporter)


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
        model = maximize(expected, series)
    return model, history


class Expected(NamedTuple):
    """Expected counts of a model on the training series."""

    samples: np.ndarray  # (M,), in each state
    sums: np.ndarray  # (M, D), of the samples in each state
    moves: np.ndarray  # (K, M, M)
    starts: np.ndarray  # (K, M)


def expect(model: HiddenMarkov, series: Series) -> tuple[float, Expected]:
    """Return the log-posterior density of a model, up to a constant, and the expected counts."""
    weights, bias = model.emission
    logs = series.samples @ weights + bias  # (T, n, M)
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
    starts = np.stack([posteriors[0, own].sum(0) for own in series.of_class])
    states = posteriors.shape[-1]
    sums = posteriors.reshape(-1, states).T @ series.samples.reshape(-1, series.samples.shape[-1])
    total += _log_prior_and_common_terms(model, series)
    return total, Expected(posteriors.sum((0, 1)), sums, moves, starts)


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
    away = model.means - series.mean
    center = model.means.mean(0)
    moments = series.moments - series.count * (
        np.outer(series.mean, center) + np.outer(center, series.mean) - np.outer(center, center)
    )  # about the center, to which the emissions refer
    spread = moments + PSEUDO_SAMPLES * away.T @ away + series.count * series.least_covariance
    volume = series.count * np.linalg.slogdet(model.precision)[1] - (model.precision * spread).sum()
    return 0.5 * volume + PSEUDO_COUNT * float(np.log(model.transition).sum() + np.log(model.start).sum())


def maximize(expected: Expected, series: Series) -> HiddenMarkov:
    """Return the model that maximizes the expected objective."""
    weights = expected.samples + PSEUDO_SAMPLES
    means = (expected.sums + PSEUDO_SAMPLES * series.mean) / weights[:, None]
    prior = PSEUDO_SAMPLES * len(means) * np.outer(series.mean, series.mean)
    spread = series.moments + prior - (means.T * weights) @ means
    covariance = spread / series.count + series.least_covariance
    moves, starts = expected.moves + PSEUDO_COUNT, expected.starts + PSEUDO_COUNT
    return HiddenMarkov(
        means,
        np.linalg.inv(covariance),
        moves / moves.sum(-1, keepdims=True),
        starts / starts.sum(-1, keepdims=True),
    )


def _random_start(series: Series, states: int, rng: np.random.Generator) -> HiddenMarkov:
    """Return a model whose means are samples far from each other, with random transitions."""
    flat = series.samples[series.inside]
    chosen = flat[rng.permutation(len(flat))[:SEED_SAMPLES]]
    # Repeat samples if there are fewer than states, and move them a little so that means differ.
    chosen = np.resize(chosen, (max(len(chosen), states), chosen.shape[1]))
    spread = np.sqrt(series.least_covariance.diagonal())
    chosen = chosen + spread * rng.standard_normal(chosen.shape)
    centers, _ = kmeans_plusplus(chosen, states, random_state=int(rng.integers(2**31)))
    residuals = chosen - centers[pairwise_distances_argmin(chosen, centers)]
    covariance = residuals.T @ residuals / len(chosen) + series.least_covariance
    classes = len(series.of_class)
    return HiddenMarkov(
        centers,
        np.linalg.inv(covariance),
        rng.dirichlet(np.full(states, 10.0), size=(classes, states)),
        np.full((classes, states), 1 / states),
    )
