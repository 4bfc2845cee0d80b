"""Polishing: optimization of the last linear layer of a trained network.

Every formula is linear in the logits, and the logits are linear in the weights of the last layer. The scores
are therefore (accumulated features) · (weights), and LSEL and the multiplet loss are convex in the weights.
LLLR is not convex; for it, polishing finds a local optimum and keeps it if the validation loss is lower.

First-order training underestimates the scale of large evidence. A quasi-Newton method on the whole training
set finds the optimum in a few dozen passes, because it uses coordinates in which the curvature of the loss is
approximately the same in all directions. A ridge penalty, chosen on validation data, reduces overfitting on
small data sets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from torch import Tensor, nn

from stopwise.data.examples import Examples
from stopwise.llr import inside_steps, inside_windows
from stopwise.models.networks.modules import Integrator
from stopwise.models.networks.training.loop import Task
from stopwise.progress import Reporter

# From strong to weak. Each optimization starts from the optimum of the previous ridge penalty.
RIDGES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 0.0)
PASSES = 40  # maximum number of passes over the data per ridge penalty
TOLERANCE = 1e-7  # relative decrease of the loss below which the optimization stops
# Maximum number of steps per line search. Good steps are found within this limit. At the optimum, in single
# precision, there are none.
LINE_STEPS = 6


def polish(
    net: Integrator,
    task: Task,
    *,
    ridges: Sequence[float] | None = None,
    progress: bool | str = False,
) -> dict[str, Any]:
    """Polish the last linear layer of a trained network in place.

    Parameters
    ----------
    net
        The network. Its `readout` is optimized.
    task
        Task on which the network was trained. Without a validation set, the second to last ridge penalty is
        used and the result is always kept.
    ridges
        Candidate ridge penalties, the strongest first. None means `RIDGES`.
    progress
        As for `Reporter`.

    Returns
    -------
    report
        With a validation set: `inputs`, `ridge`, and the validation loss before and after polishing,
        `validation_loss_before` and `validation_loss`. `inputs` is "samples" if the samples alone, without
        the learned features, are best, and "all" otherwise. `inputs` and `ridge` are None if no candidate is
        better than the trained layer. Without a validation set: `ridge` only.
    """
    ridges = RIDGES if ridges is None else ridges
    train_set, validation_set = task.train_set, task.validation_set
    net.eval()
    problem = _Problem(net, task)
    start = read_parameters(net.readout)
    curvature, begin = problem.curvature(start, train_set), start
    if not curvature.any():  # all posteriors are 0 or 1, so the trained layer gives no direction
        begin = np.zeros_like(start)
        curvature = problem.curvature(begin, train_set)
    if not np.isfinite(curvature).all():
        raise FloatingPointError(
            "the samples are too large for single precision, so the last layer cannot be polished. Use "
            "standardize=True, scale `X`, or set polish=False."
        )
    if validation_set is None:
        path = _Path(problem, train_set, curvature, begin, 0)
        write_parameters(net.readout, path.optimum(ridges[-2]))
        return {"ridge": ridges[-2]}
    before = problem.loss(start, validation_set)[0]
    best = _Choice(start, None, None, before)
    # If the evidence is linear in the samples, learned features only add noise.
    inputs = ({"samples": len(start) - 1 - net.n_skip_inputs} if net.n_skip_inputs else {}) | {"all": 0}
    with Reporter("polishing", len(inputs) * len(ridges), progress) as reporter:
        for name, left_out in inputs.items():
            path = _Path(problem, train_set, curvature, begin, left_out)
            best_here = np.inf
            for ridge in ridges:
                parameters = path.optimum(ridge)
                loss = problem.loss(parameters, validation_set)[0]
                reporter.advance(f"{name} · ridge {ridge:g} · validation {loss:.4g}")
                best = min(best, _Choice(parameters, name, ridge, loss), key=lambda choice: choice.loss)
                if loss > best_here:
                    break  # weaker ridge penalties fit noise
                best_here = loss
    write_parameters(net.readout, best.parameters)
    return {
        "inputs": best.inputs,
        "ridge": best.ridge,
        "validation_loss_before": before,
        "validation_loss": best.loss,
    }


def memory_budget() -> int:
    """Return the size of the feature cache in bytes. Features beyond it are computed again in each pass."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not available on every system
        memory = 4 * 2**30
    return min(memory // 8, 4 * 2**30)


class _Choice(NamedTuple):
    """Parameters (p, K) of the last layer, how they were found (None: by training), and validation loss."""

    parameters: np.ndarray
    inputs: str | None
    ridge: float | None
    loss: float


def read_parameters(layer: nn.Linear) -> np.ndarray:
    """Return the weights and bias of a layer as one matrix (p, K), with the bias in the last row."""
    return torch.cat([layer.weight.t(), layer.bias[None]]).detach().double().cpu().numpy()


def write_parameters(layer: nn.Linear, parameters: np.ndarray) -> None:
    """Set the weights and bias of a layer from one matrix (p, K)."""
    rows = torch.from_numpy(parameters)
    with torch.no_grad():
        layer.weight.copy_(rows[:-1].t())
        layer.bias.copy_(rows[-1])


class _Batch(NamedTuple):
    """Features of a batch.

    The scores are series @ parameters, and the multiplet logits are windows @ parameters. `series` or
    `windows` is None if it is not part of the loss.
    """

    series: Tensor | None  # (B, T, p)
    windows: Tensor | None  # (B, W, M, p), without overlaps: overlapping windows would add little
    y: Tensor  # (B,)
    lengths: Tensor | None  # (B,), None if all are equal
    weight: Tensor  # (B,), with sum 1 over all batches

    @property
    def bytes(self) -> int:
        """Size of the features in bytes."""
        return sum(part.nbytes for part in (self.series, self.windows) if part is not None)


class _Problem:
    """Loss as a function of the parameters (p, K) of the last layer."""

    def __init__(self, net: Integrator, task: Task) -> None:
        self.net, self.objective = net, task.objective
        self.device, self.batch_size = task.training.device, task.training.batch_size
        self._kept: dict[int, list[_Batch]] = {}  # cached batches, by the id of the data
        self._budget = memory_budget()

    def loss(self, parameters: np.ndarray, data: Examples) -> tuple[float, np.ndarray]:
        """Return the loss over all data and its gradient (f, K).

        The loss is that of training, except that the windows do not overlap. `parameters` (f, K) may hold
        only the last f rows; the others are then 0.
        """
        total = 0.0
        # Store the weights class by class: with few classes and many rows, this is three times faster.
        weights = torch.from_numpy(np.ascontiguousarray(parameters.T)).float().to(self.device)
        weights.requires_grad_()  # (K, f)
        gradient = torch.zeros(weights.shape, dtype=torch.float64)
        for batch in self._batches(data):
            loss = torch.zeros((), device=weights.device)
            known = batch.y, batch.lengths, batch.weight
            if batch.series is not None:
                loss = self.objective.of_scores(_map(batch.series, weights), *known)
            if batch.windows is not None:
                loss = loss + self.objective.of_multiplets(
                    _map(batch.windows, weights), *known, stride=batch.windows.shape[2]
                )
            (part,) = torch.autograd.grad(loss, weights)
            total += loss.item()
            gradient += part.double().cpu()
        return total, gradient.numpy().T

    @torch.no_grad()
    def curvature(self, parameters: np.ndarray, data: Examples) -> np.ndarray:
        """Return an approximate curvature (p, p) of the loss at `parameters`, shared by all classes."""
        ratio = self.objective.llre_ratio
        matrix = torch.from_numpy(parameters).float().to(self.device)
        curvature = torch.zeros(len(matrix), len(matrix), dtype=torch.float64)
        for batch in self._batches(data):
            if batch.series is not None:
                inside = inside_steps(batch.series, batch.lengths)
                curvature += ratio * _curvature(batch.series, matrix, inside, batch.weight)
            if batch.windows is not None:
                inside = inside_windows(batch.windows, batch.lengths, stride=batch.windows.shape[2])
                curvature += (1 - ratio) * _curvature(batch.windows, matrix, inside, batch.weight)
        # Add a small diagonal, above the rounding error, so that directions without curvature are solvable.
        own = curvature.diagonal()
        own += 1e-5 * own + 1e-6 * own.mean()
        return curvature.numpy()

    def _batches(self, data: Examples) -> Iterator[_Batch]:
        """Yield the features batch by batch. The first batches, as many as fit, are cached in memory."""
        kept = self._kept.setdefault(id(data), [])
        yield from kept
        left = self._budget - sum(batch.bytes for batches in self._kept.values() for batch in batches)
        for batch in self._computed(data, len(kept)):
            left -= batch.bytes
            if left >= 0:
                kept.append(batch)
            else:
                left = -1  # do not cache later batches, even smaller ones: the cache holds the first batches
            yield batch

    def _computed(self, data: Examples, first: int) -> Iterator[_Batch]:
        """Compute and yield the features, starting with batch number `first`."""
        device, size = self.device, self.batch_size
        weights = (data.weights / len(data)).astype(np.float32)
        with _features_for_logits(self.net.readout):
            for start in range(first * size, len(data), size):
                rows = np.arange(start, min(start + size, len(data)))
                x, lengths = data.read(rows)
                equal = bool((lengths == x.shape[1]).all())
                with torch.no_grad():
                    series, windows = self.net(
                        torch.from_numpy(x).to(device), self.objective.needs_multiplets
                    )
                if windows is not None:
                    windows = windows[:, :: windows.shape[2]].contiguous()
                yield _Batch(
                    series if self.objective.llre_ratio > 0 else None,
                    windows,
                    torch.from_numpy(data.y[rows]).to(device),
                    None if equal else torch.from_numpy(lengths).to(device),
                    torch.from_numpy(weights[rows]).to(device),
                )


class _Path:
    """Regularization path: optima of ``loss + ridge/2 · |weights|²``, each started from the previous one.

    Parameters
    ----------
    problem
        The loss.
    data
        Series to fit.
    curvature
        (p, p) curvature of the loss. Together with the ridge penalty it defines the preconditioning.
    start
        (p, K) initial parameters.
    left_out
        Number of parameters, the first ones, that are set to 0 and not fitted.
    """

    def __init__(
        self, problem: _Problem, data: Examples, curvature: np.ndarray, start: np.ndarray, left_out: int
    ) -> None:
        self.problem, self.data, self.left_out = problem, data, left_out
        self.curvature = curvature[left_out:, left_out:]  # (f, f)
        self.fitted = start[left_out:]  # (f, K)
        self.penalized = np.ones((len(self.fitted), 1))
        self.penalized[-1] = 0  # the bias is not penalized

    def optimum(self, ridge: float) -> np.ndarray:
        """Return the parameters (p, K) that minimize the loss with this ridge penalty."""
        shape = self.fitted.shape
        root = cholesky(self.curvature + ridge * np.diag(self.penalized[:, 0]))  # upper triangular

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            fitted = solve_triangular(root, flat.reshape(shape))
            loss, gradient = self.problem.loss(fitted, self.data)
            loss += 0.5 * ridge * float((self.penalized * fitted**2).sum())
            gradient = gradient + ridge * self.penalized * fitted
            return loss, solve_triangular(root, gradient, trans="T").ravel()

        options = {"maxfun": PASSES, "ftol": TOLERANCE, "gtol": 0.0, "maxls": LINE_STEPS}
        begin = (root @ self.fitted).ravel()
        found = minimize(objective, begin, jac=True, method="L-BFGS-B", options=options)
        self.fitted = solve_triangular(root, np.asarray(found.x).reshape(shape))
        return np.pad(self.fitted, ((self.left_out, 0), (0, 0)))


@contextmanager
def _features_for_logits(layer: nn.Linear) -> Iterator[None]:
    """Make a layer return its input with a constant 1 appended, instead of logits.

    The formulas then accumulate the features as they would accumulate the logits.
    """

    def answer(_: nn.Module, inputs: Any, __: Tensor) -> Tensor:
        return torch.cat([*inputs, torch.ones_like(inputs[0][..., :1])], dim=-1)

    handle = layer.register_forward_hook(answer)
    try:
        yield
    finally:
        handle.remove()


def _map(features: Tensor, weights: Tensor) -> Tensor:
    """Apply weights (K, f) to the last f of the features (..., p); return (..., K)."""
    return F.linear(features[..., features.shape[-1] - weights.shape[1] :], weights)


def _curvature(rows: Tensor, matrix: Tensor, inside: Tensor | None, weight: Tensor) -> Tensor:
    """Return the sum (p, p) of ``w p(1−p) f fᵀ`` over the rows f of features (B, ..., p)."""
    chance = torch.softmax(rows @ matrix, dim=-1)
    doubt = (chance * (1 - chance)).sum(-1).flatten(1)  # (B, steps)
    counts = inside.flatten(1) if inside is not None else torch.ones_like(doubt)
    doubt = doubt * counts * (weight / counts.sum(1))[:, None]
    scaled = (rows.flatten(1, -2) * doubt[..., None].sqrt()).flatten(0, 1)  # (B·steps, p)
    return (scaled.t() @ scaled).double().cpu()
