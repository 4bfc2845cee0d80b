"""The exact speed-accuracy tradeoff (SAT) curve, for all thresholds at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.metrics.curve import ClassChanges, SATCurve
from stopwise.metrics.records import lead_records, leads_and_errors
from stopwise.validation import check_class_indices, check_scores


def sat_curve(scores: Any, y: Any, lengths: Any = None) -> SATCurve:
    """Compute the exact speed-accuracy tradeoff curve of the SPRT with one common threshold.

    The curve contains the result of `SPRT(threshold)` for every possible threshold, without a grid. If a
    series ends before the threshold is reached, the decision is forced for the class with the highest score.

    Parameters
    ----------
    scores
        (n, T, K) scores of every prefix.
    y
        (n,) true class indices.
    lengths
        (n,) lengths of the series; None means all have T steps.

    Returns
    -------
    curve
        A `SATCurve`.

    Examples
    --------
    >>> from stopwise.metrics import sat_curve
    >>> scores = [[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 2.5]]]  # leads 1, 3 and 2, 2.5
    >>> curve = sat_curve(scores, [0, 1])
    >>> curve.thresholds
    array([1. , 2. , 2.5, 3. , inf])
    >>> curve.mean_time
    array([1. , 1.5, 2. , 2. , 2. ])
    >>> curve.error  # the first series is wrong after one sample, correct after two
    array([0.5, 0. , 0. , 0. , 0. ])
    >>> curve.forced
    array([0. , 0. , 0. , 0.5, 1. ])
    """
    scores, lengths = check_scores(scores, lengths)
    n, _, classes = scores.shape
    if n == 0:
        raise ValueError("`scores` holds no series; pass at least one.")
    y = check_class_indices(y, n, classes)
    steps = int(lengths.max())
    leads, wrong = leads_and_errors(scores[:, :steps], y, lengths)
    records = lead_records(leads, wrong, wrong[np.arange(n), lengths - 1], lengths)
    total = records.totals(n, records.next_time - records.time)
    squares = records.totals(n, records.next_time**2 - records.time**2)
    changed = np.flatnonzero(records.next_wrong != records.wrong)
    changes = ClassChanges(
        totals=np.bincount(y, minlength=classes),
        start=np.bincount(y[records.series[(records.time == 1) & records.wrong]], minlength=classes),
        points=np.cumsum(records.is_new_value)[changed],
        classes=y[records.series[changed]],
        change=np.where(records.next_wrong[changed], 1, -1),
    )
    thresholds = records.thresholds
    return SATCurve(
        thresholds=thresholds,
        mean_time=total / n,
        std_time=np.sqrt(n * squares - total**2) / n,
        error=_macro_error(changes, len(thresholds)),
        forced=records.totals(0, records.final) / n,
        length=steps,
        _changes=changes,
    )


def _macro_error(changes: ClassChanges, points: int) -> np.ndarray:
    """Return the mean of the class error rates at each point, (P,)."""
    error = np.zeros(points)
    # Wrong decisions have the same weight in all classes of the same size, so these are counted together.
    for size in np.unique(changes.totals[changes.totals > 0]):
        same_size = changes.totals == size  # (K,)
        chosen = same_size[changes.classes]  # (m,)
        counts = np.bincount(changes.points[chosen], changes.change[chosen], minlength=points)
        counts[0] += changes.start[same_size].sum()
        error += np.cumsum(counts) / size
    return error / np.count_nonzero(changes.totals)
