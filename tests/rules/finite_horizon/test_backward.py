"""Backward induction: the estimated cost agrees with the cost of the rule."""

import numpy as np
import pytest

from stopwise.metrics import average_cost
from stopwise.rules import SPRT, FiniteHorizon
from stopwise.rules.finite_horizon import backward
from stopwise.rules.finite_horizon.concave import knots_for
from stopwise.rules.finite_horizon.held_out import HeldOutScores, held_out_scores


def test_need_for_calibration_is_detected(world):
    """Also if labels alternate, as in this data."""
    scores, y = world(1000, steps=10)
    for factor, needed in ((1.0, False), (2.0, True), (0.4, True)):
        held_out = held_out_scores(factor * scores, y, None, 1.0, None, None)
        assert backward._needs_calibration(held_out) == needed


def test_constant_risk_limit_is_the_best_constant(world):
    scores, y = world(500, steps=10)
    weights, prior = np.ones(500), np.log([0.5, 0.5])
    held_out = HeldOutScores(scores, np.full(500, 10), y, weights, prior, 1 - np.eye(2))
    exact = backward.identity_calibration(held_out)
    _, costs = backward.constant_risk_limit(held_out, exact, np.array([0.01]))
    constants = [average_cost(SPRT(a).decide(scores), y, cost=0.01) for a in np.arange(0, 8, 0.05)]
    assert costs.mean() == pytest.approx(min(constants), rel=0.02)


def test_estimated_cost_equals_the_cost_of_the_rule(world):
    scores, y = world(500, classes=3, steps=10)
    held_out = HeldOutScores(
        scores, np.full(500, 10), y, np.ones(500), np.log(np.full(3, 1 / 3)), 1 - np.eye(3)
    )
    found = backward.fit_calibration(held_out, y)
    for realized in (True, False):
        value, costs = backward.induce(held_out, found, np.array([0.01]), martingale=False, realized=realized)
        tables = (found.bends, found.slopes, found.shift, knots_for(3), value[0])
        rule = FiniteHorizon(0.01, held_out.loss, *tables)
        assert costs.mean() == pytest.approx(average_cost(rule.decide(scores), y, cost=0.01))
