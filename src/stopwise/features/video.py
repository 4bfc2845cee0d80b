"""Videos as pictures: decoding, choosing frames, resizing, cropping."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import interpolate

from stopwise.validation import check_integer

BROKEN_SHARE = 0.1  # a video of which more is damaged is not used


class VideoError(ValueError):
    """A file that holds no video that can be decoded."""


@dataclass(frozen=True)
class Sampling:
    """Which frames of a video to take, and at which size.

    Parameters
    ----------
    frames
        T, how many frames to take at most. A video with fewer keeps all it has.
    stride
        None: the frames are spread evenly over the whole video. A number s: every s-th frame from the start,
        as one can do while the video is still arriving.
    size
        Side of the pictures in pixels.
    short_side
        The shorter side is resized to this many pixels and the middle is cut out; None: `size` × 8 / 7, as
        networks for ImageNet expect.

    Examples
    --------
    >>> Sampling(frames=4).places(10).tolist()
    [1, 3, 6, 8]
    >>> Sampling(frames=4, stride=2).places(10).tolist()
    [0, 2, 4, 6]
    >>> Sampling(size=224).resized
    256
    """

    frames: int = 50
    stride: int | None = None
    size: int = 224
    short_side: int | None = None

    def __post_init__(self) -> None:
        check_integer("frames", self.frames, 1)
        check_integer("size", self.size, 8)
        if self.stride is not None:
            check_integer("stride", self.stride, 1)
        if self.short_side is not None:
            check_integer("short_side", self.short_side, self.size)

    @property
    def resized(self) -> int:
        """The length of the shorter side before the middle is cut out."""
        return round(self.size * 8 / 7) if self.short_side is None else self.short_side

    def places(self, total: int) -> np.ndarray:
        """Return the places (t,), t <= T, of the frames to take of `total`: the middles of T equal parts."""
        if self.stride is not None:
            return np.arange(0, total, self.stride)[: self.frames]
        if total <= self.frames:
            return np.arange(total)
        return ((2 * np.arange(self.frames) + 1) * total) // (2 * self.frames)


@dataclass
class Footage:
    """The frames taken of a video.

    Parameters
    ----------
    frames
        (t, size, size, 3) uint8, red, green and blue.
    notes
        What was wrong with the video, though not so much as not to use it.
    """

    frames: np.ndarray
    notes: list[str] = field(default_factory=list)


def read_frames(path: str | os.PathLike[str], sampling: Sampling | None = None) -> Footage:
    """Decode a video and return some of its frames.

    Frames that cannot be decoded are left out, those that the decoder had to mend are kept, and the notes
    tell of both; a video of which more than a tenth is damaged is refused.

    Parameters
    ----------
    path
        The video.
    sampling
        Which frames; None is `Sampling()`.

    Raises
    ------
    VideoError
        When the file is empty, damaged, of an unknown format, or has no picture.

    Examples
    --------
    >>> read_frames("holiday.mp4")
    Traceback (most recent call last):
    FileNotFoundError: holiday.mp4 does not exist.
    """
    path, sampling = Path(path), sampling or Sampling()
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist.")
    if not path.stat().st_size:
        raise VideoError("the file is empty")
    if sampling.stride is not None:
        run = _Run(path, sampling, sampling.places(sampling.stride * sampling.frames), whole=False)
    else:
        # Headers are often wrong; packets are counted without decoding and mostly right.
        guess = _count_packets(path)
        run = _Run(path, sampling, sampling.places(guess))
        if run.total != guess:
            run = _Run(path, sampling, sampling.places(run.total))
    return Footage(np.stack(run.pictures), run.notes())


def fit_picture(picture: np.ndarray, short_side: int, size: int) -> np.ndarray:
    """Resize the shorter side, smoothed as torchvision and Pillow do, and cut out the middle.

    Parameters
    ----------
    picture
        (H, W, 3) uint8.
    short_side, size
        As in `Sampling`.

    Returns
    -------
    picture
        (size, size, 3) uint8.

    Examples
    --------
    >>> fit_picture(np.zeros((240, 320, 3), np.uint8), short_side=256, size=224).shape
    (224, 224, 3)
    """
    height, width = picture.shape[:2]
    shorter = min(height, width)
    new = [int(short_side * side / shorter) for side in (height, width)]
    pixels = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1)[None]  # (1, 3, H, W)
    if new != [height, width]:
        pixels = interpolate(pixels, size=new, mode="bilinear", antialias=True, align_corners=False)
    top, left = (round((side - size) / 2) for side in new)
    return pixels[0, :, top : top + size, left : left + size].permute(1, 2, 0).contiguous().numpy()


def upright(picture: np.ndarray, rotation: int) -> np.ndarray:
    """Return a picture (H, W, 3) turned counterclockwise by `rotation` degrees, a multiple of 90.

    Examples
    --------
    >>> upright(np.zeros((4, 6, 3)), -90).shape
    (6, 4, 3)
    """
    return np.rot90(picture, round(rotation / 90) % 4)


class _Run:
    """One way through a video: the pictures at some places, and how much could be decoded."""

    def __init__(self, path: Path, sampling: Sampling, places: np.ndarray, *, whole: bool = True) -> None:
        self.pictures: list[np.ndarray] = []  # (size, size, 3) each
        self.total = self.lost = self.mended = 0
        wanted, last = set(places.tolist()), int(places[-1]) if len(places) else 0
        with _opened(path) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1  # videos are decoded side by side instead
            for frame in self._decoded(container, stream):
                if self.total in wanted:
                    self.pictures.append(_picture(frame, sampling))
                self.total += 1
                if not whole and self.total > last:
                    break
        if not self.total:
            raise VideoError("no frame can be decoded")
        if self.lost + self.mended > BROKEN_SHARE * (self.total + self.lost):
            raise VideoError(self.notes()[0])

    def _decoded(self, container: Any, stream: Any) -> Any:
        """Yield the frames in order of showing; damaged ones are counted."""
        av = _av()
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets, None)
            except av.error.FFmpegError:  # the file ends in the middle
                self.lost += 1
                return
            if packet is None:
                return
            try:
                frames = packet.decode()
            except av.error.FFmpegError:
                self.lost += 1
                continue
            for frame in frames:
                self.mended += frame.is_corrupt or packet.is_corrupt
                yield frame

    def notes(self) -> list[str]:
        """Return what was wrong."""
        damaged = self.lost + self.mended
        return [f"{damaged} of {self.total + self.lost} frames are damaged"] if damaged else []


def _picture(frame: Any, sampling: Sampling) -> np.ndarray:
    """Return a decoded frame as a picture (size, size, 3)."""
    try:
        picture = upright(frame.to_ndarray(format="rgb24"), frame.rotation)
    except (_av().error.FFmpegError, ValueError) as error:
        raise VideoError(f"frames of format {frame.format.name} cannot be made pictures ({error})") from error
    return fit_picture(picture, sampling.resized, sampling.size)


def _count_packets(path: Path) -> int:
    """Return how many packets with pictures a video has; nothing is decoded."""
    av = _av()
    count = 0
    with _opened(path) as container:
        try:
            for packet in container.demux(container.streams.video[0]):
                count += packet.size > 0
        except av.error.FFmpegError:  # told of by the decoding run
            pass
    return count


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a video that has pictures; what FFmpeg cannot open is a `VideoError`."""
    av = _av()
    try:
        container = av.open(str(path), metadata_errors="replace")
    except av.error.FFmpegError as error:
        raise VideoError(f"not a video, or damaged ({error.strerror or type(error).__name__})") from error
    with container:
        if not container.streams.video:
            raise VideoError("the file has no video stream")
        yield container


def _av() -> Any:
    """Import PyAV when it is needed."""
    try:
        import av
    except ImportError as error:
        raise ImportError("reading videos needs PyAV: pip install 'stopwise[video]'.") from error
    return av
