"""Calibrated posteriors: a monotone curve and a shift per class, learned from labels.

Estimated log-likelihood ratios may be overconfident, underconfident or saturated. A rule that minimizes costs
needs calibrated probabilities. So the scores of each step are transformed by an increasing piecewise linear
curve, common to all classes, and shifted by a constant per class.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

# Positions of the bends, as quantiles of the scores: mostly in the tails, where early decisions are made.
BEND_QUANTILES = (0.02, 0.1, 0.5, 0.9, 0.98)
# Strength of the regularization towards uncalibrated scores, in numbers of series. It keeps the fit finite at
# steps where the classes are perfectly separated or that few series reach.
RIDGE_IN_SERIES = 5.0
# Slopes are limited to e^±5.
MAX_LOG_SLOPE = 5.0


def apply_curve(scores: np.ndarray, bends: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Apply the piecewise linear curve to the scores (..., K), centered over the classes.

    Parameters
    ----------
    scores
        (..., K) scores.
    bends
        (..., M) positions of the bends, ascending; leading dimensions as in `scores`.
    slopes
        (..., M + 1) slopes before, between and after the bends.
    """
    centered = scores - scores.mean(-1, keepdims=True)
    curve = slopes[..., :1] * np.minimum(centered, bends[..., :1])
    for m in range(bends.shape[-1]):
        low = bends[..., m, None]
        high = bends[..., m + 1, None] if m + 1 < bends.shape[-1] else np.inf
        curve = curve + slopes[..., m + 1, None] * np.clip(centered - low, 0, high - low)
    return curve


def fit_step(
    scores: np.ndarray, y: np.ndarray, weights: np.ndarray, log_prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit bends (M,), slopes (M + 1,) and shift (K,) such that `softmax(curve(S) + shift)` estimates P(y).

    Parameters
    ----------
    scores
        (n, K) scores at one step.
    y
        (n,) class indices.
    weights
        (n,) weights of the series, with mean 1.
    log_prior
        (K,) log prior. The shift is shrunk towards it, the slopes towards 1.
    """
    n, classes = scores.shape
    rows = np.arange(n)
    bends = np.quantile(scores - scores.mean(-1, keepdims=True), BEND_QUANTILES)
    pieces = np.stack([apply_curve(scores, bends, one) for one in np.eye(len(bends) + 1)])  # (M + 1, n, K)

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        slopes, offset = np.exp(parameters[:-classes]), parameters[-classes:]
        log_posterior = log_softmax(np.tensordot(slopes, pieces, 1) + log_prior + offset, axis=-1)  # (n, K)
        losses = -log_posterior[rows, y]
        by_logit = np.exp(log_posterior)  # derivative of the weighted losses, (n, K)
        by_logit[rows, y] -= 1
        by_logit *= weights[:, None]
        gradient = np.concatenate([slopes * np.tensordot(pieces, by_logit, 2), by_logit.sum(0)])
        value = weights @ losses + RIDGE_IN_SERIES / 2 * (parameters @ parameters)
        return value / n, (gradient + RIDGE_IN_SERIES * parameters) / n

    bounds = [*[(-MAX_LOG_SLOPE, MAX_LOG_SLOPE)] * len(pieces), *[(None, None)] * classes]
    found = minimize(objective, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds).x
    return bends, np.exp(found[:-classes]), log_prior + found[-classes:]
