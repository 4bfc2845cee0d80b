"""`MaxProbability`, compared with posteriors and, for two classes, with the SPRT."""

import math

import numpy as np
import pytest

from stopwise.rules import SPRT, MaxProbability


@pytest.mark.parametrize("prior", [None, [0.1, 0.2, 0.4, 0.3]])
@pytest.mark.parametrize("probability", [0.2, 0.6, 0.95])
def test_stops_when_the_posterior_reaches_the_probability(probability, prior):
    scores = np.random.default_rng(2).normal(size=(60, 12, 4)).cumsum(1)
    weights = np.exp(scores) * (1.0 if prior is None else np.array(prior))
    posterior = weights / weights.sum(-1, keepdims=True)
    decisions = MaxProbability(probability, prior=prior).decide(scores)
    for row, label, time, forced in zip(posterior, decisions.labels, decisions.times, decisions.forced):
        reached = [t for t in range(12) if row[t].max() >= probability]
        assert forced == (not reached)
        assert time == (reached[0] + 1 if reached else 12)
        assert label == row[time - 1].argmax()


def test_two_classes_equal_the_sprt_on_log_odds():
    llr = np.random.default_rng(3).normal(size=(200, 20)).cumsum(1)
    scores = np.stack([np.zeros_like(llr), llr], -1)
    by_probability = MaxProbability(0.9).decide(scores)
    by_threshold = SPRT(math.log(9)).decide(scores)
    assert np.array_equal(by_probability.times, by_threshold.times)
    assert np.array_equal(by_probability.labels, by_threshold.labels)


def test_posteriors_close_to_one_are_not_rounded():
    """A posterior of 1 - e^-50 is below 1 although it rounds to 1, and large scores do not overflow."""
    scores = np.array([[[1e5, 1e5 - 30.0, -1e5], [1e5, 1e5 - 50.0, 0.0]]])
    assert MaxProbability(1.0).decide(scores).forced[0]
    assert MaxProbability(1 - 1e-15).decide(scores).times[0] == 2  # needs 34.5 nats
    margins = MaxProbability(0.5).margins(scores, np.array([1, 2]))
    np.testing.assert_allclose(margins[0], [[30, -30, -2e5], [50, -50, -1e5]])


def test_forced_decision_uses_the_prior():
    scores = [[[0.0, 1.0]]]
    assert MaxProbability(0.99).decide(scores).labels[0] == 1
    rule = MaxProbability(0.99, prior=[0.9, 0.1])
    assert rule.decide(scores).labels[0] == 0
    assert rule.decide(scores).forced[0]
    assert rule.step([0.0, 1.0], 1, last=True).label == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probability": 0.0}, r"`probability` must be in \(0, 1\]; got 0"),
        ({"probability": 1.1}, "`probability`.*got 1.1"),
        ({"probability": 0.9, "prior": [0.5, 0.6]}, "sum to 1; got .* with sum 1.1. Divide"),
        ({"probability": 0.9, "prior": [1.0, 0.0]}, "`prior` must be positive"),
        ({"probability": 0.9, "prior": 0.5}, r"`prior` must have shape \(K,\)"),
    ],
)
def test_invalid_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        MaxProbability(**arguments)


def test_scores_with_another_number_of_classes_raise():
    with pytest.raises(ValueError, match="`prior` is for 2 classes; the scores have 3"):
        MaxProbability(0.9, prior=[0.5, 0.5]).decide(np.zeros((1, 2, 3)))
