"""CALIMERA, an early classifier to compare with, written from its published description.

Bilski and Jastrzębska, CALIMERA: A new early time series classification method, Information Processing and
Management 60, 2023. At 20 equally spaced prefixes, a ridge classifier on MiniRocket features gives class
probabilities. Backward in time, a kernel regression at each prefix predicts from them how much waiting for
the next prefix changes the cost. A series is decided at the first prefix where waiting is predicted to cost
more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit

from stopwise.experiments.minirocket import TAPS, MiniRocket

PREFIXES = 20
RIDGES = np.logspace(-3, 3, 10)
KERNEL_RIDGE = 1.0
NULL = 1e-10  # eigenvalues below this share of the largest are 0


@dataclass(frozen=True)
class RidgeClassifier:
    """Ridge regression of the classes, with an intercept, and its leave-one-out scores in closed form.

    Parameters
    ----------
    weights
        (F, C) weights; C is 1 for two classes, else K.
    intercept
        (C,) intercepts.
    left_out
        (n, C) scores of the training series, each from a fit without it.
    ridge
        The penalty of least squared leave-one-out error.
    """

    weights: np.ndarray
    intercept: np.ndarray
    left_out: np.ndarray
    ridge: float

    @classmethod
    def fit(cls, F: np.ndarray, y: np.ndarray, classes: int) -> Self:
        """Fit to features F (n, F) and class indices y (n,).

        Parameters
        ----------
        F
            Features.
        y
            Class indices.
        classes
            Number of classes K.
        """
        n = len(y)
        targets = np.where(np.arange(classes) == y[:, None], 1.0, -1.0)  # (n, K)
        targets = targets[:, 1:] if classes == 2 else targets
        center, mean = F.mean(axis=0, dtype=np.float64), targets.mean(axis=0)
        G, Y = F.astype(np.float64) - center, targets - mean
        if n <= G.shape[1]:
            values, U = _range(G @ G.T)
        else:
            values, V = _range(G.T @ G)
            U = G @ (V / np.sqrt(values))
        UY = U.T @ Y  # (r, C)
        best, chosen = np.inf, None
        for ridge in RIDGES:
            shrink = values / (values + ridge)
            residual = Y - U @ (shrink[:, None] * UY)
            leverage = 1 / n + (U**2) @ shrink  # (n,); 1/n is that of the intercept
            held = residual / np.maximum(1 - leverage, 1e-12)[:, None]
            error = float((held**2).mean())
            if error < best:
                best, chosen = error, (float(ridge), targets - held)
        assert chosen is not None
        ridge, left_out = chosen
        weights = G.T @ (U @ (UY / (values + ridge)[:, None]))
        return cls(weights, mean - center @ weights, left_out, ridge)

    def scores(self, F: np.ndarray) -> np.ndarray:
        """Return the scores (n, C) of features F (n, F)."""
        return F @ self.weights + self.intercept


def _range(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues of a Gram matrix that are not 0, and their eigenvectors as columns."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > max(values[-1] * NULL, 1e-12)
    return values[kept], vectors[:, kept]


def sigmoid_calibration(scores: np.ndarray, positive: np.ndarray) -> tuple[float, float]:
    """Return (a, b) of Platt's calibration: the probability of the positive class is 1 / (1 + exp(−a·s − b)).

    Parameters
    ----------
    scores
        (n,) scores.
    positive
        (n,) whether each series is positive. The targets are smoothed as Platt proposes.
    """
    count = int(positive.sum())
    target = np.where(positive, (count + 1) / (count + 2), 1 / (len(positive) - count + 2))
    design = np.column_stack([scores, np.ones(len(scores))])
    beta = np.array([0.0, np.log((count + 1) / (len(positive) - count + 1))])

    def loss(beta: np.ndarray) -> float:
        z = design @ beta
        return float((np.logaddexp(0, z) - target * z).sum())

    for _ in range(100):
        p = expit(design @ beta)
        gradient = design.T @ (p - target)
        hessian = design.T @ (design * (p * (1 - p))[:, None]) + 1e-10 * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while loss(beta - size * step) > loss(beta) and size > 1e-8:  # damped: the loss never grows
            size /= 2
        beta = beta - size * step
        if np.abs(size * step).max() < 1e-8:
            break
    return float(beta[0]), float(beta[1])


@dataclass(frozen=True)
class _Point:
    """The classifier, the calibration and the halting regression of one prefix."""

    steps: int
    rocket: MiniRocket | None  # None: the raw samples are the features
    ridge: RidgeClassifier
    calibration: list[tuple[float, float]]
    classes: int

    def features(self, X: np.ndarray) -> np.ndarray:
        prefix = X[:, : self.steps]
        if self.rocket is None:
            return prefix.reshape(len(X), -1).astype(np.float64)
        return self.rocket.transform(prefix)

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return class probabilities (n, K) of ridge scores (n, C)."""
        each = np.column_stack([expit(a * s + b) for (a, b), s in zip(self.calibration, scores.T)])
        if self.classes == 2:
            return np.column_stack([1 - each[:, 0], each[:, 0]])
        total = each.sum(axis=1, keepdims=True)
        return np.divide(each, total, out=np.full_like(each, 1 / self.classes), where=total > 0)


