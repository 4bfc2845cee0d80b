"""Stopping rules: when to decide, and for what.

A rule reads scores, whose differences are log-likelihood ratios, and answers with decisions: a class, the
step it fell on, and whether the end of the series forced it. Rules know nothing of where scores come from
and hold no state; one rule serves whole arrays and any number of streams.

`SPRT` is the sequential probability ratio test with any kind of threshold; `Tapering` lets the threshold
fall to zero at a horizon; `FiniteHorizon` learns the cheapest boundary for a deadline, a cost per sample and
a loss; `MaxProbability` asks for a posterior probability; `FixedTime` does not look at the evidence at all.
A rule of your own is a `Rule` with one method, `margins`.

`calibrate` makes a `Calibrated` test from held-out series: it carries a `Guarantee` of its error rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stopwise.rules.base import Rule
from stopwise.rules.calibration.calibrate import calibrate, observed_rate
from stopwise.rules.calibration.calibrated import Calibrated
from stopwise.rules.calibration.guarantee import Guarantee
from stopwise.rules.calibration.learn_then_test import NoThresholdError
from stopwise.rules.finite_horizon.rule import FiniteHorizon
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
    "from_dict",
    "observed_rate",
]

_BY_NAME: dict[str, type[Rule]] = {
    rule.__name__: rule for rule in (SPRT, Tapering, FiniteHorizon, FixedTime, MaxProbability, Calibrated)
}


def from_dict(values: Mapping[str, Any]) -> Rule:
    """Return the rule that `Rule.to_dict` described, whichever of this room's rules it is.

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
