import numpy as np
import pytest

import stopwise as sw
from stopwise.rules.line_search import LEVELS, SLOPES, LineOutcomes, fit_line
from stopwise.rules.sloped_probability import SlopedProbability


def scores_of(n=120, steps=12, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    increments = rng.standard_normal((n, steps, classes)) + 0.4 * np.eye(classes)[y][:, None]
    return increments.cumsum(axis=1), y


def cost_of(price):
    return lambda errors, times: errors + price * times


@pytest.mark.parametrize("place", [(3, 0), (12, 4), (35, 8), (20, 2)])
@pytest.mark.parametrize("unequal", [False, True])
def test_outcomes_of_a_line_equal_those_of_the_rule(place, unequal):
    scores, y = scores_of()
    lengths = np.random.default_rng(1).integers(3, 13, size=len(y)) if unequal else None
    prior = np.array([0.5, 0.3, 0.2])
    outcomes = LineOutcomes(scores, y, lengths, prior)
    rule = SlopedProbability(float(LEVELS[place[0]]), float(SLOPES[place[1]]), outcomes.horizon, prior=prior)
    decisions = rule.decide(scores, lengths)
    assert (outcomes.times[place] == decisions.times).all()
    assert (outcomes.wrong[place] == (decisions.labels != y)).all()


def test_the_best_line_of_all_series_is_near_the_best_of_the_grid():
    scores, y = scores_of(n=2000)
    outcomes = LineOutcomes(scores, y, None, None)
    price = cost_of(0.02)
    rule = fit_line(outcomes, price)
    decided = rule.decide(scores)
    found = ((decided.labels != y) + 0.02 * decided.times).mean()
    best = price(outcomes.wrong, outcomes.times).mean(axis=-1).min()
    assert found <= best + 0.01
    assert rule.cost_range[0] <= found <= rule.cost_range[1]


def test_expected_errors_match_observed_ones_on_average():
    scores, y = scores_of(n=2000)
    outcomes = LineOutcomes(2 * scores, y, None, None)  # overconfident
    difference = outcomes.wrong.mean(axis=2) - outcomes.expected.mean(axis=2)
    assert np.abs(difference).max() < 0.05


def test_with_many_classes_low_probabilities_can_be_enough():
    rng = np.random.default_rng(0)
    y = rng.integers(60, size=400)
    scores = rng.standard_normal((400, 10, 60)) + np.eye(60)[y][:, None]  # no more evidence later
    rule = fit_line(LineOutcomes(scores, y, None, None), cost_of(0.1))
    assert rule.decide(scores).times.mean() < 1.5


def test_a_higher_price_stops_earlier():
    scores, y = scores_of(n=400)
    outcomes = LineOutcomes(scores, y, None, None)
    times = [fit_line(outcomes, cost_of(price)).decide(scores).times.mean() for price in (0.005, 0.05, 0.5)]
    assert times[0] > times[1] > times[2]


def test_the_rule_is_saved_and_compared():
    rule = SlopedProbability(1.0, -2.0, 10, prior=[0.3, 0.7], cost_range=(0.1, 0.2))
    assert sw.rules.from_dict(rule.to_dict()) == rule


def test_after_the_horizon_the_threshold_stays():
    rule = SlopedProbability(1.0, -2.0, 10)
    assert rule.thresholds(np.array([10, 50])).tolist() == pytest.approx([-0.4, -0.4])


@pytest.mark.parametrize("params", [(np.inf, 0, 5), (0, np.nan, 5), (0, 0, 0)])
def test_wrong_parameters_are_refused(params):
    with pytest.raises((ValueError, TypeError)):
        SlopedProbability(*params)
