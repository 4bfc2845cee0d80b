"""Reuse of large buffers, because new memory costs one page fault per four kilobytes.

Each training step needs buffers of the same sizes as the one before it, and freed large blocks are returned
to the operating system immediately.
"""

from __future__ import annotations

import math
from threading import Lock

from torch import Tensor

MOST = 4  # maximum number of buffers to keep; the newest are kept
_spare: list[Tensor] = []
_lock = Lock()


def take(like: Tensor, *shape: int) -> Tensor:
    """Return an uninitialized tensor with the type and device of `like`.

    Parameters
    ----------
    like
        Tensor that determines the type and the device.
    shape
        Shape of the result.

    Examples
    --------
    >>> import torch
    >>> take(torch.zeros(1), 2, 3).shape
    torch.Size([2, 3])
    """
    size = math.prod(shape)
    with _lock:
        for place, spare in enumerate(_spare):
            if spare.numel() == size and spare.dtype == like.dtype and spare.device == like.device:
                return _spare.pop(place).view(shape)
    return like.new_empty(shape)


def give(tensor: Tensor) -> None:
    """Release a tensor for reuse. It must not be read again."""
    with _lock:
        _spare.append(tensor.view(-1))
        del _spare[:-MOST]
