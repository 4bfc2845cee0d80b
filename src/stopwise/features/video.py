"""Reading videos: decoding, sampling of frames, resizing, cropping."""

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

from stopwise.extras import extra
from stopwise.validation import check_integer

MAX_DAMAGED_FRACTION = 0.1  # a video with more damaged frames is rejected


class VideoError(ValueError):
    """Error raised if a file cannot be decoded as a video.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "empty.mp4"
    >>> path.touch()
    >>> read_frames(path)
    Traceback (most recent call last):
    ...
    stopwise.features.video.VideoError: the file is empty
    """


@dataclass(frozen=True)
class Sampling:
    """Which frames of a video to take, and at which size.

    Parameters
    ----------
    frames
        Maximum number of frames T. All frames of a shorter video are taken.
    stride
        If None, the frames are evenly spaced over the whole video. If an integer s, every s-th frame from
        the start is taken, which also works while a video is still being recorded.
    size
        Side length of the square images, in pixels.
    short_side
        Length, in pixels, to which the shorter side is resized before the center is cropped. If None,
        `size` × 8 / 7, as is usual for networks trained on ImageNet.

    Examples
    --------
    >>> Sampling(frames=4).indices(10).tolist()
    [1, 3, 6, 8]
    >>> Sampling(frames=4, stride=2).indices(10).tolist()
    [0, 2, 4, 6]
    >>> Sampling(size=224).resized_side
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
    def resized_side(self) -> int:
        """The length of the shorter side before the center is cropped."""
        return round(self.size * 8 / 7) if self.short_side is None else self.short_side

    def indices(self, total: int) -> np.ndarray:
        """Return the indices of the frames to take from a video.

        Without a stride, they are the middles of T equal parts.

        Parameters
        ----------
        total
            Number of frames of the video.

        Returns
        -------
        indices
            (t,) integers, with t <= T.
        """
        if self.stride is not None:
            return np.arange(0, total, self.stride)[: self.frames]
        if total <= self.frames:
            return np.arange(total)
        return ((2 * np.arange(self.frames) + 1) * total) // (2 * self.frames)


@dataclass
class Footage:
    """The frames taken from a video, as returned by `read_frames`.

    Parameters
    ----------
    frames
        (t, size, size, 3) uint8: red, green and blue.
    notes
        Warnings about damaged frames; empty if there are none.

    Examples
    --------
    >>> Footage(np.zeros((5, 32, 32, 3), np.uint8)).notes
    []
    """

    frames: np.ndarray
    notes: list[str] = field(default_factory=list)


def read_frames(path: str | os.PathLike[str], sampling: Sampling | None = None) -> Footage:
    """Decode a video and return some of its frames.

    This function needs the extra `video`. Frames that cannot be decoded are omitted, and frames that the
    decoder repaired are kept; the notes count both. If more than 10 % of the frames are damaged, an error is
    raised.

    Parameters
    ----------
    path
        The video.
    sampling
        Which frames to take, and at which size. If None, `Sampling()`.

    Returns
    -------
    footage
        An object with the attributes `frames`, (t, size, size, 3) uint8, and `notes`, a list of warnings
        about damaged frames.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    VideoError
        If the file is empty, damaged, of an unknown format, or without frames.

    Examples
    --------
    Write a short video and read half of its frames:

    >>> import av, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "noise.mp4"
    >>> with av.open(str(path), "w") as video:
    ...     stream = video.add_stream("mpeg4", rate=10)
    ...     stream.width = stream.height = 32
    ...     for image in np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8):
    ...         video.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
    ...     video.mux(stream.encode())
    >>> footage = read_frames(path, Sampling(frames=3, size=28))
    >>> footage.frames.shape, footage.notes
    ((3, 28, 28, 3), [])
    """
    path, sampling = Path(path), sampling or Sampling()
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist.")
    if not path.stat().st_size:
        raise VideoError("the file is empty")
    if sampling.stride is not None:
        decoded = _Decoding(path, sampling, sampling.indices(sampling.stride * sampling.frames), whole=False)
    else:
        # The frame count of the header is often wrong. The number of packets is mostly right, and counting
        # them needs no decoding.
        guess = _count_packets(path)
        decoded = _Decoding(path, sampling, sampling.indices(guess))
        if decoded.total != guess:
            decoded = _Decoding(path, sampling, sampling.indices(decoded.total))
    return Footage(np.stack(decoded.images), decoded.notes())


def resize_and_crop(image: np.ndarray, short_side: int, size: int) -> np.ndarray:
    """Resize the shorter side, with antialiasing as in torchvision and Pillow, and crop the center.

    Parameters
    ----------
    image
        (H, W, 3) uint8.
    short_side, size
        As in `Sampling`.

    Returns
    -------
    image
        (size, size, 3) uint8.

    Examples
    --------
    >>> resize_and_crop(np.zeros((240, 320, 3), np.uint8), short_side=256, size=224).shape
    (224, 224, 3)
    """
    height, width = image.shape[:2]
    shorter = min(height, width)
    new = [int(short_side * side / shorter) for side in (height, width)]
    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None]  # (1, 3, H, W)
    if new != [height, width]:
        pixels = interpolate(pixels, size=new, mode="bilinear", antialias=True, align_corners=False)
    top, left = (round((side - size) / 2) for side in new)
    return pixels[0, :, top : top + size, left : left + size].permute(1, 2, 0).contiguous().numpy()


def rotate(image: np.ndarray, degrees: int) -> np.ndarray:
    """Return an image (H, W, 3) rotated counterclockwise by `degrees`, a multiple of 90.

    Examples
    --------
    >>> rotate(np.zeros((4, 6, 3)), -90).shape
    (6, 4, 3)
    """
    return np.rot90(image, round(degrees / 90) % 4)


class _Decoding:
    """The images at some indices of a video, and the numbers of decoded, lost and repaired frames.

    If not `whole`, decoding stops after the last of the indices.
    """

    def __init__(self, path: Path, sampling: Sampling, indices: np.ndarray, *, whole: bool = True) -> None:
        self.images: list[np.ndarray] = []  # (size, size, 3) each
        self.total = self.lost = self.repaired = 0
        wanted, last = set(indices.tolist()), int(indices[-1]) if len(indices) else 0
        with _opened(path) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1  # several videos are decoded in parallel instead
            for frame in self._decoded(container, stream):
                if self.total in wanted:
                    self.images.append(_image(frame, sampling))
                self.total += 1
                if not whole and self.total > last:
                    break
        if not self.total:
            raise VideoError("no frame can be decoded")
        if self.lost + self.repaired > MAX_DAMAGED_FRACTION * (self.total + self.lost):
            raise VideoError(self.notes()[0])

    def _decoded(self, container: Any, stream: Any) -> Any:
        """Yield the frames in display order and count damaged ones."""
        av = _av()
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets, None)
            except av.error.FFmpegError:  # the file is truncated
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
                self.repaired += frame.is_corrupt or packet.is_corrupt
                yield frame

    def notes(self) -> list[str]:
        """Return warnings about damage."""
        damaged = self.lost + self.repaired
        return [f"{damaged} of {self.total + self.lost} frames are damaged"] if damaged else []


def _image(frame: Any, sampling: Sampling) -> np.ndarray:
    """Return a decoded frame as an image (size, size, 3)."""
    try:
        image = rotate(frame.to_ndarray(format="rgb24"), frame.rotation)
    except (_av().error.FFmpegError, ValueError) as error:
        raise VideoError(f"frames of format {frame.format.name} cannot be converted ({error})") from error
    return resize_and_crop(image, sampling.resized_side, sampling.size)


def _count_packets(path: Path) -> int:
    """Return the number of non-empty packets of a video, without decoding them."""
    av = _av()
    count = 0
    with _opened(path) as container:
        try:
            for packet in container.demux(container.streams.video[0]):
                count += packet.size > 0
        except av.error.FFmpegError:  # decoding will report it
            pass
    return count


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file that has a video stream; raise `VideoError` for others."""
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
    """Import PyAV, which is optional."""
    with extra("video", "reading videos"):
        import av
    return av
