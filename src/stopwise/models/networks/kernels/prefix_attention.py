"""Attention inside every prefix of a window, summed over its tokens.

A sample in a prefix of i samples attends to those i alone, so each (token, prefix) pair has its own
outcome; but the scores q·k are shared by all prefixes, so with running sums of e·v and e over the samples
the outcomes of all prefixes cost no more than those of one.
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

FEW = 2  # prefix lengths: up to here one attention for each is the fastest


class TokenVariance(NamedTuple):
    """The variance of a token y + O a, D wide, from its heads a alone.

    With C subtracting the mean over the D components, it is (|Cy|² + 2 (Oᵀ C y)·a + aᵀ (Oᵀ C O) a) / D.

    Parameters
    ----------
    own, cross
        (R, M, 1) and (R, M, h·d): |Cy|² / D + ε and 2 Oᵀ C y / D of each token.
    square
        (h·d, h·d) Oᵀ C O / D.
    bias
        (ff,) what each unit gets after the division by the root of the variance.
    """

    own: Tensor
    cross: Tensor
    square: Tensor
    bias: Tensor

    def normalize(self, units: Tensor, heads: Tensor) -> Tensor:
        """Return what reaches the units (R, i, ff) of the first i tokens, given their heads (R, i, h·d)."""
        i = heads.shape[1]
        change = ((self.cross[:, :i] + F.linear(heads, self.square)) * heads).sum(2, keepdim=True)
        # Rounding must not make a variance that the heads take away negative.
        variance = (self.own[:, :i] + change).clamp(min=torch.finfo(heads.dtype).tiny)
        return units * variance.rsqrt() + self.bias


def pool_prefixes(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    units: Tensor,
    expand: Tensor,
    lengths: range,
    variance: TokenVariance | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the sums over a prefix's tokens of the heads and of the fired feed-forward units.

    Parameters
    ----------
    q, k, v
        (R, h, M, d) queries, keys and values of the M samples of R windows.
    units
        (R, M, ff) what the sample itself gives to each unit.
    expand
        (ff, h·d) what the attention's heads give to each unit.
    lengths
        The prefix lengths wanted.
    variance
        Given, the units are those of normalized tokens: `units` and `expand` come of centred ones.

    Returns
    -------
    heads, fired
        (R, lengths, h·d) and (R, lengths, ff): Σ_s a_s and Σ_s relu(units_s + expand a_s).
    """
    every = variance is None and len(lengths) > FEW and lengths == range(1, q.shape[2] + 1)
    kernels = kernels_for("fused_prefix", q, k, v, units, expand) if every else None
    if kernels:
        scores = k @ q.transpose(2, 3) / math.sqrt(q.shape[3])  # (R, h, M, M), tokens innermost
        values = v.transpose(1, 2).flatten(2)  # (R, M, h·d)
        return PrefixSums.apply(scores, values, units.transpose(1, 2), expand, kernels)
    heads, fired = [], []
    for i in lengths:
        mixed = F.scaled_dot_product_attention(q[:, :, :i], k[:, :, :i], v[:, :, :i])  # (R, h, i, d)
        mixed = mixed.transpose(1, 2).flatten(2)  # (R, i, h·d)
        reached = units[:, :i] + F.linear(mixed, expand)
        heads.append(mixed.sum(1))
        fired.append(torch.relu(variance.normalize(reached, mixed) if variance else reached).sum(1))
    return torch.stack(heads, dim=1), torch.stack(fired, dim=1)


class Windows(torch.autograd.Function):
    """Windows of a series, as `Tensor.unfold`, with a backward pass that adds slices."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, samples: int) -> Tensor:
        """Return the windows (B, W, M, n) of x (B, T, n)."""
        ctx.steps = x.shape[1]
        return x.unfold(1, samples, 1).transpose(2, 3).clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_windows: Tensor) -> tuple[Tensor, None]:
        """Add what the windows ask of the sample they share."""
        batch, windows, samples, size = d_windows.shape
        if windows == 1:
            return d_windows[:, 0], None
        d_x = d_windows.new_zeros(batch, ctx.steps, size)
        for m in range(samples):
            d_x[:, m : m + windows] += d_windows[:, :, m]
        return d_x, None


class PrefixSums(torch.autograd.Function):
    """The sums of `pool_prefixes` for all prefixes, by kernels that keep no pairs: backward remakes them."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        v: Tensor,
        units: Tensor,
        expand: Tensor,
        kernels: ModuleType,
    ) -> tuple[Tensor, Tensor]:
        """Return heads (R, M, h·d) and fired (R, M, ff).

        Parameters
        ----------
        scores
            (R, h, M, M) scaled products of key j and query s.
        v
            (R, M, h·d) values.
        units, expand
            (R, ff, M) and (ff, h·d).
        kernels
            The module of kernels.
        """
        inputs = [tensor.detach().contiguous() for tensor in (scores, v, units, expand)]
        heads = torch.empty_like(inputs[1])
        fired = v.new_empty(*v.shape[:2], len(expand))
        _run(kernels.forward, *inputs, heads, fired)
        ctx.save_for_backward(*inputs)
        ctx.kernels = kernels
        return heads, fired

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_heads: Tensor, d_fired: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        """Return the gradients of scores, v, units and expand."""
        scores, v, units, expand = ctx.saved_tensors
        asked = d_heads.contiguous(), d_fired.contiguous()
        d_scores, d_v, d_units = (
            torch.empty_like(scores),
            torch.empty_like(v),
            torch.empty_like(units),
        )
        d_expand = expand.new_empty(len(v), *expand.shape)
        gradients = d_scores, d_v, d_units, d_expand
        _run(
            ctx.kernels.backward,
            scores,
            v,
            units,
            expand,
            expand.t().contiguous(),
            *asked,
            *gradients,
        )
        return d_scores, d_v, d_units, d_expand.sum(0), None


def _run(kernel: Callable[..., None], scores: Tensor, v: Tensor, *others: Tensor) -> None:
    """Run a kernel over the rows, whose work is in their (prefix, token) pairs."""
    rows, samples, width = v.shape
    arrays = [tensor.numpy() for tensor in (scores, v, *others)]
    in_threads(kernel, rows, samples * samples * width, *arrays)
