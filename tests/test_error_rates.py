"""The SPRT on true log-likelihood ratios keeps its error rates, on two kinds of synthetic data."""

import numpy as np
import pytest
from scipy.stats import binom

import stopwise as sw

WORLDS = {
    "gaussian": lambda k: sw.datasets.gaussian(6000, classes=k, offset=1.0, channels=k, length=60, seed=5),
    "autoregressive": lambda k: sw.datasets.autoregressive(
        6000, classes=k, channels=3, length=60, radius=0.5, seed=5, world=1
    ),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("alpha", [0.01, 0.1])
def test_the_error_rate_of_each_class_is_at_most_alpha(world, classes, alpha):
    _, y, truth = WORLDS[world](classes)
    d = sw.SPRT(error_rate=alpha).decide(truth)
    assert d.forced.mean() < 0.01
    for k in range(classes):
        own = y == k
        errors = int((d.labels[own] != k).sum())
        assert errors <= binom.ppf(0.9999, own.sum(), alpha), f"class {k}: {errors} errors of {own.sum()}"


def test_error_rates_by_class():
    _, y, truth = WORLDS["gaussian"](3)
    alphas = np.array([0.2, 0.02, 0.005])
    d = sw.SPRT(error_rate=alphas).decide(truth)
    for k, alpha in enumerate(alphas):
        own = y == k
        assert (d.labels[own] != k).sum() <= binom.ppf(0.9999, own.sum(), alpha)
    # A higher error rate for class 0 lowers the threshold for deciding against it.
    assert d.times[y == 1].mean() < sw.SPRT(error_rate=0.005).decide(truth).times[y == 1].mean()
