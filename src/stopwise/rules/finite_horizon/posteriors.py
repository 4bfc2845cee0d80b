"""Calibrated posteriors: a rising curve and a shift for each class, learned from labels.

Estimated log-likelihood ratios may be overconfident, underconfident, or saturate where the evidence grows. A
boundary that weighs costs needs probabilities, so the scores of a step go through a rising piecewise linear
curve, common to all classes, and a shift, so that they are calibrated.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

# Where the curve may bend, as quantiles of the scores: mostly in the tails, where early decisions are made.
BEND_QUANTILES = (0.02, 0.1, 0.5, 0.9, 0.98)
# Strength of the pull towards uncalibrated scores, in series: keeps the fit finite at a step whose classes
# are perfectly separated, or that few series reach.
RIDGE_IN_SERIES = 5.0
# Slopes stay within e^±5.
MAX_LOG_SLOPE = 5.0


def apply_curve(scores: np.ndarray, bends: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return the rising curve of the scores (..., K) minus their mean over the classes.

    Parameters
    ----------
    scores
        (..., K) scores.
    bends
        (..., M) where the curve bends, in ascending order; leading dimensions as those of `scores`.
    slopes
        (..., M + 1) its slope before, between and after the bends.
    """
    centred = scores - scores.mean(-1, keepdims=True)
    curve = slopes[..., :1] * np.minimum(centred, bends[..., :1])
    for m in range(bends.shape[-1]):
        low = bends[..., m, None]
        high = bends[..., m + 1, None] if m + 1 < bends.shape[-1] else np.inf
        curve = curve + slopes[..., m + 1, None] * np.clip(centred - low, 0, high - low)
    return curve


def fit_step(
    scores: np.ndarray, y: np.ndarray, weights: np.ndarray, log_prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bends (M,), slopes (M + 1,) and shift (K,): `softmax(curve(S) + shift)` estimates P(y).

    Parameters
    ----------
    scores
        (n, K) scores at one step.
    y
        (n,) class indices.
    weights
        (n,) weights of the series, of mean 1.
    log_prior
        (K,) what the shift is shrunk to; the slopes are shrunk to 1.
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
