"""Rules and series shared by the tests of stopping rules."""

import numpy as np
import pytest

from stopwise import checks
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

GUARANTEE = Guarantee("error_rate", 0.05, 0.95, series=100, observed=0.01, mean_time=3.5, mean_length=12)
GUARANTEE_BY_CLASS = Guarantee(
    "accuracy_gap", (0.1, None, 0.2), 0.9, 50, (0.0, None, 0.1), 2.0, 12.0, classes=("a", "b", "c")
)
PRIOR = [0.2, 0.3, 0.5]


def fitted_horizon(classes, steps=10, **arguments):
    """Return a `FiniteHorizon` rule whose deadline is before the end of the test series."""
    rng = np.random.default_rng(1)
    y = np.arange(300) % classes
    increments = rng.standard_normal((300, steps, classes))
    increments[np.arange(300), :, y] += 0.7
    return FiniteHorizon.fit(increments.cumsum(1), y, cost=0.02, **arguments)


# For series of at most 12 steps.
RULES = [
    SPRT(1.5),
    SPRT(0.0),
    SPRT(np.inf),
    SPRT([0.5, 2.0, np.inf]),
    SPRT([[0.0, 1.0, 2.0], [0.5, 0.0, 0.5], [3.0, np.inf, 0.0]]),
    SPRT(np.linspace(4, 0, 12), per_step=True),
    SPRT(np.linspace(3, 0, 36).reshape(12, 3), per_step=True),
    SPRT(np.linspace(3, 0, 108).reshape(12, 3, 3), per_step=True),
    SPRT(error_rate=0.2),
    SPRT(error_rate=[0.1, 0.05, 0.01]),
    SPRT.wald(0.05, 0.1),
    SPRT(2.5).with_prior(PRIOR),
    Tapering(4.0, horizon=12),
    Tapering(4.0, horizon=8, kappa=-1.0),
    FixedTime(4),
    FixedTime(3).with_prior(PRIOR),
    MaxProbability(0.9),
    MaxProbability(0.8, prior=PRIOR),
    MaxProbability(0.85).with_prior(PRIOR),
    SlopedProbability(1.0, -2.0, 8),
    SlopedProbability(1.0, 2.0, 8, prior=PRIOR),
    SlopedProbability(0.5, -1.0, 8).with_prior(PRIOR),
    Calibrated(3.0, GUARANTEE),
    Calibrated([0.5, 2.0, np.inf], GUARANTEE_BY_CLASS),
    Calibrated(np.linspace(3, 0, 7), GUARANTEE, per_step=True),  # fewer steps than the series
    fitted_horizon(2),
    fitted_horizon(3, loss=[[0, 1, 1], [5, 0, 5], [1, 2, 0]], prior=PRIOR),
]


def pytest_generate_tests(metafunc):
    """Parametrize tests with `any_rule` over all rules, and with `rule_check` over all their checks."""
    if "any_rule" in metafunc.fixturenames:
        metafunc.parametrize("any_rule", RULES, ids=lambda rule: repr(rule)[:40])
    if "rule_check" in metafunc.fixturenames:
        cases = [
            pytest.param(check, id=f"{i}-{type(rule).__name__}-{name}")
            for i, rule in enumerate(RULES)
            for name, check in checks.yield_checks(rule)
        ]
        metafunc.parametrize("rule_check", cases)


@pytest.fixture
def all_rules():
    return RULES


@pytest.fixture
def series():
    """Return scores (40, 12, 3) with NaN past the end of each series, and lengths (40,)."""
    rng = np.random.default_rng(11)
    scores = rng.normal(size=(40, 12, 3)).cumsum(1)
    lengths = rng.integers(1, 13, size=40)
    scores[np.arange(12) >= lengths[:, None]] = np.nan
    return scores, lengths
