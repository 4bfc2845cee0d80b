"""Attention inside every prefix of a window, summed over its tokens.

A sample in a prefix of i samples attends to those i alone, so each (token, prefix) pair has its own
outcome; but the scores q·k are shared by all prefixes, so with running sums of e·v and e over the samples
the outcomes of all prefixes cost no more than those of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from stopwise.nets.kernels import kernels_for, spread

FEW = 2  # prefix lengths: up to here one attention for each is the fastest
BLOCK = 1 << 19  # elements of a pair tensor at a time: they stay in the cache and are never stored


def pool_prefixes(
    q: Tensor, k: Tensor, v: Tensor, units: Tensor, expand: Tensor, lengths: range
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

    Returns
    -------
    heads, fired
        (R, lengths, h·d) and (R, lengths, ff): Σ_s a_s and Σ_s relu(units_s + expand a_s).
    """
    every = len(lengths) > FEW and lengths == range(1, q.shape[2] + 1)
    kernels = kernels_for("prefix_kernels", q, k, v, units, expand) if every else None
    if kernels:
        scores = k @ q.transpose(2, 3) / math.sqrt(q.shape[3])  # (R, h, M, M), tokens innermost
        values = v.transpose(1, 2).flatten(2)  # (R, M, h·d)
        return PrefixSums.apply(scores, values, units.transpose(1, 2), expand, kernels)
    heads, fired = [], []
    for i in lengths:
        mixed = F.scaled_dot_product_attention(q[:, :, :i], k[:, :, :i], v[:, :, :i])  # (R, h, i, d)
        mixed = mixed.transpose(1, 2).flatten(2)  # (R, i, h·d)
        heads.append(mixed.sum(1))
        fired.append(torch.relu(units[:, :i] + F.linear(mixed, expand)).sum(1))
    return torch.stack(heads, dim=1), torch.stack(fired, dim=1)


class Windows(torch.autograd.Function):
    """Windows of a series, as `Tensor.unfold`, whose own backward pass is ten times slower."""

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
    """The sums of `pool_prefixes` for all prefixes, by kernels over blocks of rows.

    Pairs exist for one block at a time; the backward pass makes them again.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, v: Tensor, units: Tensor, expand: Tensor, kernels: ModuleType
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
        scores, v, units = scores.contiguous(), v.contiguous(), units.contiguous()
        heads = torch.empty_like(v)
        fired = v.new_empty(*v.shape[:2], len(expand))
        for pairs in _blocks(kernels, scores, v, expand, heads):
            pairs.spread(kernels.fire, pairs.hidden, units, fired)
        ctx.save_for_backward(scores, v, units, expand)
        ctx.kernels = kernels
        return heads, fired

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_heads: Tensor, d_fired: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        """Return the gradients of scores, v, units and expand."""
        scores, v, units, expand = ctx.saved_tensors
        d_heads, d_fired = d_heads.contiguous(), d_fired.contiguous()
        d_scores, d_v, d_units = torch.empty_like(scores), torch.empty_like(v), torch.empty_like(units)
        d_expand = torch.zeros_like(expand)
        for pairs in _blocks(ctx.kernels, scores, v, expand, torch.empty_like(v)):
            pairs.spread(ctx.kernels.unfire, pairs.hidden, units, d_fired, d_units)
            d_expand += torch.bmm(pairs.hidden, pairs.mixed.transpose(1, 2)).sum(0)
            d_mixed = _product(expand.t(), pairs.hidden)  # (rows, h·d, pairs)
            softmax = (pairs.e, pairs.fade, pairs.den)
            pairs.spread(ctx.kernels.unmix, v, *softmax, pairs.mixed, d_mixed, d_heads, d_scores, d_v)
        return d_scores, d_v, d_units, d_expand, None


class _Pairs(NamedTuple):
    """The (prefix, token) pairs of a block of rows; see `prefix_kernels` for their order."""

    first: int  # row of the block
    e: Tensor  # (rows, h, M, M') weights of the samples, fading factors and sums of weights
    fade: Tensor
    den: Tensor
    mixed: Tensor  # (rows, h·d, pairs) what the attention gives
    hidden: Tensor  # (rows, ff, pairs) what that gives to the units

    def spread(self, kernel: Callable[..., None], *tensors: Tensor) -> None:
        """Run a kernel over the rows of the block."""
        arrays = [tensor.detach().numpy() for tensor in tensors]
        spread(kernel, len(self.mixed), self.mixed[0].numel(), self.first, *arrays)


def _blocks(
    kernels: ModuleType, scores: Tensor, v: Tensor, expand: Tensor, heads: Tensor
) -> Iterator[_Pairs]:
    """Yield the pairs of a block of rows after the other, in the same memory; write heads (R, M, h·d)."""
    rows, samples, width = v.shape
    count = samples * (samples + 1) // 2
    block = min(rows, max(1, BLOCK // (count * width)))
    wide = -(-samples // 8) * 8
    softmax = v.new_empty(3, block, scores.shape[1], samples, wide)
    mixed, hidden = v.new_empty(block, width, count), v.new_empty(block, len(expand), count)
    for first in range(0, rows, block):
        some = slice(min(block, rows - first))
        e, fade, den = softmax[:, some]
        pairs = _Pairs(first, e, fade, den, mixed[some], hidden[some])
        pairs.spread(kernels.mix, scores, v, e, fade, den, pairs.mixed, heads)
        _product(expand, pairs.mixed, out=pairs.hidden)
        yield pairs


def _product(matrix: Tensor, pairs: Tensor, out: Tensor | None = None) -> Tensor:
    """Return matrix @ pairs for each row; `torch.matmul` would copy a transposed one."""
    return torch.bmm(matrix.expand(len(pairs), *matrix.shape), pairs, out=out)
