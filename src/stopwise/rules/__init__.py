"""Stopping rules: when to decide, and for which class.

A rule reads scores, whose differences are log-likelihood ratios, and returns decisions. A decision is a
class, the step at which it is made, and whether the end of the series forced it. Rules do not depend on the
model that computes the scores, and they hold no state: one rule object can decide arrays of complete series
and any number of streams.

- `SPRT` is the sequential probability ratio test, with a common threshold or thresholds per class, per pair
  of classes or per step.
- `Tapering` uses a threshold that decreases to zero at a horizon.
- `FiniteHorizon` learns the stopping boundary of least expected cost, given a deadline, a cost per sample
  and a loss.
- `MaxProbability` stops when a posterior probability is reached.
- `SlopedProbability` is the same with a threshold that changes with time; `fit_rule` learns it from a cost.
- `FixedTime` decides at a given step.
- A custom rule is a subclass of `Rule` that implements `margins`.

`calibrate` sets the threshold on held-out series and returns a `Calibrated` rule with a `Guarantee` of its
error rate. `fit_rule` returns the rule that is best for a cost, a mean stopping time or the harmonic mean.
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
from stopwise.rules.sloped_probability import SlopedProbability
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
    "SlopedProbability",
    "Tapering",
    "calibrate",
    "fit_rule",
    "from_dict",
    "observed_rate",
]

_BY_NAME: dict[str, type[Rule]] = {
    rule.__name__: rule
    for rule in (SPRT, Tapering, FiniteHorizon, FixedTime, MaxProbability, SlopedProbability, Calibrated)
}


def from_dict(values: Mapping[str, Any]) -> Rule:
    """Create a built-in rule from the dict that `Rule.to_dict` returned.

    For a custom rule, call the `from_dict` method of its class.

    Parameters
    ----------
    values
        The class name under the key "rule", and the constructor arguments by name. All values are plain
        JSON values; infinity is written as "inf".

    Returns
    -------
    rule
        An instance of the named class.

    Examples
    --------
    >>> from_dict({"rule": "SPRT", "threshold": [2.0, "inf"]})
    SPRT(threshold=[2.0, float('inf')])
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"`values` must be a dict, as returned by rule.to_dict(); got {values!r}.")
    return _BY_NAME[check_choice("rule", values.get("rule"), _BY_NAME)].from_dict(values)
