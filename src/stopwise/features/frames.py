"""A common interface to frames: arrays, memory maps, and series that are generated when they are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from stopwise.validation import check_lengths


class Frames:
    """n series of up to T frames, which are read on demand.

    Parameters
    ----------
    frames
        (n, T, H, W) or (n, T, H, W, C), uint8 or float: an array, a memory map, or any object with `shape`,
        `dtype` and indexing by integer arrays. It is neither copied nor changed.
    lengths
        (n,) numbers of frames, for padded series; None: all series have T frames.
    name
        Name of the argument, for error messages.

    Examples
    --------
    >>> video = Frames(np.zeros((5, 20, 32, 24, 3), np.uint8))
    >>> len(video), video.steps, video.frame_shape
    (5, 20, (3, 32, 24))
    >>> video.read(np.array([0, 4]), np.array([1, 19])).shape
    torch.Size([2, 3, 32, 24])
    """

    def __init__(self, frames: Any, lengths: Any = None, name: str = "frames") -> None:
        if not (hasattr(frames, "shape") and isinstance(getattr(frames, "dtype", None), np.dtype)):
            frames = np.asarray(frames)
        shape = tuple(frames.shape)
        if len(shape) not in (4, 5) or 0 in shape:
            raise ValueError(
                f"`{name}` must have shape (n, T, H, W) or (n, T, H, W, C): series, frames, height, width, "
                f"channels, none of them 0; got shape {shape}. For a single video, pass frames[None]."
            )
        if frames.dtype != np.uint8 and frames.dtype.kind != "f":
            raise TypeError(
                f"`{name}` must be uint8 (0..255) or float; got dtype {frames.dtype}. Convert with astype."
            )
        self._data, self._name = frames, name
        self.is_bytes = frames.dtype == np.uint8
        self.steps = shape[1]
        self.frame_shape: tuple[int, int, int] = (shape[4] if len(shape) == 5 else 1, shape[2], shape[3])
        self.lengths = check_lengths(lengths, shape[0], self.steps)

    def __len__(self) -> int:
        return len(self.lengths)

    def read(self, rows: np.ndarray, times: np.ndarray) -> Tensor:
        """Return frames (B, C, H, W), float32, at rows (B,) and times (B,); uint8 is scaled to 0..1."""
        if isinstance(self._data, np.ndarray):
            part = self._data[rows, times]  # (B, H, W[, C])
        else:  # generated series can be indexed by row only
            distinct, inverse = np.unique(rows, return_inverse=True)
            part = np.asarray(self._data[distinct])[inverse, times]
        part = part.reshape(len(rows), *self._data.shape[2:4], -1)  # (B, H, W, C)
        x = torch.from_numpy(np.ascontiguousarray(np.moveaxis(part, 3, 1)))
        if x.dtype == torch.uint8:
            return x.to(torch.float32).div_(255)
        x = x.to(torch.float32)
        if not torch.isfinite(x.sum()) and not torch.isfinite(x).all():
            bad = int(rows[(~torch.isfinite(x)).flatten(1).any(1).numpy().argmax()])
            raise ValueError(
                f"`{self._name}` must be finite; series {bad} contains NaN or infinity. Replace these values."
            )
        return x
