"""Tests of expectation-maximization against sums over all state paths and worlds with known parameters."""

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from stopwise.datasets import hidden_markov
from stopwise.datasets.hidden_markov import transitions
from stopwise.models.networks.training import hidden_markov as em

K, M, D, T = 2, 3, 2, 4


def model(seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(D, D))
    return em.HiddenMarkov(
        rng.normal(size=(M, D)),
        root @ root.T + np.eye(D),
        rng.dirichlet(np.ones(M), size=(K, M)),
        rng.dirichlet(np.ones(M), size=K),
        rng.normal(size=(K, D)),
    )


def data(lengths=(4, 2, 1, 3), seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(len(lengths), T, D)) + 3.0  # a common offset must not matter
    return x, np.array([0, 1, 1, 0]), np.array(lengths)


def over_paths(one, x, k):
    """Return the likelihood of a series x (t, D) and its expected counts, by a sum over all state paths."""
    density = np.stack(
        [
            multivariate_normal(mean + one.offsets[k], np.linalg.inv(one.precision)).pdf(x).reshape(-1)
            for mean in one.means
        ],
        axis=1,
    )
    total, samples, moves, starts = 0.0, np.zeros((len(x), M)), np.zeros((M, M)), np.zeros(M)
    for path in itertools.product(range(M), repeat=len(x)):
        chance = one.start[k, path[0]] * np.prod(density[range(len(x)), path])
        for before, after in itertools.pairwise(path):
            chance *= one.transition[k, before, after]
        total += chance
        starts[path[0]] += chance
        for t, state in enumerate(path):
            samples[t, state] += chance
        for before, after in itertools.pairwise(path):
            moves[before, after] += chance
    return total, samples / total, moves / total, starts / total


def log_prior(one, series):
    away = one.means - series.mean
    squares = away.T @ away + one.offsets.T @ one.offsets
    spread = em.PSEUDO_SAMPLES * squares + series.count * series.least_covariance
    counts = em.PSEUDO_COUNT * (np.log(one.transition).sum() + np.log(one.start).sum())
    return counts - 0.5 * (one.precision * spread).sum()


def test_expected_counts_equal_sums_over_all_state_paths():
    one, (x, y, lengths) = model(), data()
    series = em.Series(x, y, lengths, K)
    objective, expected = em.expect(one, series)
    samples, sums = np.zeros((K, M)), np.zeros((M, D))
    moves, starts, total = np.zeros((K, M, M)), np.zeros((K, M)), 0.0
    for row, k, length in zip(x, y, lengths):
        likelihood, own, moved, started = over_paths(one, row[:length], k)
        total += np.log(likelihood)
        samples[k] += own.sum(0)
        sums += own.T @ row[:length]
        moves[k] += moved
        starts[k] += started
    np.testing.assert_allclose(expected.samples, samples)
    np.testing.assert_allclose(expected.sums, sums)
    np.testing.assert_allclose(expected.moves, moves, atol=1e-12)
    np.testing.assert_allclose(expected.starts, starts)
    constant = series.count * D / 2 * np.log(2 * np.pi)
    assert objective - constant == pytest.approx(total + log_prior(one, series))


def test_values_after_the_end_of_a_series_do_not_matter():
    x, y, lengths = data()
    changed = x.copy()
    for row, length in zip(changed, lengths):
        row[length:] = np.nan
    (a, counts), (b, others) = (em.expect(model(), em.Series(z, y, lengths, K)) for z in (x, changed))
    assert a == b
    for one, other in zip(counts, others):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("offsets", [True, False])
def test_every_iteration_raises_the_objective(offsets):
    X, y, _ = hidden_markov(60, length=12, seed=3)
    X = X + y[:, None, None]
    lengths = np.random.default_rng(0).integers(1, 13, size=60)
    series = em.Series(X, y, lengths, 2, offsets)
    found, history = em.improve(em.random_start(series, 5, [0], offset=True), series, 40)
    assert found.offsets.any() == offsets
    assert len(history) > 10
    assert (np.diff(history) > -1e-12).all()


def test_maximum_is_a_stationary_point_of_the_expected_objective():
    series = em.Series(*data(), K)
    one = model()
    for _ in range(3000):
        one = em.maximize(em.expect(one, series)[1], one.offsets, series)
    best = em.expect(one, series)[0]
    rng = np.random.default_rng(5)
    for step in (1e-3, -1e-3):
        for _ in range(10):
            change = rng.normal(size=one.means.shape)
            assert em.expect(one._replace(means=one.means + step * change), series)[0] < best
            change = rng.normal(size=one.offsets.shape)
            assert em.expect(one._replace(offsets=one.offsets + step * change), series)[0] < best
            scaled = np.diag(np.exp(step * rng.normal(size=D)))
            assert em.expect(one._replace(precision=scaled @ one.precision @ scaled), series)[0] < best
            moved = one.transition * np.exp(step * rng.normal(size=one.transition.shape))
            moved /= moved.sum(-1, keepdims=True)
            assert em.expect(one._replace(transition=moved), series)[0] < best


def test_parameters_of_the_hidden_markov_world_are_found():
    X, y, _ = hidden_markov(1500, seed=4)
    series = em.Series(X, y, np.full(1500, 50), 2)
    few = em.Series(X[:300], y[:300], np.full(300, 50), 2)
    found, _ = em.fit_hidden_markov(series, few, 3, seed=0)
    np.testing.assert_allclose(np.linalg.inv(found.precision), np.eye(4), atol=0.05)
    directions = np.random.default_rng([0, 1]).standard_normal((3, 4))
    means = 2 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    places = np.array([np.linalg.norm(found.means - mean, axis=1).argmin() for mean in means])
    np.testing.assert_allclose(found.means[places], means, atol=0.1)
    in_order = found.transition[:, places][:, :, places]
    np.testing.assert_allclose(in_order, transitions(2, 3, 0.5), atol=0.03)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((4, 3, 2)),
        np.full((4, 1, 1), 7.0),
        np.arange(24.0).reshape(4, 3, 2) * [1, 0],
        1e6 * np.arange(24.0).reshape(4, 3, 2),
    ],
    ids=["zeros", "one constant sample", "constant channel", "large"],
)
def test_degenerate_series_give_finite_models(X):
    y, lengths = np.array([0, 1, 0, 1]), np.full(4, X.shape[1])
    series = em.Series(X, y, lengths, 2)
    found, history = em.fit_hidden_markov(series, series, 8, seed=0)
    assert np.isfinite(history).all()
    weights, bias = found.emission
    assert all(np.isfinite(part).all() for part in (weights, bias))
    assert all((part > 0).all() for part in (found.transition, found.start))


def test_a_channel_that_is_constant_in_training_has_no_weight():
    X, y, _ = hidden_markov(50, length=10)
    X[..., 2] = 1.0
    series = em.Series(X, y, np.full(50, 10), 2)
    weights, _ = em.fit_hidden_markov(series, series, 4, seed=0)[0].emission
    assert np.abs(weights[2]).max() < 1e-3 * np.abs(weights).max()
