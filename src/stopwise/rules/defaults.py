"""The default rule of a classifier, and the validation of its `rule` parameter."""

from __future__ import annotations

from typing import Any

from stopwise.rules.base import Rule
from stopwise.rules.calibration.calibrated import Calibrated
from stopwise.rules.sprt import SPRT


def default_rule() -> Rule:
    """Return the default stopping rule of a classifier.

    Examples
    --------
    >>> default_rule()
    SPRT(error_rate=0.05)
    """
    return SPRT(error_rate=0.05)


def check_unfitted(rule: Any) -> None:
    """Raise if `rule` is not a stopping rule, or has a guarantee that belongs to another model."""
    if rule is not None and not isinstance(rule, Rule):
        raise TypeError(f"`rule` must be a stopping rule such as SPRT(error_rate=0.05); got {rule!r}.")
    if isinstance(rule, Calibrated):
        raise ValueError(
            "`rule` carries a guarantee, which is valid only for the model it was calibrated with, not for "
            "the model that fit() trains. Pass rule.without_guarantee(), and call calibrate() after fit()."
        )
