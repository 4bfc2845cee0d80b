"""The bounds that a stopping rule sets, as lines over time."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from stopwise.reporting.positions import common_threshold
from stopwise.rules import SPRT, Calibrated, MaxProbability, Rule, SlopedProbability, Tapering

LEAD, PROBABILITY = "lead", "probability"


def bounds(rule: Rule, steps: np.ndarray, classes: int) -> dict[str, Any] | None:
    """Return the lines that a class must reach, or None if the rule has no such lines.

    Parameters
    ----------
    rule
        A stopping rule.
    steps
        (s,) steps, counted from 1.
    classes
        Number of classes K.

    Returns
    -------
    lines
        `kind` says what must reach the line: "lead" over the best other class, or "probability". `lines`
        are one list of s values for all classes, or K of them; None where nothing is accepted.

    Examples
    --------
    >>> from stopwise.rules import FixedTime
    >>> bounds(SPRT(2.0), np.array([1, 5]), 2)
    {'kind': 'lead', 'lines': [[2.0, 2.0]]}
    >>> bounds(MaxProbability(0.75), np.array([1, 5]), 2)
    {'kind': 'probability', 'lines': [[0.75, 0.75]]}
    >>> bounds(FixedTime(3), np.array([1, 5]), 2) is None
    True
    """
    if isinstance(rule, SlopedProbability):
        return _lines(PROBABILITY, expit(rule.thresholds(steps))[:, None])
    if isinstance(rule, MaxProbability):
        return _lines(PROBABILITY, np.full((len(steps), 1), rule.probability))
    if isinstance(rule, Tapering):
        # The margin of a class that leads by 0 is minus the threshold.
        return _lines(LEAD, -rule.margins(np.zeros((len(steps), 2)), steps)[:, :1])
    if not isinstance(rule, SPRT):
        return None
    common = common_threshold(rule, classes)
    if common is not None:
        return _lines(LEAD, np.full((len(steps), 1), common))
    table = np.asarray(rule.threshold, dtype=np.float64)
    if rule.threshold is None or table.ndim - rule.per_step > 1:
        return None  # the bound of a class depends on the other class
    if not rule.per_step:
        return _lines(LEAD, np.broadcast_to(table, (len(steps), classes)))
    by_step = table[np.minimum(steps, len(table)) - 1].reshape(len(steps), -1)  # (s, 1) or (s, K)
    if isinstance(rule, Calibrated):
        by_step = np.where((steps <= len(table))[:, None], by_step, np.inf)
    return _lines(LEAD, by_step)


def _lines(kind: str, values: np.ndarray) -> dict[str, Any]:
    """Return bounds for values (s, 1) or (s, K)."""
    lines = [[value if np.isfinite(value) else None for value in line] for line in values.T.tolist()]
    return {"kind": kind, "lines": lines}
