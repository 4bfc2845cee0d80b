"""Stopping rules: when to decide, and for which class.

A rule reads scores, whose differences are log-likelihood ratios, and returns decisions: a class, the step
at which it was decided, and whether the end of the series forced it. Rules do not depend on where scores
come from and hold no state, so one rule serves whole arrays and any number of streams.

`SPRT` is the sequential probability ratio test with any kind of threshold; `Tapering` lets the threshold
fall to zero at a horizon; `FiniteHorizon` learns the cheapest boundary for a deadline, a cost per sample and
a loss; `MaxProbability` stops at a posterior probability; `FixedTime` decides at a given step.
A rule of your own is a subclass of `Rule` with one method, `margins`.

`calibrate` returns a `Calibrated` test from held-out series: it carries a `Guarantee` of its error rate.
`fit_rule` returns the rule that is best for a cost, a mean stopping time or the harmonic mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stopwise.rules.base import Rule
from stopwise.rules.calibration.calibrate import calibrate
from stopwise.rules.calibration.calibrated import Calibrated
from stopwise.rules.calibration.guarantee import Guarantee
from stopwise.rules.calibration.learn_then_test import NoThresholdError
from stopwise.rules.calibration.observed import observed_rate
from stopwise.rules.finite_horizon.rule import FiniteHorizon
from stopwise.rules.fitting import fit_rule
from stopwise.rules.fixed_time import FixedTime
from stopwise.rules.max_probability import MaxProbability
from stopwise.rules.sprt import SPRT
from stopwise.rules.tapering import Tapering
from stopwise.validation import check_choice

__all__ = [
    "SPRT",
    "Calibrated",
    "FiniteHorizon",
    "FixedTime",
    "Guarantee",
    "MaxProbability",
    "NoThresholdError",
    "Rule",
    "Tapering",
    "calibrate",
    "fit_rule",
    "from_dict",
    "observed_rate",
]

_BY_NAME: dict[str, type[Rule]] = {
    rule.__name__: rule for rule in (SPRT, Tapering, FiniteHorizon, FixedTime, MaxProbability, Calibrated)
}


def from_dict(values: Mapping[str, Any]) -> Rule:
    """Return the rule of this module that `Rule.to_dict` described.

    A rule of your own is read by the `from_dict` of its class.

    Parameters
    ----------
    values
        `{"rule": name, ...arguments}`, plain JSON values with infinity written as "inf".

    Examples
    --------
    >>> from_dict({"rule": "SPRT", "threshold": [2.0, "inf"]})
    SPRT(threshold=[2.0, float('inf')])
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"`values` must be a dict, as rule.to_dict() returns; got {values!r}.")
    return _BY_NAME[check_choice("rule", values.get("rule"), _BY_NAME)].from_dict(values)
