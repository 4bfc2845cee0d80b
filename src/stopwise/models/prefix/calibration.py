"""Calibration: from regression outputs to log posteriors, by multinomial logistic regression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from stopwise.models.prefix.parallel import in_threads

NEWTON_STEPS = 30
LARGEST_SCALE = 100.0
MATRIX_PENALTIES = (1.0, 10.0, 100.0, 1000.0)
PENALTY_HEADS = 8  # heads on which the penalty is chosen
TINY = 1e-300  # smallest probability of which the logarithm is taken


def log_loss(logits: np.ndarray, y: np.ndarray) -> float:
    """Return the mean negative log-likelihood of classes y (n,) under logits (n, K)."""
    # Shorter and faster than scipy.special.log_softmax, which takes most of the time with few series.
    shifted = logits - logits.max(axis=1, keepdims=True)
    return float((np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(y)), y]).mean())


def _softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities (n, K) of logits (n, K)."""
    found = np.exp(logits - logits.max(axis=1, keepdims=True))
    found /= found.sum(axis=1, keepdims=True)
    return found


def fit_scale(outputs: np.ndarray, y: np.ndarray) -> float:
    """Return the factor s > 0 that minimizes the log loss of s · outputs, by Newton's method.

    Examples
    --------
    >>> outputs = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(fit_scale(outputs, np.array([0, 0, 1, 1])), 2)  # three of four are right: log 3
    1.1
    """
    own = outputs[np.arange(len(y)), y]
    scale = 1.0
    for _ in range(NEWTON_STEPS):
        p = _softmax(scale * outputs)
        mean = (p * outputs).sum(axis=1)
        slope = (mean - own).mean()
        bend = ((p * outputs**2).sum(axis=1) - mean**2).mean()
        # In the logarithm of the scale, so that it stays positive; a step changes it at most fourfold.
        step = slope / max(bend * scale, 1e-12)
        new = scale * np.exp(np.clip(-step, -1.4, 1.4))
        new = float(np.clip(new, 1e-3, LARGEST_SCALE))
        if abs(new - scale) <= 1e-6 * scale:
            return new
        scale = new
    return scale


def fit_matrix(z: np.ndarray, y: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix A (K, K) and biases b (K,) whose logits z·A + b have the least penalized log loss.

    The penalty is ``penalty · (‖A − I‖² + ‖b‖²) / n``, so it matters less the more series there are.
    """
    n, classes = z.shape
    rows = np.arange(n)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        change, bias = flat[:-classes].reshape(classes, classes), flat[-classes:]
        p = _softmax(z + z @ change + bias)
        loss = -np.log(np.maximum(p[rows, y], TINY)).sum()
        p[rows, y] -= 1
        error = p / n
        gradient = np.concatenate([(z.T @ error).ravel(), error.sum(axis=0)])
        return loss / n + penalty / n * (flat @ flat), gradient + 2 * penalty / n * flat

    found = minimize(
        objective, np.zeros(classes * (classes + 1)), jac=True, method="L-BFGS-B", options={"maxiter": 40}
    ).x
    return np.eye(classes) + found[:-classes].reshape(classes, classes), found[-classes:]


def left_out_logits(z: np.ndarray, y: np.ndarray, penalty: float, folds: Sequence[np.ndarray]) -> np.ndarray:
    """Return calibrated logits (n, K); those of a fold come from a calibration without this fold.

    If all series are in one fold, nothing is left to calibrate by, and z is returned.
    """
    if len(folds) == 1:
        return z
    found = np.empty_like(z)
    rows = np.arange(len(z))
    for fold in folds:
        others = np.setdiff1d(rows, fold)
        matrix, bias = fit_matrix(z[others], y[others], penalty)
        found[fold] = z[fold] @ matrix + bias
    return found


def choose_penalty(
    z: Sequence[np.ndarray], y: Sequence[np.ndarray], folds: Sequence[Sequence[np.ndarray]]
) -> float:
    """Return the penalty of `fit_matrix` with the least held-out log loss, over some of the heads.

    Parameters
    ----------
    z
        Scaled and centered outputs (n, K) of each head.
    y
        Class indices (n,) of the series of each head.
    folds
        Rows of each fold, for each head.
    """
    tried = np.unique(np.linspace(0, len(z) - 1, PENALTY_HEADS).astype(int))

    def loss(choice: tuple[float, int]) -> float:
        penalty, g = choice
        return log_loss(left_out_logits(z[g], y[g], penalty, folds[g]), y[g])

    losses = in_threads(loss, [(penalty, g) for penalty in MATRIX_PENALTIES for g in tried])
    return MATRIX_PENALTIES[int(np.reshape(losses, (len(MATRIX_PENALTIES), -1)).sum(axis=1).argmin())]
