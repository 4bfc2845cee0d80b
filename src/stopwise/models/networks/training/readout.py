"""Loss of a trained network as a function of the weights of its last layer.

Every formula is linear in the logits, and the logits are linear in the weights of the last layer. The scores
are therefore (accumulated features) · (weights). The features are computed once and kept in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from stopwise.data.examples import Examples
from stopwise.llr import inside_steps, inside_windows
from stopwise.models.networks.modules import Integrator
from stopwise.models.networks.training.convex import doubts, solvable
from stopwise.models.networks.training.loop import Task

CURVATURE_ROWS = 20_000  # number of steps of series from which the curvature is estimated


def memory_budget() -> int:
    """Return the size of the feature cache in bytes. Features beyond it are computed again in each pass."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not available on every system
        memory = 4 * 2**30
    return min(memory // 8, 4 * 2**30)


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
    `windows` is None if it is not part of the loss. If the scores are sums of the logits of single samples,
    `series` is None, and `summed` is true.
    """

    series: Tensor | None  # (B, T, p)
    windows: Tensor | None  # (B, W, M, p), without overlaps: overlapping windows would add little
    y: Tensor  # (B,)
    lengths: Tensor | None  # (B,), None if all are equal
    weight: Tensor  # (B,), with sum 1 over all batches
    summed: bool

    def outputs(self, weights: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the scores (B, T, K) and the logits of the windows (B, W, M, K) for weights (K, f)."""
        series, windows = (None if one is None else _map(one, weights) for one in (self.series, self.windows))
        if self.summed:
            assert windows is not None
            series = windows[:, :, 0].cumsum(1)
        return series, windows

    @property
    def bytes(self) -> int:
        """Size of the features in bytes."""
        return sum(part.nbytes for part in (self.series, self.windows) if part is not None)


class ReadoutProblem:
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
        weights = self._weights(parameters).requires_grad_()  # (K, f)
        gradient = torch.zeros(weights.shape, dtype=torch.float64)
        for batch in self._batches(data):
            loss = self._batch_loss(batch, weights)
            (part,) = torch.autograd.grad(loss, weights)
            total += loss.item()
            gradient += part.double().cpu()
        return total, gradient.numpy().T

    def _weights(self, parameters: np.ndarray) -> Tensor:
        # Store the weights class by class: with few classes and many rows, this is three times faster.
        return torch.from_numpy(np.ascontiguousarray(parameters.T)).float().to(self.device)

    def _batch_loss(self, batch: _Batch, weights: Tensor) -> Tensor:
        loss = torch.zeros((), device=weights.device)
        known = batch.y, batch.lengths, batch.weight
        scores, logits = batch.outputs(weights)
        if scores is not None:
            loss = self.objective.of_scores(scores, *known)
        if logits is not None:
            loss = loss + self.objective.of_multiplets(logits, *known, stride=logits.shape[2])
        return loss

    @torch.no_grad()
    def value(self, parameters: np.ndarray, data: Examples) -> float:
        """Return the loss over all data, without its gradient."""
        weights = self._weights(parameters)
        return sum(self._batch_loss(batch, weights).item() for batch in self._batches(data))

    @torch.no_grad()
    def curvature(self, parameters: np.ndarray, data: Examples) -> np.ndarray:
        """Return an approximate curvature (f, f) of the loss at `parameters` (f, K), shared by all classes.

        It is estimated from some of the batches. This makes the solver a little slower than the exact
        curvature would, but does not change the optimum.
        """
        ratio = self.objective.llre_ratio
        matrix = torch.from_numpy(parameters).float().to(self.device)
        curvature = torch.zeros(len(matrix), len(matrix), dtype=torch.float64)
        stride = max(1, len(data) * data.steps // CURVATURE_ROWS)
        for number, batch in enumerate(self._batches(data)):
            if number % stride:
                continue
            series = batch.series
            if batch.summed:
                assert batch.windows is not None
                series = batch.windows[:, :, 0].cumsum(1)
            if series is not None:
                inside = inside_steps(series, batch.lengths)
                curvature += stride * ratio * _curvature(series, matrix, inside, batch.weight)
            if batch.windows is not None:
                inside = inside_windows(batch.windows, batch.lengths, stride=batch.windows.shape[2])
                curvature += stride * (1 - ratio) * _curvature(batch.windows, matrix, inside, batch.weight)
        return solvable(curvature.numpy())

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
                used = self.objective.llre_ratio > 0
                # At order 0 the sums are cheaper to compute from the logits than to keep.
                summed = used and windows is not None and _are_sums(series, windows)
                yield _Batch(
                    series if used and not summed else None,
                    windows,
                    torch.from_numpy(data.y[rows]).to(device),
                    None if equal else torch.from_numpy(lengths).to(device),
                    torch.from_numpy(weights[rows]).to(device),
                    summed,
                )


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
    # Weights of 0 are faster than a slice of the features, which torch would copy.
    return F.linear(features, F.pad(weights, (features.shape[-1] - weights.shape[1], 0)))


def _are_sums(series: Tensor, windows: Tensor) -> bool:
    """Whether series (B, T, p) are the sums over time of windows (B, W, M, p) of single samples."""
    if windows.shape[2] != 1 or windows.shape[1] != series.shape[1]:
        return False
    sums = windows[:, :, 0].cumsum(1)
    # Several times faster than torch.allclose.
    return bool((sums.sub_(series).abs_() <= series.abs().mul_(1e-4).add_(1e-4)).all())


def _curvature(rows: Tensor, matrix: Tensor, inside: Tensor | None, weight: Tensor) -> Tensor:
    """Return the sum (f, f) of ``w c x xᵀ`` with curvatures c, over the last f features x of `rows`."""
    rows = rows[..., rows.shape[-1] - len(matrix) :]
    doubt = doubts(rows @ matrix).flatten(1)  # (B, steps)
    counts = inside.flatten(1) if inside is not None else torch.ones_like(doubt)
    doubt = doubt * counts * (weight / counts.sum(1))[:, None]
    scaled = (rows.flatten(1, -2) * doubt[..., None].sqrt()).flatten(0, 1)  # (B·steps, p)
    return (scaled.t() @ scaled).double().cpu()
