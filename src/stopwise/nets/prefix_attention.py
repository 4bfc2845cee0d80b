"""Attention inside every prefix of a window, summed over its tokens.

A sample in a prefix of i samples attends to those i alone, so each (token, prefix) pair has its own
outcome; queries, keys and values are shared by all prefixes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def pool_prefixes(
    q: Tensor, k: Tensor, v: Tensor, units: Tensor, expand: Tensor, lengths: range, dropout: nn.Module
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
    dropout
        Applied to the heads and to the fired units.

    Returns
    -------
    heads, fired
        (R, lengths, h·d) and (R, lengths, ff): Σ_s a_s and Σ_s relu(units_s + expand a_s).
    """
    heads, fired = [], []
    for i in lengths:
        mixed = F.scaled_dot_product_attention(q[:, :, :i], k[:, :, :i], v[:, :, :i])  # (R, h, i, d)
        mixed = dropout(mixed.transpose(1, 2).flatten(2))  # (R, i, h·d)
        heads.append(mixed.sum(1))
        fired.append(dropout(torch.relu(units[:, :i] + F.linear(mixed, expand))).sum(1))
    return torch.stack(heads, dim=1), torch.stack(fired, dim=1)
