"""CALIMERA, an early classifier to compare with, written from its published description.

Bilski and Jastrzębska, CALIMERA: A new early time series classification method, Information Processing and
Management 60, 2023. At 20 equally spaced prefixes, a ridge classifier on MiniRocket features scores the
classes. Backward in time, a kernel regression at each prefix predicts from these scores how much waiting for
the next prefix changes the cost. A series is decided at the first prefix where waiting is predicted to cost
more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit, softmax

from stopwise.experiments.minirocket import TAPS, MiniRocket

PREFIXES = 20
RIDGES = np.logspace(-3, 3, 10)
KERNEL_RIDGE = 1.0
NULL = 1e-10  # eigenvalues below this share of the largest are 0


@dataclass(frozen=True)
class RidgeClassifier:
    """Ridge regression of the classes, with an intercept, and its leave-one-out scores in closed form.

    Features are centered and divided by their norms.

    Parameters
    ----------
    weights
        (F, C) weights; C is 1 for two classes, else K.
    intercept
        (C,) intercepts.
    left_out
        (n, C) scores of the training series, each from a fit without it.
    ridge
        The penalty of highest leave-one-out accuracy; the smallest one if several are equal.
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
        G = F.astype(np.float64)
        center, norm = G.mean(axis=0), np.linalg.norm(G, axis=0)
        norm[norm == 0] = 1
        G = (G - center) / norm
        mean = targets.mean(axis=0)
        Y = targets - mean
        if n <= G.shape[1]:
            values, U = _range(G @ G.T)
        else:
            values, V = _range(G.T @ G)
            U = G @ (V / np.sqrt(values))
        UY, squares = U.T @ Y, U**2  # (r, C), (n, r)
        best, ridge, left_out = -1.0, 0.0, targets
        for candidate in RIDGES:
            shrink = values / (values + candidate)
            residual = Y - U @ (shrink[:, None] * UY)
            leverage = 1 / n + squares @ shrink  # (n,); 1/n is that of the intercept
            held = targets - residual / np.maximum(1 - leverage, 1e-12)[:, None]
            accuracy = float((best_class(held) == y).mean())
            if accuracy > best:
                best, ridge, left_out = accuracy, float(candidate), held
        weights = (G.T @ (U @ (UY / (values + ridge)[:, None]))) / norm[:, None]
        return cls(weights, mean - center @ weights, left_out, ridge)

    def scores(self, F: np.ndarray) -> np.ndarray:
        """Return the scores (n, C) of features F (n, F)."""
        return F @ self.weights + self.intercept


def best_class(scores: np.ndarray) -> np.ndarray:
    """Return the class (n,) of highest score; a single column (n, 1) is the score of the second class."""
    return (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)


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
    """The classifier of one prefix and the calibration of its scores."""

    steps: int
    rocket: MiniRocket | None  # None: the raw samples are the features
    ridge: RidgeClassifier
    calibration: list[tuple[float, float]]  # one of two classes, or one per class

    @classmethod
    def fit(cls, X: np.ndarray, y: np.ndarray, classes: int, steps: int, seed: int) -> Self:
        rocket = MiniRocket.fit(X[:, :steps], seed=seed) if steps >= TAPS else None
        ridge = RidgeClassifier.fit(_features(X, steps, rocket), y, classes)
        raw = raw_probabilities(ridge.left_out)
        first = 1 if classes == 2 else 0
        calibration = [sigmoid_calibration(raw[:, k], y == k) for k in range(first, classes)]
        return cls(steps, rocket, ridge, calibration)

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Return the ridge scores (n, C) of padded series (n, T, d)."""
        return self.ridge.scores(_features(X, self.steps, self.rocket))

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return calibrated class probabilities (n, K) of ridge scores (n, C)."""
        raw = raw_probabilities(scores)
        raw = raw[:, 1:] if raw.shape[1] == 2 else raw
        each = np.column_stack([expit(a * p + b) for (a, b), p in zip(self.calibration, raw.T)])
        if each.shape[1] == 1:
            return np.column_stack([1 - each, each])
        return each / each.sum(axis=1, keepdims=True)


