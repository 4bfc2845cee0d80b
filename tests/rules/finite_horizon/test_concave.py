"""Sums of tent functions are concave and fit concave functions."""

import numpy as np
import pytest

from stopwise.rules.finite_horizon.concave import ConcaveFit, knots_for, tents


@pytest.mark.parametrize("classes", [2, 3, 12])
def test_fit_is_concave_and_close_to_the_true_function(classes):
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.full(classes, 0.5), size=(2, 2000))
    knots = knots_for(classes)
    target = np.minimum(p[:, 0], 0.4) + 0.1 * p[:, 1] + rng.normal(0, 0.05, 2000)
    found = ConcaveFit(tents(p, knots), np.ones(2000), None).solve(target)
    assert (found >= 0).all()

    def at(points):
        return tents(points, knots) @ found

    assert (at((p + q) / 2) >= (at(p) + at(q)) / 2 - 1e-9).all()
    assert np.abs(at(q) - np.minimum(q[:, 0], 0.4) - 0.1 * q[:, 1]).mean() < 0.02
