"""Encoding frames as series of features."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from stopwise.atomic import atomic_write
from stopwise.features.fitting import device_of, output_dim
from stopwise.features.frames import Frames
from stopwise.progress import Reporter
from stopwise.validation import check_integer, inside


def encode(
    encoder: nn.Module,
    frames: Any,
    *,
    lengths: Any = None,
    batch_size: int = 256,
    out: str | os.PathLike[str] | None = None,
    progress: bool | str = "auto",
) -> np.ndarray:
    """Compute the features of every frame.

    Parameters
    ----------
    encoder
        An encoder trained by `fit_encoder`, or any torch module that maps frames (B, C, H, W) to features
        (B, d). The features are computed on its device.
    frames
        (n, T, H, W) or (n, T, H, W, C), uint8 (scaled to [0, 1]) or float: an array, a memory map, or an
        object with `shape`, `dtype` and indexing by rows, such as `datasets.NosaicSeries`.
    lengths
        (n,) numbers of frames, for padded series. If None, all series have T frames.
    batch_size
        Number of frames per batch.
    out
        A ``.npy`` file to write to, for features larger than memory. It is written atomically. If None, the
        features are kept in memory.
    progress
        Whether to report progress. True shows a bar on a terminal and prints lines elsewhere; "auto" shows a
        bar on a terminal only; False shows nothing.

    Returns
    -------
    features
        (n, T, d) float32, zero after the end of a series; a read-only memory map if `out` is given.

    Examples
    --------
    >>> from stopwise.features import SmallCNN
    >>> encode(SmallCNN(1, 8, 8, dim=3), np.zeros((4, 6, 8, 8), np.uint8)).shape
    (4, 6, 3)
    """
    videos = Frames(frames, lengths)
    check_integer("batch_size", batch_size, 1)
    was_training = encoder.training
    encoder.eval()
    try:
        shape = (len(videos), videos.steps, output_dim(encoder, videos))
        if out is None:
            features = np.zeros(shape, np.float32)
            _fill(features, encoder, videos, batch_size, progress)
            return features
        path = Path(out)
        if path.suffix != ".npy":
            raise ValueError(f"`out` must be the name of a .npy file; got {str(out)!r}.")
        with atomic_write(path) as [temporary]:
            mapped = np.lib.format.open_memmap(temporary, "w+", np.float32, shape)
            _fill(mapped, encoder, videos, batch_size, progress)
            mapped.flush()
        return np.load(path, mmap_mode="r", allow_pickle=False)
    finally:
        encoder.train(was_training)


@torch.inference_mode()
def _fill(
    features: np.ndarray, encoder: nn.Module, videos: Frames, batch_size: int, show: bool | str
) -> None:
    """Write the features of all frames, without padding, into an array of zeros (n, T, d)."""
    device = device_of(encoder)
    # Whole series at once, because generated series can only be read as a whole.
    block = max(1, batch_size // videos.steps)
    with Reporter("encoding frames", len(videos), show) as reporter:
        for start in range(0, len(videos), block):
            own = np.arange(start, min(start + block, len(videos)))
            rows, times = np.nonzero(inside(videos.lengths[own], videos.steps))
            for first in range(0, len(rows), batch_size):
                part = slice(first, first + batch_size)
                x = videos.read(own[rows[part]], times[part]).to(device)
                features[own[rows[part]], times[part]] = encoder(x).to("cpu", torch.float32).numpy()
            reporter.advance(steps=len(own))
