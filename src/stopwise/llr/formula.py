"""The TANDEM and Oblivion formulas: from the logits of windows to the scores of prefixes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class WindowLogits(NamedTuple):
    """Logits of the windows that the formulas use, for Markov order N on series of T steps.

    Parameters
    ----------
    prefix
        (B, min(T, N+1), K): the first 1, 2, …, N+1 samples.
    full
        (B, T−N−1, K): the windows of N+1 samples that end at step N+2, …, T.
    short
        (B, T−N−1, K): the same windows without their last sample. For N=0 these windows are empty and
        their logits are the log prior, which is 0 under class-balanced training.
    multiplets
        (B, W, min(T, N+1), K), or None if not computed: every prefix of each of the W = max(T−N, 1)
        windows of N+1 samples.
    """

    prefix: Tensor
    full: Tensor
    short: Tensor
    multiplets: Tensor | None = None


def tandem(logits: WindowLogits) -> Tensor:
    """Return the scores (B, T, K) by the TANDEM formula.

    S(t) = prefix(t) up to t = N+1, and from then on S(t) = S(t−1) + full(t) − short(t).

    Examples
    --------
    With order 0 the logits of single samples add up:

    >>> import torch
    >>> single = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]])  # one series, T=3, K=2
    >>> tandem(WindowLogits(single[:, :1], single[:, 1:], torch.zeros(1, 2, 2)))[0, :, 0]
    tensor([1., 3., 6.])
    """
    later = logits.prefix[:, -1:] + torch.cumsum(logits.full - logits.short, dim=1)  # (B, T-N-1, K)
    return torch.cat([logits.prefix, later], dim=1)


def oblivion(logits: WindowLogits) -> Tensor:
    """Return the scores (B, T, K) by the Oblivion formula: the logits of the newest window.

    S(t) = prefix(t) up to t = N+1, and from then on S(t) = full(t): older evidence is forgotten.

    Examples
    --------
    >>> import torch
    >>> single = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]])
    >>> oblivion(WindowLogits(single[:, :1], single[:, 1:], torch.zeros(1, 2, 2)))[0, :, 0]
    tensor([1., 2., 3.])
    """
    return torch.cat([logits.prefix, logits.full], dim=1)


FORMULAS = {"tandem": tandem, "oblivion": oblivion}
