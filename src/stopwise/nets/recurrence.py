"""An LSTM over every window of a series at once, with a hand-written backward pass.

Two facts make it cheap. All windows advance together: the inputs are projected once, and at inner step m
the windows that start at 0..W−1 read the projections m..m+W−1, a contiguous slice when time is the
leading dimension, so no window is ever copied. And unrolled autograd costs more than the arithmetic: the
backward loop here carries only dh and dc, and the weight gradients are one GEMM each after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Squash(NamedTuple):
    """An activation of the cell, and its derivative as a function of its own output."""

    apply: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


def tanh_squash() -> Squash:
    """Return the ordinary LSTM's activation."""
    return Squash(torch.tanh, lambda y: 1 - y * y)


def b2bsqrt_squash(alpha: float) -> Squash:
    """Return B2Bsqrt: with y = sign(x)(√(α+|x|) − √α) the slope 1/(2√(α+|x|)) is 1/(2(|y| + √α))."""
    root = math.sqrt(alpha)

    def apply(x: Tensor) -> Tensor:
        size = x.abs().add_(alpha).sqrt_().add_(root)
        return torch.div(x, size, out=size) if alpha > 0 else torch.where(x == 0, x, x / size)

    return Squash(apply, lambda y: y.abs().add_(root).mul_(2).reciprocal_())


class WindowStates(torch.autograd.Function):
    """Hidden states of an LSTM restarted at every window."""

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
            M: samples per window.
        squash
            The activation of candidate and output.

        Returns
        -------
        states
            (M, W, B, H): after 1..M samples of each of the W = T−M+1 windows.
        """
        steps, batch, width = projected.shape
        hidden = width // 4
        windows = steps - samples + 1
        gates = projected.new_empty(samples, windows * batch, width)  # activated: i, f, o, candidate
        cells = projected.new_empty(samples, windows * batch, hidden)
        squashed = torch.empty_like(cells)  # act(c)
        states = torch.empty_like(cells)
        transposed = recurrent.t()  # (H, 4H)
        for m in range(samples):
            inputs = projected[m : m + windows].reshape(-1, width)  # (W·B, 4H), a view
            gate = gates[m]
            if m == 0:
                gate.copy_(inputs)
            else:
                torch.addmm(inputs, states[m - 1], transposed, out=gate)
            gate[:, : 3 * hidden].sigmoid_()
            candidate = gate[:, 3 * hidden :]
            candidate.copy_(squash.apply(candidate))
            torch.mul(gate[:, :hidden], candidate, out=cells[m])
            if m:
                cells[m].addcmul_(gate[:, hidden : 2 * hidden], cells[m - 1])
            squashed[m] = squash.apply(cells[m])
            torch.mul(gate[:, 2 * hidden : 3 * hidden], squashed[m], out=states[m])
        ctx.save_for_backward(recurrent, gates, cells, squashed, states)
        ctx.shape, ctx.squash = (steps, batch, windows), squash
        return states.view(samples, windows, batch, hidden)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Carry dh and dc backwards; the weight gradient is one GEMM at the end."""
        recurrent, gates, cells, squashed, states = ctx.saved_tensors
        steps, batch, windows = ctx.shape
        samples, _, hidden = cells.shape
        slope = ctx.squash.slope
        d_states = d_states.reshape(samples, windows * batch, hidden)
        d_gates = torch.empty_like(gates)
        dh = d_states[-1]
        dc = torch.zeros_like(dh)
        for m in range(samples - 1, -1, -1):
            i, f, o, candidate = gates[m].split(hidden, dim=1)
            di, df, do, d_candidate = d_gates[m].split(hidden, dim=1)
            dc.add_(dh * o * slope(squashed[m]))
            torch.mul(dh * squashed[m], o * (1 - o), out=do)
            torch.mul(dc * candidate, i * (1 - i), out=di)
            torch.mul(dc * i, slope(candidate), out=d_candidate)
            if m:
                torch.mul(dc * cells[m - 1], f * (1 - f), out=df)
                dc.mul_(f)
                dh = torch.addmm(d_states[m - 1], d_gates[m], recurrent)
            else:
                df.zero_()
        d_recurrent = d_gates[1:].reshape(-1, 4 * hidden).t() @ states[:-1].reshape(-1, hidden)
        if windows == 1:
            d_projected = d_gates.view(steps, batch, 4 * hidden)
        else:
            d_projected = gates.new_zeros(steps, batch, 4 * hidden)
            for m in range(samples):
                d_projected[m : m + windows] += d_gates[m].view(windows, batch, 4 * hidden)
        return d_projected, d_recurrent, None, None
