import numpy as np

from stopwise.models.prefix.compiling import projected
from stopwise.models.prefix.rbf import Rbf


def make_kernels(n, rng):
    statistics = {"levels": rng.standard_normal((n, 2)), "last": rng.standard_normal((n, 3))}
    rbf = {kind: (Rbf.learn(values), 0.5 + i) for i, (kind, values) in enumerate(statistics.items())}
    return statistics, rbf


def function(rbf, statistics, others, weights):
    """Values at all series of the kernel function of some series, without the code under test."""
    total = 0.0
    for kind, (learned, factor) in rbf.items():
        z = learned.standardized(statistics[kind])
        total = total + factor * learned.gram(z, z[others]) @ weights
    return total


def test_projected_weights_agree_at_the_series_kept():
    rng = np.random.default_rng(0)
    statistics, rbf = make_kernels(40, rng)
    weights, marks = rng.standard_normal((40, 2)), np.arange(0, 40, 2)
    found = function(rbf, statistics, marks, projected(rbf, statistics, marks, weights))
    exact = function(rbf, statistics, np.arange(40), weights)
    np.testing.assert_allclose(found[marks], exact[marks], atol=1e-3 * np.abs(exact).max())


def test_weights_of_the_series_kept_alone_stay_as_they_are():
    rng = np.random.default_rng(1)
    statistics, rbf = make_kernels(30, rng)
    marks, weights = np.arange(10), np.zeros((30, 3))
    weights[marks] = rng.standard_normal((10, 3))
    np.testing.assert_allclose(projected(rbf, statistics, marks, weights), weights[marks], atol=1e-3)


def test_many_equal_series_are_projected():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, (900, 2)).astype(np.float32)  # nine different series
    statistics = {"levels": np.tile(values, 20)}
    rbf = {"levels": (Rbf.learn(statistics["levels"]), 1.0)}
    marks, weights = np.arange(0, 900, 2), rng.standard_normal((900, 3))
    found = function(rbf, statistics, marks, projected(rbf, statistics, marks, weights))
    exact = function(rbf, statistics, np.arange(900), weights)
    np.testing.assert_allclose(found, exact, atol=1e-3 * np.abs(exact).max())
