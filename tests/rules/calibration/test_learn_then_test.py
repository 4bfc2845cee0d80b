"""Fixed-sequence testing, and the number of series it needs."""

import numpy as np
import pytest
from scipy.stats import binom

from stopwise.rules.calibration.learn_then_test import last_accepted, series_needed


def test_testing_ends_at_the_first_failure():
    losses = np.array([[0, 0, 9, 0]])
    assert last_accepted(losses, np.array([100]), np.array([0.05]), 0.05) == 1
    assert last_accepted(losses[:, 2:], np.array([100]), np.array([0.05]), 0.05) is None
    assert last_accepted(losses[:, :2], np.array([100]), np.array([0.05]), 0.05) == 1


@pytest.mark.parametrize(("loss", "rate", "delta"), [(0.0, 0.05, 0.05), (0.03, 0.05, 0.1), (0.2, 0.25, 0.01)])
def test_series_needed_is_close_to_minimal(loss, rate, delta):
    needed = series_needed(loss, rate, delta)
    assert binom.cdf(np.ceil(loss * needed), needed, rate) <= delta
    fewer = int(0.8 * needed)
    assert binom.cdf(np.ceil(loss * fewer), fewer, rate) > delta
