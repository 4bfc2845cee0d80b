"""The losses: LSEL, LLLR and the multiplet cross-entropy, each averaged by class.

Each loss is averaged over the steps of a series, then over the series of a class, then over the classes.
The logits are therefore posteriors under a uniform prior, whatever the class counts, and their differences
are log-likelihood ratios. Padded steps are excluded.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def lsel(scores: Tensor, y: Tensor, lengths: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Log-sum-exponential loss, log(1 + Σ_{l≠y} exp(−λ_yl)): softmax cross-entropy on the scores.

    Parameters
    ----------
    scores
        (B, T, K) scores.
    y
        (B,) class indices.
    lengths
        (B,) lengths of the series; None means all have T steps.
    weight
        (B,) weights of the series: the loss is their weighted sum. None means the mean by class of this
        batch.

    Examples
    --------
    >>> import torch
    >>> lsel(torch.zeros(1, 3, 2), torch.tensor([0]))  # equal scores cost log 2
    tensor(0.6931)
    """
    inside = inside_steps(scores, lengths)
    losses = _cross_entropy(_zero_outside(scores, inside), y)  # (B, T)
    return _mean(losses, inside, y, scores.shape[-1], weight)


def lllr(scores: Tensor, y: Tensor, lengths: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Loss for log-likelihood-ratio estimation: the mean over l≠y of σ(−λ_yl).

    Parameters are those of `lsel`.

    Examples
    --------
    >>> import torch
    >>> lllr(torch.zeros(1, 3, 2), torch.tensor([0]))
    tensor(0.5000)
    """
    classes, inside = scores.shape[-1], inside_steps(scores, lengths)
    scores = _zero_outside(scores, inside)
    own = scores.gather(-1, y[:, None, None].expand(-1, scores.shape[1], 1))  # (B, T, 1)
    # The sum includes the term l = y, σ(0) = 1/2, which is subtracted.
    losses = (torch.sigmoid(scores - own).sum(-1) - 0.5) / (classes - 1)  # (B, T)
    return _mean(losses, inside, y, classes, weight)


def multiplet_cross_entropy(
    logits: Tensor,
    y: Tensor,
    lengths: Tensor | None = None,
    weight: Tensor | None = None,
    stride: int = 1,
) -> Tensor:
    """Cross-entropy of every prefix of every window (every *multiplet*) against the label.

    Parameters
    ----------
    logits
        (B, W, M, K): prefixes of 1..M samples of the windows that start at step 1..W.
    y, lengths, weight
        As for `lsel`. Windows that extend beyond their series are excluded; a series shorter than one
        window contributes the prefixes it has.
    stride
        Number of steps from the start of one window to the start of the next.

    Examples
    --------
    >>> import torch
    >>> multiplet_cross_entropy(torch.zeros(1, 4, 2, 2), torch.tensor([1]))
    tensor(0.6931)
    """
    inside = inside_windows(logits, lengths, stride)
    losses = _cross_entropy(_zero_outside(logits, inside), y)  # (B, W, M)
    return _mean(losses, inside, y, logits.shape[-1], weight)


def class_weights(y: Tensor, classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return weights (B,) that sum to 1 and give every class in `y` the same total.

    Examples
    --------
    >>> import torch
    >>> class_weights(torch.tensor([0, 0, 1]), 2)
    tensor([0.2500, 0.2500, 0.5000])
    """
    counts = torch.bincount(y, minlength=classes)
    return (counts[y] * (counts > 0).sum()).to(dtype).reciprocal()


def inside_steps(scores: Tensor, lengths: Tensor | None) -> Tensor | None:
    """Return the mask (B, T) of the steps inside each series; None if `lengths` is None."""
    if lengths is None:
        return None
    return torch.arange(scores.shape[1], device=scores.device) < lengths[:, None]


def inside_windows(logits: Tensor, lengths: Tensor | None, stride: int = 1) -> Tensor | None:
    """Return the mask (B, W, M) of the multiplets inside each series; None if `lengths` is None.

    `stride` is the number of steps from the start of one window to the next.
    """
    if lengths is None:
        return None
    windows, samples = logits.shape[1:3]
    start = stride * torch.arange(windows, device=logits.device)[None, :, None]  # (1, W, 1)
    position = torch.arange(samples, device=logits.device)
    length = lengths[:, None, None]  # (B, 1, 1)
    return (start <= (length - samples).clamp(min=0)) & (start + position < length)


def _zero_outside(logits: Tensor, inside: Tensor | None) -> Tensor:
    """Return logits (B, ..., K) with padding, which may be infinite or NaN, set to 0.

    Setting the losses to 0 would not be enough: the gradient would be 0 times infinity, which is NaN.
    """
    return logits if inside is None else torch.where(inside[..., None], logits, 0.0)


def _cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropies (B, ...) of logits (B, ..., K) against y (B,)."""
    target = y.reshape(-1, *[1] * (logits.ndim - 2)).expand(logits.shape[:-1])
    flat = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1), reduction="none")
    return flat.reshape(logits.shape[:-1])


def _mean(losses: Tensor, inside: Tensor | None, y: Tensor, classes: int, weight: Tensor | None) -> Tensor:
    """Return the mean over the steps of each series, then the weighted sum over the series."""
    losses = losses.flatten(1)  # (B, steps)
    if inside is None:
        per_series = losses.mean(1)
    else:
        inside = inside.flatten(1)
        per_series = (losses * inside).sum(1) / inside.sum(1)
    weight = class_weights(y, classes, losses.dtype) if weight is None else weight
    return (per_series * weight.to(losses.dtype)).sum()


LOSSES = {"lsel": lsel, "lllr": lllr}
