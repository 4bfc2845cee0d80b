"""Convex problems of linear layers: softmax cross-entropy of rows, with a ridge penalty.

The order search and the polish fit linear layers on fixed features. L-BFGS solves these problems in few
passes over the data, because it starts from an approximate curvature: its first step is a Newton step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.linalg import LinAlgError, cho_solve, cholesky
from torch import Tensor

# Maximum number of steps per line search. Good steps are found within this limit. At the optimum, in single
# precision, there are none.
LINE_STEPS = 6
ARMIJO = 1e-4  # share of the decrease expected from the slope that a step must reach
MEMORY = 10  # number of steps that refine the curvature

# parameters (p, K) → loss and gradient (p, K)
Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Rows:
    """Weighted softmax cross-entropy of rows of features, as a function of the weights of a linear layer.

    Parameters
    ----------
    features
        (R, p) features.
    y
        (R,) class indices.
    weight
        (R,) weights of the rows.
    classes
        K, the number of classes.
    offset
        (R, K) logits to which those of the layer are added; None means 0.

    Examples
    --------
    >>> rows = Rows(torch.ones(2, 1), torch.tensor([0, 1]), torch.tensor([0.5, 0.5]), classes=2)
    >>> loss, gradient = rows.loss(np.zeros((1, 2)))
    >>> round(loss, 4), gradient.tolist()
    (0.6931, [[0.0, 0.0]])
    """

    def __init__(
        self, features: Tensor, y: Tensor, weight: Tensor, classes: int, offset: Tensor | None = None
    ) -> None:
        self.features, self.y, self.weight, self.offset = features, y, weight, offset
        self.classes = classes

    def logits(self, parameters: np.ndarray) -> Tensor:
        """Return the logits (R, K) for parameters (p, K)."""
        # Store the weights class by class: with few classes and many rows, this is three times faster.
        matrix = torch.from_numpy(np.ascontiguousarray(parameters.T)).float()  # (K, p)
        own = torch.nn.functional.linear(self.features, matrix)
        return own if self.offset is None else own + self.offset

    def losses(self, parameters: np.ndarray) -> Tensor:
        """Return the cross-entropy (R,) of each row."""
        return torch.nn.functional.cross_entropy(self.logits(parameters), self.y, reduction="none")

    def loss(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the weighted sum of the losses and its gradient (p, K)."""
        logs = torch.log_softmax(self.logits(parameters), dim=1)  # (R, K)
        own = logs.gather(1, self.y[:, None])[:, 0]
        errors = logs.exp()
        errors[torch.arange(len(errors)), self.y] -= 1
        gradient = (errors * self.weight[:, None]).t() @ self.features  # (K, p)
        return -float((self.weight * own).double().sum()), gradient.t().double().numpy()

    def curvature(self, parameters: np.ndarray, stride: int = 1) -> np.ndarray:
        """Return an approximate curvature (p, p) of the loss, shared by all classes.

        Parameters
        ----------
        parameters
            (p, K) parameters.
        stride
            Use every `stride`-th row only. An approximate curvature slows the solver down a little, but does
            not change the optimum.
        """
        doubt = doubts(self.logits(parameters)[::stride]) * self.weight[::stride] * stride
        scaled = self.features[::stride] * doubt.sqrt()[:, None]
        return solvable((scaled.t() @ scaled).double().numpy())


def doubts(logits: Tensor) -> Tensor:
    """Return the curvature (...) of the cross-entropy of logits (..., K), averaged over all directions.

    It is the trace of its Hessian, Σ p(1−p), divided by the K−1 directions in which logits differ.

    Examples
    --------
    >>> doubts(torch.zeros(1, 4))
    tensor([0.2500])
    """
    chance = torch.softmax(logits, dim=-1)
    return (chance * (1 - chance)).sum(-1) / (logits.shape[-1] - 1)


def solvable(curvature: np.ndarray) -> np.ndarray:
    """Add a small diagonal, above the rounding error, so that directions without curvature are solvable."""
    own = np.diagonal(curvature)
    return curvature + np.diag(1e-5 * own + 1e-6 * own.mean())


