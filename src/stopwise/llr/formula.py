"""TANDEM and Oblivion formulas, which combine the logits of windows into scores of prefixes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class WindowLogits(NamedTuple):
    """Logits of the windows that the formulas use, for Markov order N and series of T steps.

    Parameters
    ----------
    prefix
        (B, min(T, N+1), K) logits of the first 1, 2, …, N+1 samples.
    full
        (B, T−N−1, K) logits of the windows of N+1 samples that end at step N+2, …, T.
    short
        (B, T−N−1, K) logits of the same windows without their last sample. For N=0 these windows are empty
        and their logits are the log prior, which is 0 under class-balanced training.
    multiplets
        (B, W, min(T, N+1), K) logits of every prefix of each of the W = max(T−N, 1) windows of N+1 samples;
        None if not computed.

    Examples
    --------
    Order 0 on one series of three steps with two classes: each window is a single sample.

    >>> import torch
    >>> single = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]])
    >>> logits = WindowLogits(prefix=single[:, :1], full=single[:, 1:], short=torch.zeros(1, 2, 2))
    >>> logits.full.shape
    torch.Size([1, 2, 2])
    """

    prefix: Tensor
    full: Tensor
    short: Tensor
    multiplets: Tensor | None = None


def tandem(logits: WindowLogits) -> Tensor:
    """Compute the scores by the TANDEM formula.

    S(t) = prefix(t) for t ≤ N+1, and S(t) = S(t−1) + full(t) − short(t) for later steps.

    Parameters
    ----------
    logits
        Logits of the windows.

    Returns
    -------
    scores
        (B, T, K) scores.

    Examples
    --------
    With order 0, the score is the sum of the logits of single samples:

    >>> import torch
    >>> single = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]])  # one series, T=3, K=2
    >>> tandem(WindowLogits(single[:, :1], single[:, 1:], torch.zeros(1, 2, 2)))[0, :, 0]
    tensor([1., 3., 6.])
    """
    later = logits.prefix[:, -1:] + torch.cumsum(logits.full - logits.short, dim=1)  # (B, T-N-1, K)
    return torch.cat([logits.prefix, later], dim=1)


def oblivion(logits: WindowLogits) -> Tensor:
    """Compute the scores by the Oblivion formula: the logits of the newest window.

    S(t) = prefix(t) for t ≤ N+1, and S(t) = full(t) for later steps. Samples before the window are ignored.

    Parameters
    ----------
    logits
        Logits of the windows.

    Returns
    -------
    scores
        (B, T, K) scores.

    Examples
    --------
    >>> import torch
    >>> single = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]])
    >>> oblivion(WindowLogits(single[:, :1], single[:, 1:], torch.zeros(1, 2, 2)))[0, :, 0]
    tensor([1., 2., 3.])
    """
    return torch.cat([logits.prefix, logits.full], dim=1)


FORMULAS = {"tandem": tandem, "oblivion": oblivion}
