"""`Tapering`, compared with its formula."""

import math

import numpy as np
import pytest

from stopwise.rules import Tapering


@pytest.mark.parametrize("kappa", [-1.0, 0.0, 0.7])
def test_stopping_times_equal_the_formula(kappa):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(50, 15, 3)).cumsum(1)
    decisions = Tapering(5.0, 10, kappa=kappa).decide(scores)
    for series, time, forced in zip(scores, decisions.times, decisions.forced):
        for t in range(1, 16):
            second, first = sorted(series[t - 1])[-2:]
            if first - second >= 5.0 * max(0.0, 1 - t / 10) ** math.exp(kappa):
                break
        assert (time, forced) == (t, False)
    assert len(set(decisions.times)) > 4


def test_decides_at_the_horizon_without_evidence():
    assert Tapering(100.0, 7).decide(np.zeros((1, 9, 2))).times[0] == 7
    assert Tapering(100.0, 7, kappa=1e6).decide(np.zeros((1, 9, 2))).times[0] == 1


def test_threshold_is_zero_after_the_horizon():
    assert Tapering(5.0, 10).accept([[0.0, 0.1], [0.0, 0.1]], [9, 20]).tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((-1.0, 5), {}, ValueError, r"`threshold` must be in \[0, inf\); got -1"),
        ((np.inf, 5), {}, ValueError, r"`threshold` must be in \[0, inf\); got inf"),
        ((1.0, 0), {}, ValueError, "`horizon` must be >= 1; got 0"),
        ((1.0, 5.0), {}, TypeError, r"`horizon` must be an integer; got 5.0 \(float\)"),
        ((1.0, 5), {"kappa": np.nan}, ValueError, "`kappa`.*got nan"),
    ],
)
def test_invalid_arguments_raise(arguments, options, error, message):
    with pytest.raises(error, match=message):
        Tapering(*arguments, **options)
