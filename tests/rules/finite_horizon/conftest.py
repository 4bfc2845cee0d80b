"""Simulated data with known exact scores."""

import numpy as np
import pytest

OFFSET = 0.5


@pytest.fixture
def world():
    """Return a function that generates exact scores (n, T, K) and true classes (n,)."""

    def make(n, classes=2, steps=50, seed=0):
        """Class k has mean 0.5 e_k and unit variance, so log p(x | k) = 0.5 x_k + const."""
        rng = np.random.default_rng(seed)
        y = np.arange(n) % classes
        x = rng.standard_normal((n, steps, classes))
        x[np.arange(n), :, y] += OFFSET
        return OFFSET * x.cumsum(1), y

    return make
