"""The rule that a classifier gets, and what it may be before the classifier is fitted."""

from __future__ import annotations

from typing import Any

from stopwise.rules.base import Rule
from stopwise.rules.calibration.calibrated import Calibrated
from stopwise.rules.sprt import SPRT


def default_rule() -> Rule:
    """Return the stopping rule of a classifier that is given none.

    Examples
    --------
    >>> default_rule()
    SPRT(error_rate=0.05)
    """
    return SPRT(error_rate=0.05)


def check_unfitted(rule: Any) -> None:
    """Refuse what is no rule, and a rule whose guarantee belongs to another model."""
    if rule is not None and not isinstance(rule, Rule):
        raise TypeError(f"`rule` must be a stopping rule such as SPRT(error_rate=0.05); got {rule!r}.")
    if isinstance(rule, Calibrated):
        raise ValueError(
            "`rule` carries a guarantee, which holds for the model it was calibrated with, not for the one "
            "trained here. Pass rule.without_guarantee(), and call calibrate() after fit()."
        )
