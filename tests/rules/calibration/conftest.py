"""Random series shared by the calibration tests."""

import numpy as np
import pytest


@pytest.fixture
def walks():
    """Return a function that generates scores (n, T, K), true classes (n,) and lengths (n,)."""

    def make(n=120, steps=9, classes=3, seed=0, ragged=True, digits=None):
        """Return scores that drift to the true class; rounding to few digits gives ties."""
        rng = np.random.default_rng(seed)
        y = rng.integers(0, classes, n)
        increments = rng.normal(size=(n, steps, classes))
        increments[np.arange(n), :, y] += 0.8
        scores = increments.cumsum(1)
        if digits is not None:
            scores = scores.round(digits)
        lengths = rng.integers(1, steps + 1, n) if ragged else np.full(n, steps)
        scores[np.arange(steps) >= lengths[:, None]] = np.nan
        return scores, y, lengths

    return make