def fit_ridge(
    loss: Loss,
    start: np.ndarray,
    curvature: np.ndarray,
    ridge: np.ndarray,
    *,
    passes: int,
    tolerance: float,
) -> np.ndarray:
    """Return the parameters (p, K) that minimize ``loss + Σ_i ridge_i/2 · |row i of the parameters|²``.

    Parameters
    ----------
    loss
        Convex function of the parameters.
    start
        (p, K) initial parameters.
    curvature
        (p, p) approximate curvature of the loss, shared by all classes.
    ridge
        (p,) ridge penalties.
    passes
        Maximum number of evaluations of the loss.
    tolerance
        Relative decrease of the loss below which the optimization stops.

    Examples
    --------
    >>> def loss(w):
    ...     return float(((w - 3) ** 2).sum()), 2 * (w - 3)
    >>> fit_ridge(loss, np.zeros((1, 1)), np.eye(1), np.ones(1), passes=20, tolerance=1e-9).round(3)
    array([[2.]])
    """
    solve = _solver(curvature + np.diag(ridge))
    weights = ridge[:, None]

    def penalized(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = loss(parameters)
        return value + 0.5 * float((weights * parameters**2).sum()), gradient + weights * parameters

    here = start
    value, gradient = penalized(here)
    used = 1
    pairs: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=MEMORY)
    while solve is not None and used < passes:
        direction = -_inverse_times(gradient, pairs, solve)
        slope = float((direction * gradient).sum())
        if not slope < 0:
            break
        size, limit = 1.0, min(passes, used + LINE_STEPS)
        while used < limit:
            there = here + size * direction
            new_value, new_gradient = penalized(there)
            used += 1
            if new_value <= value + ARMIJO * size * slope:
                break
            size *= 0.3
        else:
            break  # no lower value: at the optimum, in single precision
        change, turn = there - here, new_gradient - gradient
        if (change * turn).sum() > 1e-12 * np.sqrt((change**2).sum() * (turn**2).sum()):
            pairs.append((change, turn))
        decrease = value - new_value
        here, value, gradient = there, new_value, new_gradient
        if decrease <= tolerance * abs(value):
            break
    return here


class Remembered:
    """Loss that remembers its last value: the next ridge penalty starts where the previous one ended.

    Parameters
    ----------
    loss
        The loss.
    """

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self._last: tuple[np.ndarray, tuple[float, np.ndarray]] | None = None

    def __call__(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss and its gradient."""
        if self._last is None or not np.array_equal(self._last[0], parameters):
            self._last = parameters, self._loss(parameters)
        return self._last[1]


def _inverse_times(
    gradient: np.ndarray,
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    solve: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Return the product (p, K) of the inverse curvature and a gradient, by the two loops of L-BFGS.

    `solve` applies the inverse of the initial curvature; `pairs` are changes of the parameters and of the
    gradient, the oldest first.
    """
    result, factors = gradient, []
    for change, turn in reversed(pairs):
        factor = (change * result).sum() / (change * turn).sum()
        factors.append(factor)
        result = result - factor * turn
    result = solve(result)
    for (change, turn), factor in zip(pairs, reversed(factors)):
        result = result + (factor - (turn * result).sum() / (change * turn).sum()) * change
    return result


def _solver(curvature: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return a function that solves systems with a curvature; None if this is impossible."""
    root = _root(curvature)
    return None if root is None else lambda right: cho_solve((root, False), right)


def _root(curvature: np.ndarray) -> np.ndarray | None:
    """Return the upper triangular root of a curvature; None if there is none, even with more diagonal.

    With features of very different sizes, rounding errors can make the curvature indefinite. A larger
    diagonal keeps the optimum and only slows the solver down.
    """
    if not np.isfinite(curvature).all():
        return None
    scale = float(np.diagonal(curvature).max())
    for share in (0.0, 1e-6, 1e-3, 1.0):
        try:
            return cholesky(curvature + share * scale * np.eye(len(curvature)))
        except LinAlgError:
            continue
    return None
