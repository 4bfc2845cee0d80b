"""`FixedTime`, compared with plain loops and a closed form."""

import math

import numpy as np
import pytest

from stopwise.rules import FixedTime


def normal_cdf(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def test_fixed_time_equals_plain_loops():
    scores = np.random.default_rng(1).normal(size=(40, 6, 4))
    lengths = np.arange(40) % 6 + 1
    decisions = FixedTime(4).decide(scores, lengths)
    assert np.array_equal(decisions.times, np.minimum(lengths, 4))
    assert np.array_equal(decisions.forced, lengths < 4)
    assert decisions.labels.tolist() == [
        int(max(range(4), key=lambda k: s[min(length, 4) - 1][k])) for s, length in zip(scores, lengths)
    ]


@pytest.mark.parametrize("time", [1, 4, 10])
def test_fixed_time_on_exact_scores_has_the_bayes_error(time):
    """Two Gaussians with means a*e_k: the error after t samples is Phi(-a sqrt(t / 2))."""
    n, offset = 20_000, 0.7
    rng = np.random.default_rng(time)
    y = np.arange(n) % 2
    x = rng.normal(size=(n, 10, 2))
    x[np.arange(n), :, y] += offset
    decisions = FixedTime(time).decide(offset * x.cumsum(1))
    expected = normal_cdf(-offset * math.sqrt(time / 2))
    tolerance = 4 * math.sqrt(expected * (1 - expected) / n)
    assert (decisions.labels != y).mean() == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(
    ("time", "error", "message"),
    [
        (0, ValueError, "`time` must be >= 1; got 0"),
        ("late", TypeError, "`time` must be an integer; got 'late'"),
    ],
)
def test_invalid_arguments_raise(time, error, message):
    with pytest.raises(error, match=message):
        FixedTime(time)
