"""The guaranteed rate, measured on new series."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.rules.calibration.calibrated import Calibrated
from stopwise.validation import check_class_indices, check_integer, check_scores


def observed_rate(
    rule: Calibrated, scores: Any, y: Any, lengths: Any = None, *, min_series: int = 1
) -> float | np.ndarray:
    """Measure the rate that the guarantee of a rule limits, on new series.

    Compare the result with `rule.guarantee.level`. If a prior is bound to the rule, it is used for forced
    decisions, as in `Rule.decide`.

    Parameters
    ----------
    rule
        A calibrated rule.
    scores, y, lengths
        Scores (n, T, K), true class indices (n,) and lengths (n,) of the series, as in `calibrate`.
    min_series
        Used only if the guarantee is conditional: steps by which fewer series are decided are ignored,
        because a rate among few series is not informative.

    Returns
    -------
    rate
        One number; or (K,) if the guarantee is per class, with NaN for a class without series. If the
        guarantee is conditional, the highest rate over the steps by which at least `min_series` series are
        decided.

    Examples
    --------
    >>> import stopwise as sw
    >>> _, y, scores = sw.datasets.gaussian(4000, offset=1.0, channels=2, seed=1)
    >>> rule = sw.rules.calibrate(scores[:2000], y[:2000], error_rate=0.05)
    >>> bool(observed_rate(rule, scores[2000:], y[2000:]) < 0.05)
    True
    """
    if not isinstance(rule, Calibrated):
        raise TypeError(f"`rule` must be a Calibrated rule, as returned by calibrate(); got {rule!r}.")
    least = check_integer("min_series", min_series, 1)
    scores, lengths = check_scores(scores, lengths)
    y = check_class_indices(y, *scores.shape[::2])
    if not len(y):
        raise ValueError("`scores` holds no series; pass at least one.")
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
