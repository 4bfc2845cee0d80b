"""Polishing: take a network's last linear map to the optimum of its convex loss.

Every formula is linear in the logits, and the logits are linear in the weights of the last layer: the scores
are (accumulated features) · (weights), and both losses are convex in the weights. First-order training leaves
the scale of large evidence far behind; a quasi-Newton method on the whole training set, in coordinates in
which the loss is round, finds the optimum in a few dozen passes. The ridge that keeps small data sets from
over-fitting is chosen on validation data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from torch import Tensor, nn

from stopwise.llr import LOSSES, inside_steps, inside_windows, multiplet_cross_entropy
from stopwise.nets import Integrator
from stopwise.progress import Reporter
from stopwise.recipe import Examples, Recipe

# From strong to weak; each starts from the optimum before it.
RIDGES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 0.0)
PASSES = 40  # over the data, at most, for one ridge
TOLERANCE = 1e-7  # relative gain of the loss below which the optimum is reached


def polish(
    net: Integrator,
    train_set: Examples,
    validation_set: Examples | None,
    recipe: Recipe,
    *,
    progress: bool | str = False,
) -> dict[str, float | None]:
    """Polish the last linear map of a trained network in place.

    Parameters
    ----------
    net
        The network; its `readout` is polished.
    train_set, validation_set
        The data. Without a validation set the ridge is the weakest above 0, and the outcome is kept.
    recipe
        Tells loss, LLRe ratio, batch size and device.
    progress
        As for `Reporter`.

    Returns
    -------
    told
        The ridge chosen (None if none was better than what training left), and the validation loss before
        and after, if there is a set.
    """
    net.eval()
    problem = _Problem(net, recipe)
    start = read_parameters(net.readout)
    root = problem.curvature_root(start, train_set)
    u = root @ start  # (p, K): the coordinates in which the loss is round
    if validation_set is None:
        write_parameters(net.readout, solve_triangular(root, problem.optimum(train_set, root, u, RIDGES[-2])))
        return {"ridge": RIDGES[-2]}
    before = best_loss = problem.loss(start, validation_set)[0]
    best, chosen = start, None
    with Reporter("polishing", len(RIDGES), progress) as reporter:
        for ridge in RIDGES:
            u = problem.optimum(train_set, root, u, ridge)
            parameters = solve_triangular(root, u)
            loss = problem.loss(parameters, validation_set)[0]
            reporter.advance(f"ridge {ridge:g} · validation {loss:.4g}")
            if loss < best_loss:
                best, best_loss, chosen = parameters, loss, ridge
            elif chosen is not None and ridge < chosen:
                break  # weaker ridges fit noise
    write_parameters(net.readout, best)
    return {"ridge": chosen, "validation_loss_before": before, "validation_loss": best_loss}


def read_parameters(layer: nn.Linear) -> np.ndarray:
    """Return weights and bias of a layer as one matrix (p, K), the bias last."""
    return torch.cat([layer.weight.t(), layer.bias[None]]).detach().double().cpu().numpy()


def write_parameters(layer: nn.Linear, parameters: np.ndarray) -> None:
    """Set weights and bias of a layer from one matrix (p, K)."""
    rows = torch.from_numpy(parameters)
    with torch.no_grad():
        layer.weight.copy_(rows[:-1].t())
        layer.bias.copy_(rows[-1])


class _Batch(NamedTuple):
    """Features of a batch: scores are series @ parameters, multiplet logits are windows @ parameters."""

    series: Tensor  # (B, T, p)
    windows: Tensor | None  # (B, W, M, p)
    y: Tensor  # (B,)
    lengths: Tensor | None  # (B,), None if all are equal
    weight: Tensor  # (B,), adding up to 1 over the batches


class _Problem:
    """The loss as a function of the last layer's parameters (p, K)."""

    def __init__(self, net: Integrator, recipe: Recipe) -> None:
        self.net, self.recipe = net, recipe

    def optimum(self, data: Examples, root: np.ndarray, u: np.ndarray, ridge: float) -> np.ndarray:
        """Return the minimiser of loss + ridge/2 · |weights|² in round coordinates, starting at u (p, K)."""
        penalised = np.ones((len(root), 1))
        penalised[-1] = 0  # the bias is free

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            parameters = solve_triangular(root, flat.reshape(u.shape))
            loss, gradient = self.loss(parameters, data)
            loss += 0.5 * ridge * float((penalised * parameters**2).sum())
            gradient = gradient + ridge * penalised * parameters
            return loss, solve_triangular(root, gradient, trans="T").ravel()

        options = {"maxfun": PASSES, "ftol": TOLERANCE, "gtol": 0.0}
        found = minimize(objective, u.ravel(), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x).reshape(u.shape)

    def loss(self, parameters: np.ndarray, data: Examples) -> tuple[float, np.ndarray]:
        """Return the loss over all data, as in training, and its gradient (p, K)."""
        ratio, total = self.recipe.llre_ratio, 0.0
        matrix = torch.from_numpy(parameters).float().to(self.recipe.device).requires_grad_()
        gradient = torch.zeros(parameters.shape, dtype=torch.float64)
        for batch in self._batches(data):
            loss = torch.zeros((), device=matrix.device)
            known = batch.y, batch.lengths, batch.weight
            if ratio > 0:
                loss = ratio * LOSSES[self.recipe.loss](batch.series @ matrix, *known)
            if batch.windows is not None:
                loss = loss + (1 - ratio) * multiplet_cross_entropy(batch.windows @ matrix, *known)
            (part,) = torch.autograd.grad(loss, matrix)
            total += loss.item()
            gradient += part.double().cpu()
        return total, gradient.numpy()

    @torch.no_grad()
    def curvature_root(self, parameters: np.ndarray, data: Examples) -> np.ndarray:
        """Return the upper triangular R (p, p), RᵀR being about the loss's curvature at `parameters`."""
        ratio = self.recipe.llre_ratio
        matrix = torch.from_numpy(parameters).float().to(self.recipe.device)
        curvature = torch.zeros(len(matrix), len(matrix), dtype=torch.float64)
        for batch in self._batches(data):
            inside = inside_steps(batch.series, batch.lengths)
            curvature += ratio * _curvature(batch.series, matrix, inside, batch.weight)
            if batch.windows is not None:
                inside = inside_windows(batch.windows, batch.lengths)
                curvature += (1 - ratio) * _curvature(batch.windows, matrix, inside, batch.weight)
        # A floor, so that directions without curvature yet stay solvable.
        curvature += 1e-6 * curvature.diagonal().mean() * torch.eye(len(curvature), dtype=torch.float64)
        return np.asarray(cholesky(curvature.numpy()))

    def _batches(self, data: Examples) -> Iterator[_Batch]:
        device = self.recipe.device
        weights = (data.weights() / len(data)).astype(np.float32)
        with _features_for_logits(self.net.readout):
            for start in range(0, len(data), self.recipe.batch_size):
                rows = np.arange(start, min(start + self.recipe.batch_size, len(data)))
                x, lengths = data.read(rows)
                equal = bool((lengths == x.shape[1]).all())
                with torch.no_grad():
                    series, windows = self.net(torch.from_numpy(x).to(device), self.recipe.llre_ratio < 1)
                yield _Batch(
                    series,
                    windows,
                    torch.from_numpy(data.y[rows]).to(device),
                    None if equal else torch.from_numpy(lengths).to(device),
                    torch.from_numpy(weights[rows]).to(device),
                )


@contextmanager
def _features_for_logits(layer: nn.Linear) -> Iterator[None]:
    """Let a layer answer its input beside a 1, in place of logits: formulas add it up as they would those."""

    def answer(_: nn.Module, inputs: Any, __: Tensor) -> Tensor:
        return torch.cat([*inputs, torch.ones_like(inputs[0][..., :1])], dim=-1)

    handle = layer.register_forward_hook(answer)
    try:
        yield
    finally:
        handle.remove()


def _curvature(rows: Tensor, matrix: Tensor, inside: Tensor | None, weight: Tensor) -> Tensor:
    """Return the sum (p, p) of w p(1−p) f fᵀ over the rows f of features (B, ..., p)."""
    chance = torch.softmax(rows @ matrix, dim=-1)
    doubt = (chance * (1 - chance)).sum(-1).flatten(1)  # (B, steps)
    counts = inside.flatten(1) if inside is not None else torch.ones_like(doubt)
    doubt = doubt * counts * (weight / counts.sum(1))[:, None]
    scaled = (rows.flatten(1, -2) * doubt[..., None].sqrt()).flatten(0, 1)  # (B·steps, p)
    return (scaled.t() @ scaled).double().cpu()
