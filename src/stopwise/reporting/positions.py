"""The thresholds that the slider of the page offers."""

from __future__ import annotations

import math

import numpy as np

from stopwise.metrics import SATCurve
from stopwise.rules import SPRT, Rule

MOST_POSITIONS = 200
FEWEST_POSITIONS = 20
# A series has at most one record per position, so fewer positions limit the size of the page.
MOST_RECORDS = 4_000_000
MOST_DIGITS = 9


def slider_thresholds(curve: SATCurve, series: int, own: float | None = None) -> np.ndarray:
    """Return ascending thresholds (P,), about evenly spaced in mean time, from 0 to infinity.

    They are rounded to few digits, so that the number that the page shows can be passed to `SPRT` and gives
    exactly the decisions on the page.

    Parameters
    ----------
    curve
        The exact speed-accuracy curve.
    series
        Number of series.
    own
        A threshold to include unchanged: that of the rule in use. None: there is none.

    Examples
    --------
    >>> from stopwise.metrics import sat_curve
    >>> curve = sat_curve([[[0.0, 1.2345], [3.1, 0.0]], [[0.0, 2.0], [0.0, 2.5]]], [0, 1])
    >>> slider_thresholds(curve, 2, own=1.5).tolist()
    [0.0, 1.23, 1.5, 2.0, 2.5, 3.1, inf]
    """
    count = min(MOST_POSITIONS, max(FEWEST_POSITIONS, MOST_RECORDS // series))
    wanted = curve.thin(count).thresholds[:-1]  # without infinity
    digits = 3
    while len(_rounded(wanted, digits)) < len(wanted) / 2 and digits < MOST_DIGITS:
        digits += 1
    extra = [0.0, math.inf] if own is None else [0.0, own, math.inf]
    return np.unique(np.append(_rounded(wanted, digits), extra))


def common_threshold(rule: Rule, classes: int) -> float | None:
    """Return the threshold of an `SPRT` with one threshold for all classes and steps; None for other rules.

    Examples
    --------
    >>> from stopwise.rules import SPRT, FixedTime
    >>> [common_threshold(rule, 2) for rule in (SPRT(2.0), SPRT([1.0, 2.0]), FixedTime(3))]
    [2.0, None, None]
    """
    if not isinstance(rule, SPRT) or rule.per_step:
        return None
    if rule.threshold is not None:
        return float(rule.threshold) if np.ndim(rule.threshold) == 0 else None
    assert rule.error_rate is not None
    return None if np.ndim(rule.error_rate) else float(np.log((classes - 1) / np.asarray(rule.error_rate)))


def _rounded(values: np.ndarray, digits: int) -> np.ndarray:
    """Return the distinct values, rounded to significant digits."""
    return np.unique([float(f"{value:.{digits}g}") for value in values])
