"""Backward induction: what it estimates is what its rule costs."""

import numpy as np
import pytest

from stopwise.metrics import average_cost
from stopwise.rules import SPRT, FiniteHorizon
from stopwise.rules.finite_horizon import backward
from stopwise.rules.finite_horizon.concave import knots_for
from stopwise.rules.finite_horizon.held_out import HeldOutScores, held_out_scores


def test_the_likelihood_shows_whether_scores_need_calibration(world):
    """Also where labels alternate, as they do here."""
    scores, y = world(1000, steps=10)
    for factor, needed in ((1.0, False), (2.0, True), (0.4, True)):
        held_out = held_out_scores(factor * scores, y, None, 1.0, None, None)
        assert backward._needs_calibration(held_out) == needed


def test_the_constant_risk_limit_is_the_best_one(world):
    scores, y = world(500, steps=10)
    weights, prior = np.ones(500), np.log([0.5, 0.5])
    held_out = HeldOutScores(scores, np.full(500, 10), y, weights, prior, 1 - np.eye(2))
    exact = backward.identity_calibration(held_out)
    _, costs = backward.constant_risk_limit(held_out, exact, np.array([0.01]))
    constants = [average_cost(SPRT(a).decide(scores), y, cost=0.01) for a in np.arange(0, 8, 0.05)]
    assert costs.mean() == pytest.approx(min(constants), rel=0.02)


def test_the_estimated_cost_is_what_the_rule_costs(world):
    scores, y = world(500, classes=3, steps=10)
    held_out = HeldOutScores(
        scores, np.full(500, 10), y, np.ones(500), np.log(np.full(3, 1 / 3)), 1 - np.eye(3)
    )
    found = backward.fit_calibration(held_out, y)
    for realised in (True, False):
        value, costs = backward.induce(held_out, found, np.array([0.01]), martingale=False, realised=realised)
        tables = (found.bends, found.slopes, found.shift, knots_for(3), value[0])
        rule = FiniteHorizon(0.01, held_out.loss, *tables)
        assert costs.mean() == pytest.approx(average_cost(rule.decide(scores), y, cost=0.01))
