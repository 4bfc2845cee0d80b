"""The error of estimated log-likelihood ratios."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from stopwise.validation import check_scores, inside

# Maximum number of values per chunk: limits the memory used in addition to the inputs.
CHUNK_NUMBERS = 1_000_000


class LLRError(NamedTuple):
    """The error of estimated log-likelihood ratios (LLRs).

    Parameters
    ----------
    mean_abs
        Mean absolute error in nats, over steps, series and pairs of different classes.
    relative
        Mean absolute error divided by the mean absolute true LLR.
    slope
        Slope of the regression of the estimates on the true LLRs. The ideal value is 1; values below 1 mean
        that the estimates saturate.

    Examples
    --------
    >>> LLRError(mean_abs=1.5, relative=0.06, slope=0.98).slope
    0.98
    """

    mean_abs: float
    relative: float
    slope: float


def llr_error(scores: Any, true_scores: Any, lengths: Any = None) -> LLRError:
    """Return the error of estimated log-likelihood ratios (LLRs) with respect to the true ones.

    Only differences of scores matter: adding a constant to the scores of all classes has no effect.
    `relative` and `slope` are NaN if every true LLR is zero.

    Parameters
    ----------
    scores
        (n, T, K) estimated scores.
    true_scores
        (n, T, K) true scores.
    lengths
        (n,) lengths of the series; None means all have T steps.

    Returns
    -------
    error
        An `LLRError` with the fields `mean_abs`, `relative` and `slope`.

    Examples
    --------
    >>> import numpy as np
    >>> truth = np.array([[[0.0, 2.0], [0.0, 4.0]]])
    >>> llr_error(0.5 * truth, truth)  # every LLR is estimated as half its value
    LLRError(mean_abs=1.5, relative=0.5, slope=0.5)
    """
    scores, lengths = check_scores(scores, lengths)
    if scores.shape != np.shape(true_scores):
        raise ValueError(
            "`scores` and `true_scores` must have the same shape (n, T, K); "
            f"got {scores.shape} and {np.shape(true_scores)}."
        )
    true_scores, _ = check_scores(true_scores, lengths, name="true_scores")
    n, steps, classes = scores.shape
    if n == 0:
        raise ValueError("`scores` holds no series; pass at least one.")
    sums = np.zeros(4)
    rows = max(1, CHUNK_NUMBERS // (steps * classes))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        steps_of_series = inside(lengths[part], steps)  # (rows, T)
        sums += _sums(scores[part][steps_of_series], true_scores[part][steps_of_series])
    differences, sizes, products, squares = sums.tolist()
    mean_abs = differences / (int(lengths.sum()) * classes * (classes - 1) / 2)
    if squares == 0:
        return LLRError(mean_abs, math.nan, math.nan)
    return LLRError(mean_abs, differences / sizes, products / squares)


def _sums(estimate: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the sums of |est - true|, |true|, est * true and true ** 2 over rows (m, K) and pairs.

    The last two omit the factor K, which cancels in their ratio.
    """
    estimate, truth = _center(estimate), _center(truth)
    return np.array(
        [
            _pair_distances(estimate - truth),
            _pair_distances(truth),
            np.einsum("mk,mk->", estimate, truth),
            np.einsum("mk,mk->", truth, truth),
        ]
    )


def _center(scores: np.ndarray) -> np.ndarray:
    scores = scores.astype(np.float64)
    # For centered scores, the sum over pairs of (a_k - a_l)(b_k - b_l) is K times the sum of a_k b_k.
    return scores - scores.mean(-1, keepdims=True)


def _pair_distances(values: np.ndarray) -> float:
    """Return the sum over rows (m, K) and pairs k < l of |v_k - v_l|."""
    classes = values.shape[-1]
    # In sorted order, the value of rank r is added r times and subtracted K - 1 - r times.
    weights = 2.0 * np.arange(classes) - (classes - 1)
    return float((np.sort(values, axis=-1) @ weights).sum())
