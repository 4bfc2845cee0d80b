"""Attention inside every prefix of a window, summed over the tokens of the prefix.

A sample in a prefix of i samples attends only to these i samples, so each (token, prefix) pair has a
different output. The attention scores q·k, however, are the same for all prefixes. With running sums of e·v
and e over the samples, where e is the exponential of the score, the outputs of all prefixes cost no more than
those of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from stopwise.models.networks.kernels.fused import in_threads, kernels_for

FEW = 2  # up to this number of prefix lengths, one attention per length is fastest


class TokenVariance(NamedTuple):
    """Coefficients of the variance of a token ``y + O a`` of size D as a function of its heads a.

    The variance is ``(|Cy|² + 2 (Oᵀ C y)·a + aᵀ (Oᵀ C O) a) / D``, where C subtracts the mean over the D
    components.

    Parameters
    ----------
    own
        (R, M, 1) values of ``|Cy|² / D + ε`` for each token.
    cross
        (R, M, h·d) values of ``2 Oᵀ C y / D`` for each token.
    square
        (h·d, h·d) matrix ``Oᵀ C O / D``.
    bias
        (ff,) bias of each unit, added after the division by the standard deviation.
    """

    own: Tensor
    cross: Tensor
    square: Tensor
    bias: Tensor

    def normalize(self, units: Tensor, heads: Tensor) -> Tensor:
        """Return the inputs (R, i, ff) of the units for the first i tokens, given their heads (R, i, h·d)."""
        i = heads.shape[1]
        change = ((self.cross[:, :i] + F.linear(heads, self.square)) * heads).sum(2, keepdim=True)
        # The heads can reduce the variance to almost 0, and rounding must not make it negative.
        variance = (self.own[:, :i] + change).clamp(min=torch.finfo(heads.dtype).tiny)
        return units * variance.rsqrt() + self.bias

    def for_kernels(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return squared, cross, own and bias as `PrefixSums` takes them, given the values (R, h, M, d)."""
        rows, heads, _, size = v.shape
        square = self.square.reshape(heads, size, heads, size)
        return (
            torch.einsum("rhmd,gehd->rhgme", v, square),
            self.cross.unflatten(2, (heads, size)).transpose(1, 2),
            self.own.squeeze(2),
            self.bias.expand(rows, 1, -1),
        )


def pool_prefixes(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    units: Tensor,
    expand: Tensor,
    lengths: range,
    variance: TokenVariance | None = None,
) -> tuple[Tensor, Tensor]:
    """Sum the heads and the feed-forward activations over the tokens of each prefix.

    Parameters
    ----------
    q, k, v
        (R, h, M, d) queries, keys and values of the M samples of R windows.
    units
        (R, M, ff) contribution of each sample itself to the units.
    expand
        (ff, h·d) map from the attention heads to the units.
    lengths
        Prefix lengths to compute.
    variance
        If given, the tokens are normalized before the units. `units` and `expand` must then be computed from
        centered tokens.

    Returns
    -------
    heads
        (R, lengths, h·d) sums ``Σ_s a_s`` over the tokens s of a prefix.
    fired
        (R, lengths, ff) sums ``Σ_s relu(units_s + expand a_s)``.
    """
    every = len(lengths) > FEW and lengths == range(1, q.shape[2] + 1)
    name = "fused_prefix_norm" if variance else "fused_prefix"
    kernels = kernels_for(name, q, k, v, units, expand, *(variance or ())) if every else None
    if kernels:
        scores = k @ q.transpose(2, 3) / math.sqrt(q.shape[3])  # (R, h, M, M), queries innermost
        parts = zip(v.unbind(1), expand.split(q.shape[3], dim=1))
        mapped = torch.stack([F.linear(value, weight) for value, weight in parts], dim=1)  # (R, h, M, ff)
        more = variance.for_kernels(v) if variance else ()
        heads, fired = PrefixSums.apply(kernels, scores, v, mapped, units, *more)
        return heads.transpose(1, 2).flatten(2), fired
    heads, fired = [], []
    for i in lengths:
        mixed = F.scaled_dot_product_attention(q[:, :, :i], k[:, :, :i], v[:, :, :i])  # (R, h, i, d)
        mixed = mixed.transpose(1, 2).flatten(2)  # (R, i, h·d)
        reached = units[:, :i] + F.linear(mixed, expand)
        heads.append(mixed.sum(1))
        fired.append(torch.relu(variance.normalize(reached, mixed) if variance else reached).sum(1))
    return torch.stack(heads, dim=1), torch.stack(fired, dim=1)


class Windows(torch.autograd.Function):
    """Windows of a series, as by `Tensor.unfold`, with a backward pass that adds slices."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, samples: int) -> Tensor:
        """Return the windows (B, W, M, n) of x (B, T, n)."""
        ctx.steps = x.shape[1]
        return x.unfold(1, samples, 1).transpose(2, 3).clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_windows: Tensor) -> tuple[Tensor, None]:
        """Sum the gradients of all windows per sample."""
        batch, windows, samples, size = d_windows.shape
        if windows == 1:
            return d_windows[:, 0], None
        d_x = d_windows.new_zeros(batch, ctx.steps, size)
        for m in range(samples):
            d_x[:, m : m + windows] += d_windows[:, :, m]
        return d_x, None


class PrefixSums(torch.autograd.Function):
    """Sums of `pool_prefixes` for all prefixes, by kernels.

    The heads and units of the (prefix, token) pairs are not stored. The backward pass computes them again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        kernels: ModuleType,
        scores: Tensor,
        v: Tensor,
        mapped: Tensor,
        units: Tensor,
        *more: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return heads (R, h, M, d) and fired (R, M, ff).

        Parameters
        ----------
        kernels
            Module of kernels.
        scores
            (R, h, M, M) scaled products of key j and query s.
        v
            (R, h, M, d) values.
        mapped
            (R, h, M, ff) contributions of the values to the units.
        units
            (R, M, ff) contributions of the samples to the units.
        more
            If the tokens are normalized, the tensors of `TokenVariance.for_kernels`.
        """
        inputs = [tensor.detach().contiguous() for tensor in (scores, v, mapped, units, *more)]
        rows, samples = units.shape[:2]
        heads, fired = torch.empty_like(inputs[1]), torch.empty_like(inputs[3])
        scales = [units.new_empty(rows, samples * kernels.padded(samples))] if more else []
        _run(kernels.forward, *inputs, heads, fired, *scales)
        ctx.save_for_backward(*inputs, *scales)
        ctx.kernels, ctx.inputs = kernels, len(inputs)
        return heads, fired

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_heads: Tensor, d_fired: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the inputs."""
        saved = ctx.saved_tensors  # the inputs, and the scales if the tokens are normalized
        gradients = [torch.empty_like(tensor) for tensor in saved[: ctx.inputs]]
        _run(ctx.kernels.backward, *saved, d_heads.contiguous(), d_fired.contiguous(), *gradients)
        return None, *gradients


def _run(kernel: Callable[..., None], *tensors: Tensor) -> None:
    """Run a kernel over the rows. The work per row is proportional to the number of (prefix, token) pairs."""
    rows, heads, samples, size = tensors[2].shape
    in_threads(kernel, rows, samples * samples * heads * size, *[tensor.numpy() for tensor in tensors])