def _features(X: np.ndarray, steps: int, rocket: MiniRocket | None) -> np.ndarray:
    prefix = X[:, :steps]
    return prefix.reshape(len(X), -1) if rocket is None else rocket.transform(prefix)


def raw_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return probabilities (n, K) of ridge scores (n, C) before calibration, by a softmax.

    Examples
    --------
    >>> raw_probabilities(np.array([[0.5]])).round(3).tolist()
    [[0.269, 0.731]]
    """
    return softmax(np.column_stack([-scores, scores]) if scores.shape[1] == 1 else scores, axis=1)


@dataclass(frozen=True)
class _Halting:
    """Kernel ridge regression of the change of cost at the next prefix, without an intercept."""

    inputs: np.ndarray  # (n, C + 2), or (n, 1)
    dual: np.ndarray  # (n,)

    @classmethod
    def fit(cls, scores: np.ndarray, change: np.ndarray) -> Self:
        inputs = halting_inputs(scores)
        gram = _rbf(inputs, inputs)
        gram[np.diag_indices(len(gram))] += KERNEL_RIDGE
        return cls(inputs, np.linalg.solve(gram, change))

    def predict(self, scores: np.ndarray) -> np.ndarray:
        return _rbf(halting_inputs(scores), self.inputs) @ self.dual


def halting_inputs(scores: np.ndarray) -> np.ndarray:
    """Return the inputs of the halting regression: the scores, the lead of the best one, and the best one.

    Examples
    --------
    >>> halting_inputs(np.array([[0.5, -0.5, -1.0]])).tolist()
    [[0.5, -0.5, -1.0, 1.0, 0.5]]
    >>> halting_inputs(np.array([[0.5]])).tolist()
    [[0.5]]
    """
    if scores.shape[1] == 1:
        return scores
    top = np.sort(scores, axis=1)
    return np.column_stack([scores, top[:, -1] - top[:, -2], top[:, -1]])


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
        self.present_, y = np.unique(y, return_inverse=True)
        self.classes_ = classes
        self.points_ = [
            _Point.fit(X, y, len(self.present_), steps, self.seed + 1000 * i)
            for i, steps in enumerate(prefix_lengths(X.shape[1]))
        ]
        self._fit_halting(lengths)
        return self

    def _fit_halting(self, lengths: np.ndarray) -> None:
        """Fit the halting regressions, last prefix first, to the leave-one-out scores."""
        seen = np.minimum(self.steps[:, None], lengths) / lengths  # (P, n)
        scores = [point.ridge.left_out for point in self.points_]
        doubt = np.stack([1 - point.probabilities(s).max(axis=1) for point, s in zip(self.points_, scores)])
        cost = doubt + self.delay * seen
        self.halting_: list[_Halting] = []
        for i in range(len(self.points_) - 2, -1, -1):
            halting = _Halting.fit(scores[i], cost[i + 1] - cost[i])
            cost[i] = np.where(halting.predict(scores[i]) < 0, cost[i + 1], cost[i])
            self.halting_.insert(0, halting)

    @property
    def steps(self) -> np.ndarray:
        """(P,) prefix lengths."""
        return np.array([point.steps for point in self.points_])

    def decide(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Decide padded series.

        Parameters
        ----------
        X
            (n, T, d) series, padded as those in `fit`.

        Returns
        -------
        labels
            (n,) class indices.
        times
            (n,) prefix lengths of the decisions; they may be beyond the end of a shorter series.
        probabilities
            (n, P, K) calibrated probabilities after each prefix.
        """
        n = len(X)
        labels, times = np.zeros(n, np.int64), np.zeros(n, np.int64)
        probabilities = np.zeros((n, len(self.points_), self.classes_))
        for i, point in enumerate(self.points_):
            scores = point.scores(X)
            probabilities[:, i, self.present_] = point.probabilities(scores)
            stops = times == 0
            if i < len(self.halting_):
                stops &= self.halting_[i].predict(scores) > 0
            labels[stops], times[stops] = self.present_[best_class(scores[stops])], point.steps
        return labels, times, probabilities
