"""The rate that a guarantee bounds, observed on new series."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.rules.calibration.calibrated import Calibrated
from stopwise.validation import check_class_indices, check_integer, check_scores


def observed_rate(
    rule: Calibrated, scores: Any, y: Any, lengths: Any = None, *, min_series: int = 1
) -> float | np.ndarray:
    """Return the rate, on new series, that a rule's guarantee bounds.

    One number, or one per class, NaN for a class without series. For a guarantee conditional on the stopping
    time it is the highest rate over the steps by which at least `min_series` series were decided. A prior
    that is bound to the rule decides forced decisions here as everywhere.

    Parameters
    ----------
    rule
        A calibrated rule.
    scores, y, lengths
        As for `calibrate`.
    min_series
        See above: the rate among a handful of series says little.

    Examples
    --------
    >>> import stopwise as sw
    >>> _, y, scores = sw.datasets.gaussian(4000, offset=1.0, channels=2, seed=1)
    >>> rule = sw.rules.calibrate(scores[:2000], y[:2000], error_rate=0.05)
    >>> bool(observed_rate(rule, scores[2000:], y[2000:]) < 0.05)
    True
    """
    if not isinstance(rule, Calibrated):
        raise TypeError(f"`rule` must be a Calibrated rule, as calibrate() returns; got {rule!r}.")
    least = check_integer("min_series", min_series, 1)
    scores, lengths = check_scores(scores, lengths)
    y = check_class_indices(y, *scores.shape[::2])
    if not len(y):
        raise ValueError("`scores` holds no series; a rate needs at least one.")
    guarantee, decisions = rule.guarantee, rule.decide(scores, lengths)
    lost = decisions.labels != y
    if guarantee.target == "accuracy_gap":
        lost &= rule.best_guess(scores[np.arange(len(y)), lengths - 1], lengths) == y
    if guarantee.conditional:
        decided = np.cumsum(np.bincount(decisions.times))
        shares = np.cumsum(np.bincount(decisions.times, lost)) / np.maximum(decided, 1)
        return float(shares[decided >= least].max(initial=0.0))
    if not isinstance(guarantee.level, tuple):
        return float(lost.mean())
    sizes = np.bincount(y, minlength=len(guarantee.level))
    with np.errstate(invalid="ignore"):
        return np.bincount(y, lost, minlength=len(sizes)) / sizes
