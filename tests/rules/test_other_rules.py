"""Tapering, FixedTime and MaxProbability against closed forms."""

import math

import numpy as np
import pytest

from stopwise.rules import SPRT, FixedTime, MaxProbability, Tapering


def normal_cdf(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


@pytest.mark.parametrize("kappa", [-1.0, 0.0, 0.7])
def test_tapering_stops_where_the_formula_says(kappa):
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


def test_tapering_ends_at_its_horizon_even_without_evidence():
    assert Tapering(100.0, 7).decide(np.zeros((1, 9, 2))).times[0] == 7
    assert Tapering(100.0, 7, kappa=1e6).decide(np.zeros((1, 9, 2))).times[0] == 1


def test_tapering_stays_at_zero_past_its_horizon():
    assert Tapering(5.0, 10).accept([[0.0, 0.1], [0.0, 0.1]], [9, 20]).tolist() == [-1, 1]


def test_fixed_time():
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


@pytest.mark.parametrize("prior", [None, [0.1, 0.2, 0.4, 0.3]])
@pytest.mark.parametrize("probability", [0.2, 0.6, 0.95])
def test_max_probability_is_the_posterior(probability, prior):
    scores = np.random.default_rng(2).normal(size=(60, 12, 4)).cumsum(1)
    weights = np.exp(scores) * (1.0 if prior is None else np.array(prior))
    posterior = weights / weights.sum(-1, keepdims=True)
    decisions = MaxProbability(probability, prior=prior).decide(scores)
    for row, label, time, forced in zip(posterior, decisions.labels, decisions.times, decisions.forced):
        sure = [t for t in range(12) if row[t].max() >= probability]
        assert forced == (not sure)
        assert time == (sure[0] + 1 if sure else 12)
        assert label == row[time - 1].argmax()


def test_max_probability_of_two_classes_is_the_sprt_on_log_odds():
    llr = np.random.default_rng(3).normal(size=(200, 20)).cumsum(1)
    scores = np.stack([np.zeros_like(llr), llr], -1)
    by_probability = MaxProbability(0.9).decide(scores)
    by_threshold = SPRT(math.log(9)).decide(scores)
    assert np.array_equal(by_probability.times, by_threshold.times)
    assert np.array_equal(by_probability.labels, by_threshold.labels)


def test_max_probability_where_floats_would_round_to_one():
    """A posterior of 1 - e^-50 prints as 1, yet it is not 1, and huge scores do not overflow."""
    scores = np.array([[[1e5, 1e5 - 30.0, -1e5], [1e5, 1e5 - 50.0, 0.0]]])
    assert MaxProbability(1.0).decide(scores).forced[0]
    assert MaxProbability(1 - 1e-15).decide(scores).times[0] == 2  # needs 34.5 nats
    margins = MaxProbability(0.5).margins(scores, np.array([1, 2]))
    np.testing.assert_allclose(margins[0], [[30, -30, -2e5], [50, -50, -1e5]])


def test_forced_decision_takes_the_prior_into_account():
    scores = [[[0.0, 1.0]]]
    assert MaxProbability(0.99).decide(scores).labels[0] == 1
    rule = MaxProbability(0.99, prior=[0.9, 0.1])
    assert rule.decide(scores).labels[0] == 0
    assert rule.decide(scores).forced[0]
    assert rule.step([0.0, 1.0], 1, last=True).label == 0


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Tapering(-1.0, 5), ValueError, r"`threshold` must be in \[0, inf\); got -1"),
        (lambda: Tapering(np.inf, 5), ValueError, r"`threshold` must be in \[0, inf\); got inf"),
        (lambda: Tapering(1.0, 0), ValueError, "`horizon` must be >= 1; got 0"),
        (lambda: Tapering(1.0, 5.0), TypeError, r"`horizon` must be a whole number; got 5.0 \(float\)"),
        (lambda: Tapering(1.0, 5, kappa=np.nan), ValueError, "`kappa`.*got nan"),
        (lambda: FixedTime(0), ValueError, "`time` must be >= 1; got 0"),
        (lambda: FixedTime("late"), TypeError, "`time` must be a whole number; got 'late'"),
        (lambda: MaxProbability(0.0), ValueError, r"`probability` must be in \(0, 1\]; got 0"),
        (lambda: MaxProbability(1.1), ValueError, "`probability`.*got 1.1"),
        (lambda: MaxProbability(0.9, prior=[0.5, 0.6]), ValueError, "sum to 1; got .* with sum 1.1. Divide"),
        (lambda: MaxProbability(0.9, prior=[1.0, 0.0]), ValueError, "`prior` must be positive"),
        (lambda: MaxProbability(0.9, prior=0.5), ValueError, r"`prior` must have shape \(K,\)"),
        (
            lambda: MaxProbability(0.9, prior=[0.5, 0.5]).decide(np.zeros((1, 2, 3))),
            ValueError,
            "`prior` is for 2 classes; the scores have 3",
        ),
    ],
)
def test_wrong_calls(make, error, message):
    with pytest.raises(error, match=message):
        make()
