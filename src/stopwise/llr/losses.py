"""Losses averaged by class: LSEL, LLLR and the multiplet cross-entropy.

Each loss is averaged over the steps of a series, then over the series of a class, then over the classes.
Whatever the class counts, the logits are therefore those of posteriors under a uniform prior, and their
differences are log-likelihood ratios. Padded steps are excluded.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def lsel(scores: Tensor, y: Tensor, lengths: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Compute the log-sum-exponential loss (LSEL), ``log(1 + Σ_{l≠y} exp(−λ_yl))``.

    This is the softmax cross-entropy of the scores.

    Parameters
    ----------
    scores
        (B, T, K) scores.
    y
        (B,) class indices.
    lengths
        (B,) lengths of the series; None if all have T steps.
    weight
        (B,) weights of the series. The loss is the weighted sum over the series. None weights all classes of
        this batch equally.

    Returns
    -------
    loss
        Scalar tensor.

    Examples
    --------
    >>> import torch
    >>> lsel(torch.zeros(1, 3, 2), torch.tensor([0]))  # the loss of two equal scores is log 2
    tensor(0.6931)
    """
    inside = inside_steps(scores, lengths)
    losses = _cross_entropy(_zero_outside(scores, inside), y)  # (B, T)
    return _mean(losses, inside, y, scores.shape[-1], weight)


def lllr(scores: Tensor, y: Tensor, lengths: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Compute the loss for log-likelihood-ratio estimation (LLLR), the mean over l≠y of ``σ(−λ_yl)``.

    Parameters
    ----------
    scores, y, lengths, weight
        As for `lsel`.

    Returns
    -------
    loss
        Scalar tensor.

    Examples
    --------
    >>> import torch
    >>> lllr(torch.zeros(1, 3, 2), torch.tensor([0]))
    tensor(0.5000)
    """
    classes, inside = scores.shape[-1], inside_steps(scores, lengths)
    scores = _zero_outside(scores, inside)
    own = scores.gather(-1, y[:, None, None].expand(-1, scores.shape[1], 1))  # (B, T, 1)
    # The sum includes the term for l = y, which is σ(0) = 1/2. Subtract it.
    losses = (torch.sigmoid(scores - own).sum(-1) - 0.5) / (classes - 1)  # (B, T)
    return _mean(losses, inside, y, classes, weight)


def multiplet_cross_entropy(
    logits: Tensor,
    y: Tensor,
    lengths: Tensor | None = None,
    weight: Tensor | None = None,
    stride: int = 1,
) -> Tensor:
    """Compute the cross-entropy of every prefix of every window (every *multiplet*) against the label.

    Parameters
    ----------
    logits
        (B, W, M, K) logits of the prefixes of 1..M samples of W windows. With stride 1, the windows start at
        steps 1..W.
    y, lengths, weight
        As for `lsel`. Windows that extend beyond the end of their series are excluded. A series shorter than
        one window contributes the prefixes it has.
    stride
        Number of steps from the start of one window to the start of the next.

    Returns
    -------
    loss
        Scalar tensor.

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
    """Return weights (B,) that sum to 1 and give every class in `y` the same total weight.

    Parameters
    ----------
    y
        (B,) class indices.
    classes
        K, the number of classes.
    dtype
        Type of the weights.

    Examples
    --------
    >>> import torch
    >>> class_weights(torch.tensor([0, 0, 1]), 2)
    tensor([0.2500, 0.2500, 0.5000])
    """
    counts = torch.bincount(y, minlength=classes)
    return (counts[y] * (counts > 0).sum()).to(dtype).reciprocal()


def inside_steps(scores: Tensor, lengths: Tensor | None) -> Tensor | None:
    """Return the mask (B, T) of the steps inside each series, or None if `lengths` is None.

    Parameters
    ----------
    scores
        (B, T, ...) tensor, of which only the shape and the device are used.
    lengths
        (B,) lengths of the series, or None.

    Examples
    --------
    >>> import torch
    >>> inside_steps(torch.zeros(2, 3, 2), torch.tensor([3, 1])).tolist()
    [[True, True, True], [True, False, False]]
    """
    if lengths is None:
        return None
    return torch.arange(scores.shape[1], device=scores.device) < lengths[:, None]


def inside_windows(logits: Tensor, lengths: Tensor | None, stride: int = 1) -> Tensor | None:
    """Return the mask (B, W, M) of the multiplets inside each series, or None if `lengths` is None.

    Parameters
    ----------
    logits
        (B, W, M, ...) tensor, of which only the shape and the device are used.
    lengths
        (B,) lengths of the series, or None.
    stride
        Number of steps from the start of one window to the start of the next.

    Examples
    --------
    >>> import torch
    >>> inside_windows(torch.zeros(1, 3, 2, 2), torch.tensor([3])).tolist()
    [[[True, True], [True, True], [False, False]]]
    """
    if lengths is None:
        return None
    windows, samples = logits.shape[1:3]
    start = stride * torch.arange(windows, device=logits.device)[None, :, None]  # (1, W, 1)
    position = torch.arange(samples, device=logits.device)
    length = lengths[:, None, None]  # (B, 1, 1)
    return (start <= (length - samples).clamp(min=0)) & (start + position < length)


def _zero_outside(logits: Tensor, inside: Tensor | None) -> Tensor:
    """Return logits (B, ..., K) with the padding set to 0. The padding may be infinite or NaN.

    Setting the losses to 0 is not enough: the gradient would be 0 times infinity, which is NaN.
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
