"""LSTM over all windows of a series at once, with a hand-written backward pass.

Two properties make it fast. First, all windows advance together. The inputs are projected once, and at inner
step m the windows that start at 0..W−1 read the projections m..m+W−1. This is a contiguous slice if time is
the leading dimension, so no window is copied. Second, the backward pass avoids the overhead of autograd on
the unrolled loop, which is larger than the arithmetic itself. The backward loop computes only dh and dc; each
weight gradient is then one matrix product (GEMM).

The elementwise part of a step uses `fused_lstm` if numba is available, and torch otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from stopwise.models.networks.kernels import buffers
from stopwise.models.networks.kernels.fused import in_threads, kernels_for

# Kinds of activation. `fused_lstm` uses the same numbers.
B2BSQRT, TANH, B2BLOG = 0, 1, 2


class Squash(NamedTuple):
    """Activation of candidate and cell: its kind, and the parameter α of B2Bsqrt."""

    kind: int
    alpha: float = 1.0

    @property
    def bounded(self) -> bool:
        """Whether the activation is bounded."""
        return self.kind == TANH

    def apply(self, x: Tensor) -> Tensor:
        """Apply the activation to x."""
        if self.kind == TANH:
            return torch.tanh(x)
        if self.kind == B2BLOG:
            return x.abs().log1p_().copysign_(x)
        size = x.abs().add_(self.alpha).sqrt_().add_(math.sqrt(self.alpha))
        return torch.div(x, size, out=size) if self.alpha > 0 else torch.where(x == 0, x, x / size)

    def slope(self, y: Tensor) -> Tensor:
        """Return the derivative as a function of the output y.

        It is ``1/(2(|y| + √α))`` for B2Bsqrt and ``exp(−|y|)`` for B2Blog.
        """
        if self.kind == TANH:
            return 1 - y * y
        if self.kind == B2BLOG:
            return y.abs().neg_().exp_()
        return y.abs().add_(math.sqrt(self.alpha)).mul_(2).reciprocal_()


class WindowStates(torch.autograd.Function):
    """Hidden states of an LSTM that starts from zero in every window."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, recurrent: Tensor, samples: int, squash: Squash) -> Tensor:
        """Run the recurrence.

        Parameters
        ----------
        projected
            (T, B, 4H) input projections with bias, gates in the order input, forget, output, candidate.
        recurrent
            (4H, H) recurrent weights.
        samples
            M, the number of samples per window.
        squash
            Activation of candidate and output.

        Returns
        -------
        states
            (M, W, B, H) states after 1..M samples of each of the W = T−M+1 windows.
        """
        gates, cells, states = _run(projected, recurrent, samples, squash)
        ctx.save_for_backward(projected, recurrent, states)
        ctx.samples, ctx.squash = samples, squash
        ctx.gates, ctx.cells = gates, cells
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Propagate dh and dc backward through the steps, then compute the weight gradient as one GEMM."""
        projected, recurrent, states = ctx.saved_tensors
        if ctx.gates is None:  # in a second backward pass, because the first overwrote the gates
            ctx.gates, ctx.cells, _ = _run(projected, recurrent, ctx.samples, ctx.squash)
        gates, cells = ctx.gates, ctx.cells
        ctx.gates = ctx.cells = None
        samples, rows, hidden = cells.shape
        dh, dc = cells.new_zeros(2, rows, hidden)
        tensors = (d_states.reshape(cells.shape).contiguous(), gates, cells, dh, dc)
        retreat = _in_parts("retreat", tensors) or partial(_retreat, *tensors)
        steps = gates.unbind()  # the loop below overwrites the gates with their gradients
        for m in range(samples - 1, -1, -1):
            retreat(m, *ctx.squash)
            if m:
                torch.mm(steps[m], recurrent, out=dh)
        d_recurrent = gates[1:].flatten(0, 1).t() @ states[:-1].reshape(-1, hidden)
        d_projected = _fold(gates, projected)
        buffers.give(cells)
        if d_projected.data_ptr() != gates.data_ptr():
            buffers.give(gates)
        return d_projected, d_recurrent, None, None


def _run(projected: Tensor, recurrent: Tensor, samples: int, squash: Squash) -> tuple[Tensor, Tensor, Tensor]:
    """Return the activated gates (M, W·B, 4H), the cells (M, W·B, H) and the states (M, W, B, H)."""
    steps, batch, width = projected.shape
    windows = steps - samples + 1
    gates = buffers.take(projected, samples, windows * batch, width)
    cells = buffers.take(projected, samples, windows * batch, width // 4)
    states = torch.empty_like(cells)
    tensors = (projected.contiguous(), gates, cells, states)
    advance = _in_parts("advance", tensors) or partial(_advance, *tensors)
    transposed = recurrent.t()  # (H, 4H)
    before, after = states.unbind(), gates.unbind()
    for m in range(samples):
        if m:
            torch.mm(before[m - 1], transposed, out=after[m])
        advance(m, *squash)
    return gates, cells, states.view(samples, windows, batch, -1)


def _in_parts(kernel: str, tensors: tuple[Tensor, ...]) -> Callable[..., None] | None:
    """Return a kernel bound to the tensors, with its rows distributed over threads; None without kernels."""
    kernels = kernels_for("fused_lstm", *tensors)
    if kernels is None:
        return None
    rows, width = tensors[1].shape[1:]  # shape of the gates
    arrays = [tensor.detach().numpy() for tensor in tensors]
    return partial(in_threads, getattr(kernels, kernel), rows, width, *arrays)


def _advance(
    projected: Tensor, gates: Tensor, cells: Tensor, states: Tensor, m: int, kind: int, alpha: float
) -> None:
    """Add the inputs of step m to its gates, activate the gates in place, and write cells and states."""
    squash = Squash(kind, alpha)
    batch, (_, rows, hidden) = projected.shape[1], cells.shape
    inputs = projected[m : m + rows // batch].reshape(gates[m].shape)
    if m:
        gates[m].add_(inputs)
    else:
        gates[0] = inputs
    gates[m, :, : 3 * hidden].sigmoid_()
    i, f, o, candidate = gates[m].split(hidden, dim=1)
    candidate.copy_(squash.apply(candidate))
    torch.mul(i, candidate, out=cells[m])
    if m:
        cells[m].addcmul_(f, cells[m - 1])
    torch.mul(o, squash.apply(cells[m]), out=states[m])


def _retreat(
    d_states: Tensor,
    gates: Tensor,
    cells: Tensor,
    dh: Tensor,
    dc: Tensor,
    m: int,
    kind: int,
    alpha: float,
) -> None:
    """Overwrite the gates of step m with their gradients, and dc with the gradient of the cells of step m−1.

    On entry, dh and dc are the gradients from step m+1. The gradient `d_states` of the output is added here.
    """
    squash = Squash(kind, alpha)
    i, f, o, candidate = gates[m].split(dh.shape[1], dim=1)
    y = squash.apply(cells[m])
    dh.add_(d_states[m])
    dc.addcmul_(dh * o, squash.slope(y))
    d_output = dh * y * o * (1 - o)
    d_input = dc * candidate * i * (1 - i)
    d_candidate = dc * i * squash.slope(candidate)
    d_forget = dc * cells[m - 1] * f * (1 - f) if m else torch.zeros_like(dc)
    dc.mul_(f)
    torch.cat([d_input, d_forget, d_output, d_candidate], dim=1, out=gates[m])


def _fold(d_gates: Tensor, projected: Tensor) -> Tensor:
    """Return the gradient (T, B, 4H) of the projections, summed over all windows."""
    steps, batch, width = projected.shape
    samples = len(d_gates)
    windows = steps - samples + 1
    if windows == 1:
        return d_gates.view(projected.shape)
    kernels = kernels_for("fused_lstm", d_gates)
    if kernels:
        d_projected = d_gates.new_empty(projected.shape)
        arrays = d_gates.view(samples, windows, -1).numpy(), d_projected.view(steps, -1).numpy()
        in_threads(kernels.fold, steps, samples * batch * width, *arrays)
        return d_projected
    d_projected = d_gates.new_zeros(projected.shape)
    for m in range(samples):
        d_projected[m : m + windows] += d_gates[m].view(windows, batch, width)
    return d_projected
