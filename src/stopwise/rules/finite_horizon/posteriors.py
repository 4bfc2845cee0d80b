"""Posteriors that can be believed: a rising curve and a shift for each class, learnt from labels.

Estimated log-likelihood ratios may be too sure, not sure enough, or level off where the evidence grows. A
boundary that weighs costs needs probabilities, so the scores of a step go through a rising piecewise linear
curve, common to all classes, and are shifted, until they are calibrated.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

# Where the curve may bend, as quantiles of the scores: mostly far out, where early decisions fall.
BENDS = (0.02, 0.1, 0.5, 0.9, 0.98)
# How many series' worth of belief that the scores are right already: keeps a step whose classes are
# perfectly separated, or that few series reach, from running away.
BELIEF = 5.0
# A slope beyond e^±5 says nothing that e^±5 does not.
LARGEST = 5.0


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return `exp(z_k) / sum of exp(z)` over the last axis, (..., K)."""
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def stretch(scores: np.ndarray, bends: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return the scores (..., K), less their mean over the classes, on the rising curve.

    Parameters
    ----------
    scores
        (..., K) scores.
    bends
        (..., M) where the curve bends, in rising order; leading dimensions as those of `scores`.
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
    """Return bends (M,), slopes (M + 1,) and shift (K,): `softmax(curve(S) + shift)` is P(y).

    Parameters
    ----------
    scores
        (n, K) scores at one step.
    y
        (n,) class indices.
    weights
        (n,) weights of the series, of mean 1.
    log_prior
        (K,) where the shift is drawn to; the slopes are drawn to 1.
    """
    n, classes = scores.shape
    rows = np.arange(n)
    bends = np.quantile(scores - scores.mean(-1, keepdims=True), BENDS)
    pieces = np.stack([stretch(scores, bends, one) for one in np.eye(len(bends) + 1)])  # (M + 1, n, K)

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        slopes, offset = np.exp(parameters[:-classes]), parameters[-classes:]
        logits = np.tensordot(slopes, pieces, 1) + log_prior + offset  # (n, K)
        highest = logits.max(-1, keepdims=True)
        shares = np.exp(logits - highest)
        total = shares.sum(-1, keepdims=True)
        losses = np.log(total[:, 0]) + highest[:, 0] - logits[rows, y]
        pull = shares / total  # (n, K)
        pull[rows, y] -= 1
        pull *= weights[:, None]
        gradient = np.concatenate([slopes * np.tensordot(pieces, pull, 2), pull.sum(0)])
        value = weights @ losses + BELIEF / 2 * (parameters @ parameters)
        return value / n, (gradient + BELIEF * parameters) / n

    bounds = [*[(-LARGEST, LARGEST)] * len(pieces), *[(None, None)] * classes]
    found = minimize(objective, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds).x
    return bends, np.exp(found[:-classes]), log_prior + found[-classes:]
