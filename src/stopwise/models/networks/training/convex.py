"""Convex problems of linear layers: softmax cross-entropy of rows, with a ridge penalty.

The order search and the polish fit linear layers on fixed features. L-BFGS solves these problems in few
passes over the data in coordinates in which the curvature is about the same in all directions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import minimize
from torch import Tensor

# Maximum number of steps per line search. Good steps are found within this limit. At the optimum, in single
# precision, there are none.
LINE_STEPS = 6

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
        chance = torch.softmax(self.logits(parameters)[::stride], dim=1)
        doubt = (chance * (1 - chance)).sum(1) * self.weight[::stride] * stride
        scaled = self.features[::stride] * doubt.sqrt()[:, None]
        return solvable((scaled.t() @ scaled).double().numpy())


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
    shape = start.shape
    root = _root(curvature + np.diag(ridge))
    if root is None:
        return start
    weights = ridge[:, None]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = solve_triangular(root, flat.reshape(shape))
        value, gradient = loss(parameters)
        value += 0.5 * float((weights * parameters**2).sum())
        return value, solve_triangular(root, gradient + weights * parameters, trans="T").ravel()

    options = {"maxfun": passes, "ftol": tolerance, "gtol": 0.0, "maxls": LINE_STEPS}
    found = minimize(objective, (root @ start).ravel(), jac=True, method="L-BFGS-B", options=options)
    return solve_triangular(root, np.asarray(found.x).reshape(shape))


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
