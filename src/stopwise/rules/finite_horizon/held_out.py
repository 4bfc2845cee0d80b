"""The held-out series that a `FiniteHorizon` rule is learned from, after validation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stopwise.rules.arrays import check_prior, frozen_floats
from stopwise.rules.classes import check_every_class
from stopwise.validation import check_class_indices, check_integer, check_real, check_scores

# Fewer series are not enough to estimate the cost of waiting.
MIN_SERIES = 10
# Number of series that must reach the deadline, if there are as many; otherwise `MIN_SERIES` must.
REACHING_SERIES = 30


@dataclass(frozen=True)
class HeldOutScores:
    """Held-out series, the input of the backward induction.

    Attributes
    ----------
    scores
        (n, T, K) scores; values past the end of a series are ignored.
    lengths
        (n,) lengths of the series, at most T.
    y
        (n,) class indices, or None if not known.
    weights
        (n,) weights of the series, with mean 1.
    log_prior
        (K,) logarithm of the prior.
    loss
        (K, K) loss, with true classes as rows and decided classes as columns; the minimum of each row is 0.
    """

    scores: np.ndarray
    lengths: np.ndarray
    y: np.ndarray | None
    weights: np.ndarray
    log_prior: np.ndarray
    loss: np.ndarray

    def part(self, rows: np.ndarray) -> HeldOutScores:
        """Return the given series."""
        y = None if self.y is None else self.y[rows]
        return replace(
            self, scores=self.scores[rows], lengths=self.lengths[rows], y=y, weights=self.weights[rows]
        )


def held_out_scores(scores: Any, y: Any, lengths: Any, loss: Any, prior: Any, horizon: Any) -> HeldOutScores:
    """Validate the arguments of `FiniteHorizon.fit` and return the held-out series."""
    array = np.asarray(scores)
    if lengths is None and array.ndim == 3 and array.dtype.kind == "f":
        lengths = np.maximum(np.isfinite(array).all(-1).cumprod(1).sum(1), 1)
    array, lengths = check_scores(array, lengths)
    n, _, classes = array.shape
    if np.isscalar(loss):
        loss = check_real("loss", loss, 0, open_low=True, open_high=True) * (1 - np.eye(classes))
    matrix = check_loss(loss, classes)
    # A loss that is common to all decisions for a true class does not affect the decisions.
    matrix = check_loss(matrix - matrix.min(1, keepdims=True), classes)
    steps = _check_horizon(horizon, lengths)
    shares = np.full(classes, 1 / classes) if prior is None else check_prior(prior, classes)
    labels, weights = None, np.ones(n)
    if y is not None:
        labels = check_class_indices(y, n, classes)
        counts = np.bincount(labels, minlength=classes)
        check_every_class(labels, range(classes))
        weights = (shares * n / counts)[labels]
    return HeldOutScores(
        array[:, :steps], np.minimum(lengths, steps), labels, weights, np.log(shares), matrix
    )


def _check_horizon(horizon: Any, lengths: np.ndarray) -> int:
    if len(lengths) < MIN_SERIES:
        raise ValueError(
            f"`scores` must hold at least {MIN_SERIES} series to learn from; got {len(lengths)}. "
            "Hold out more series, or use SPRT or Tapering, which do not learn from series."
        )
    reaching = REACHING_SERIES if len(lengths) >= REACHING_SERIES else MIN_SERIES
    enough = int(np.sort(lengths)[-reaching])
    if horizon is None:
        return enough
    steps = check_integer("horizon", horizon, 1)
    if steps > enough:
        raise ValueError(
            f"`horizon` must be a step that at least {reaching} series reach, here at most {enough}; got "
            f"{steps}. Hold out more or longer series, or lower `horizon`."
        )
    return steps


def check_loss(loss: Any, classes: int | None = None) -> np.ndarray:
    """Return the loss as a read-only array (K, K); `classes` is the expected K, if known."""
    matrix = frozen_floats("loss", loss)
    square = matrix.ndim == 2 and len(matrix) == matrix.shape[1] >= 2
    if not square or (classes is not None and len(matrix) != classes):
        wanted = "(K, K)" if classes is None else f"({classes}, {classes})"
        raise ValueError(
            f"`loss` must be one number or have shape {wanted}, true classes by decided classes; "
            f"got shape {matrix.shape}."
        )
    if not (np.isfinite(matrix).all() and (matrix >= 0).all() and matrix.any()):
        raise ValueError(
            "`loss` must be finite, >= 0 and differ between decisions. Express a gain as a loss of the other "
            "decisions."
        )
    return matrix
