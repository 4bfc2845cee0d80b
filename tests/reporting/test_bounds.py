"""A series stops where its lead or its probability reaches the line of the decided class."""

import numpy as np
import pytest
from scipy.special import softmax

from reporting.worlds import walks
from stopwise.reporting.bounds import bounds
from stopwise.rules import (
    SPRT,
    Calibrated,
    FiniteHorizon,
    FixedTime,
    Guarantee,
    MaxProbability,
    SlopedProbability,
    Tapering,
)
from stopwise.rules.arrays import best_other

GUARANTEE = Guarantee("error_rate", 0.05, 0.95, 100, 0.04, 3.0, 10.0)


@pytest.mark.parametrize(
    "rule",
    [
        SPRT(2.0),
        SPRT(error_rate=0.1),
        SPRT([1.0, 2.0, 3.0]),
        SPRT(np.linspace(3, 1, 20), per_step=True),
        SPRT(np.linspace(3, 1, 60).reshape(20, 3), per_step=True),
        Calibrated(np.linspace(3, 1, 12), GUARANTEE, per_step=True),
        Tapering(4.0, 18),
        MaxProbability(0.8),
        SlopedProbability(2.0, -3.0, 20),
    ],
)
def test_series_stop_at_the_lines(rule):
    scores, _, lengths = walks(100, 20, equal=True)
    lines = bounds(rule, np.arange(1, 21), 3)
    values = np.array(lines["lines"], dtype=float).T  # (T, 1) or (T, K)
    values = np.where(np.isnan(values), np.inf, values)
    scores = scores.astype(np.float64)
    reached = scores - best_other(scores) if lines["kind"] == "lead" else softmax(scores, axis=-1)
    stops = (reached >= values - 1e-9).any(-1)
    decisions = rule.decide(scores, lengths)
    assert (np.where(stops.any(1), stops.argmax(1) + 1, 20) == decisions.times).all()
    assert (stops.any(1) == ~decisions.forced).all()


def test_rules_without_lines():
    scores, y, lengths = walks(100, 20, equal=True)
    steps = np.arange(1, 21)
    assert bounds(FixedTime(3), steps, 3) is None
    assert bounds(SPRT(np.ones((3, 3))), steps, 3) is None
    assert bounds(SPRT(error_rate=[0.1, 0.1, 0.2]), steps, 3) is None
    assert bounds(FiniteHorizon.fit(scores, y, lengths, cost=0.05), steps, 3) is None


def test_an_infinite_threshold_has_no_value():
    assert bounds(SPRT(np.inf), np.array([1, 2]), 2)["lines"] == [[None, None]]