@dataclass(frozen=True)
class _Halting:
    """Kernel ridge regression of the change of cost at the next prefix, without an intercept."""

    inputs: np.ndarray  # (n, K + 2)
    dual: np.ndarray  # (n,)

    @classmethod
    def fit(cls, p: np.ndarray, change: np.ndarray) -> Self:
        inputs = halting_inputs(p)
        gram = _rbf(inputs, inputs)
        gram[np.diag_indices(len(gram))] += KERNEL_RIDGE
        return cls(inputs, np.linalg.solve(gram, change))

    def predict(self, p: np.ndarray) -> np.ndarray:
        return _rbf(halting_inputs(p), self.inputs) @ self.dual


def halting_inputs(p: np.ndarray) -> np.ndarray:
    """Return the inputs (n, K + 2) of the halting regression: probabilities, the lead of the best, the best.

    Examples
    --------
    >>> halting_inputs(np.array([[0.7, 0.3]])).round(2).tolist()
    [[0.7, 0.3, 0.4, 0.7]]
    """
    top = np.sort(p, axis=1)
    return np.column_stack([p, top[:, -1] - top[:, -2], top[:, -1]])


def _rbf(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the Gaussian kernel of rows, with gamma = 1 / number of columns."""
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.exp(-np.maximum(squares, 0) / a.shape[1])


def prefix_lengths(steps: int) -> list[int]:
    """Return at most 20 equally spaced prefix lengths; the last is the whole length.

    Examples
    --------
    >>> prefix_lengths(40)[:3], prefix_lengths(5)
    ([2, 4, 6], [1, 2, 3, 4, 5])
    """
    count = min(PREFIXES, steps)
    return sorted({max(1, steps * (i + 1) // count) for i in range(count)})


class Calimera:
    """Early classifier by ridge classification of prefixes and backward regression of the cost.

    Series of unequal length are padded with their last sample to the longest training series. Waiting beyond
    the end of a series costs nothing, and its decision counts at its end.

    Parameters
    ----------
    delay
        Cost of seeing a whole series, where an error costs 1.
    seed
        Random seed of the features.
    """

    def __init__(self, delay: float = 1.0, seed: int = 0) -> None:
        self.delay, self.seed = delay, seed

    def fit(self, X: np.ndarray, y: np.ndarray, lengths: np.ndarray, classes: int) -> Self:
        """Fit to padded series.

        Parameters
        ----------
        X
            (n, T, d) series, padded with the last sample; see `hold_last`.
        y
            (n,) class indices.
        lengths
            (n,) own lengths.
        classes
            Number of classes K. Classes without training series are never predicted.
        """
        present, y = np.unique(y, return_inverse=True)
        self.present_, self.classes_ = present, classes
        self.points_ = []
        left_out = []
        for i, steps in enumerate(prefix_lengths(X.shape[1])):
            prefix = X[:, :steps]
            rocket = MiniRocket.fit(prefix, seed=self.seed + 1000 * i) if steps >= TAPS else None
            F = prefix.reshape(len(X), -1) if rocket is None else rocket.transform(prefix)
            ridge = RidgeClassifier.fit(F, y, len(present))
            own = ridge.left_out
            positive = [y == 1] if len(present) == 2 else [y == k for k in range(len(present))]
            calibration = [sigmoid_calibration(s, hit) for s, hit in zip(own.T, positive)]
            self.points_.append(_Point(steps, rocket, ridge, calibration, len(present)))
            left_out.append(self.points_[-1].probabilities(own))
        self._fit_halting(np.stack(left_out), lengths)
        return self

    def _fit_halting(self, p: np.ndarray, lengths: np.ndarray) -> None:
        """Fit the halting regressions, last prefix first, to left-out probabilities p (P, n, K)."""
        steps = np.array([point.steps for point in self.points_])
        seen = np.minimum(steps[:, None], lengths) / lengths  # (P, n)
        stop = 1 - p.max(axis=2) + self.delay * seen
        self.halting_: list[_Halting] = []
        later = stop[-1]
        for i in range(len(steps) - 2, -1, -1):
            halting = _Halting.fit(p[i], later - stop[i])
            later = np.where(halting.predict(p[i]) < 0, later, stop[i])
            self.halting_.insert(0, halting)

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        """Return class probabilities (P, n, K) of padded series (n, T, d) after each prefix."""
        out = np.zeros((len(self.points_), len(X), self.classes_))
        for i, point in enumerate(self.points_):
            out[i][:, self.present_] = point.probabilities(point.ridge.scores(point.features(X)))
        return out

    def decide(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return labels (n,) and prefix lengths (n,) at which series with probabilities p are decided."""
        chosen = np.full(p.shape[1], len(self.points_) - 1)
        for i in range(len(self.halting_) - 1, -1, -1):
            chosen[self.halting_[i].predict(p[i][:, self.present_]) > 0] = i
        steps = np.array([point.steps for point in self.points_])
        return p[chosen, np.arange(p.shape[1])].argmax(1), steps[chosen]
