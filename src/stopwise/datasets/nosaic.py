"""Nosaic MNIST: still images shown through noise, a few pixels a frame.

A frame is white (255) but for some pixels, drawn at random, that show the image. "growing", NMNIST-H, adds
`per_frame` pixels to those of the frame before; "fresh", NMNIST-100f, draws `per_frame` positions, with
replacement, for each frame alone. So evidence grows as in a scene behind mist that clears, and a single image
data set becomes a set of short videos.

The recipe is that of Miyagawa and Ebihara, The power of log-sum-exp, ICML 2021; the pixels drawn are our own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.datasets.rows import row_indices
from stopwise.validation import check_choice, check_integer

KINDS = ("growing", "fresh")
HIDDEN = 255


class NosaicSeries:
    """Images shown through noise, (n, T, H, W) uint8, made on the fly.

    The frames of image i depend on the image, the arguments and on i alone: neither the order of access nor
    the batch it is asked for with changes a pixel. Take another `seed` for a test set.

    Parameters
    ----------
    images
        (n, H, W) uint8: an array or a memory map.
    length
        Number of frames T.
    per_frame
        "growing": how many pixels each frame adds; "fresh": how many positions each frame draws.
    kind
        "growing" (NMNIST-H: length=20, per_frame=10) or "fresh" (NMNIST-100f: length=100, per_frame=15).
    seed
        What the positions are drawn from.

    Examples
    --------
    >>> images = np.zeros((3, 28, 28), np.uint8)
    >>> X = NosaicSeries(images)
    >>> X.shape
    (3, 20, 28, 28)
    >>> (X[0] == 0).sum(axis=(1, 2)).tolist()[:3]
    [10, 20, 30]
    >>> bool((X[2] == X[:][2]).all())
    True
    """

    dtype = np.dtype(np.uint8)
    ndim = 4

    def __init__(
        self, images: Any, length: int = 20, per_frame: int = 10, kind: str = "growing", seed: int = 0
    ) -> None:
        self.images = images if isinstance(images, np.ndarray) else np.asarray(images)
        if self.images.ndim != 3 or 0 in self.images.shape or self.images.dtype != np.uint8:
            raise ValueError(
                "`images` must be uint8 of shape (n, H, W), none of them 0; got "
                f"{self.images.dtype} of shape {self.images.shape}. Reshape, or scale to 0..255 and round."
            )
        self.length = check_integer("length", length, 1)
        self.per_frame = check_integer("per_frame", per_frame, 1)
        self.kind = check_choice("kind", kind, KINDS)
        self.seed = check_integer("seed", seed, 0)
        pixels = self.images[0].size
        if self.kind == "growing" and self.length * self.per_frame > pixels:
            raise ValueError(
                f"`length` · `per_frame` must be at most {pixels}, the pixels of an image; got "
                f"{self.length} · {self.per_frame} = {self.length * self.per_frame}. Lower one of them."
            )
        self._key = np.random.SeedSequence(self.seed).generate_state(2, np.uint64)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape (n, T, H, W)."""
        n, height, width = self.images.shape
        return n, self.length, height, width

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: Any) -> np.ndarray:
        wanted = row_indices("NosaicSeries", key, len(self))
        rows = wanted.reshape(-1)
        images = np.asarray(self.images[rows]).reshape(len(rows), self.images[0].size)  # (m, P)
        out = np.empty((len(rows), self.length, images.shape[1]), np.uint8)  # (m, T, P)
        show = self._show_growing if self.kind == "growing" else self._show_fresh
        for frames, image, words in zip(out, images, self._random_words(rows)):
            show(frames, image, words)
        series = out.reshape(len(rows), *self.shape[1:])
        return series if wanted.ndim else series[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("NosaicSeries holds no frames: an array of it is always a copy.")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __repr__(self) -> str:
        n, steps, height, width = self.shape
        return (
            f"NosaicSeries({n} images of {height} x {width}, {steps} frames, {self.kind}, seed={self.seed})"
        )

    def _random_words(self, rows: np.ndarray) -> Any:
        """Yield the random 64-bit words of each row."""
        count = self.images[0].size if self.kind == "growing" else self.length * self.per_frame
        # The fourth word of the counter names the image, the first counts within it: streams never meet.
        bits = np.random.Philox(key=self._key)
        state: Any = bits.state
        for i in rows:
            state["state"]["counter"][3] = i
            bits.state = state
            yield bits.random_raw(count)

    def _show_growing(self, frames: np.ndarray, image: np.ndarray, words: np.ndarray) -> None:
        """Fill frames (T, P): the order of the words is the order in which pixels appear."""
        shown = np.argsort(words)[: self.length * self.per_frame]  # (T · per_frame,)
        since = np.full(len(image), self.length)  # (P,) the frame from which a pixel is shown
        since[shown] = np.arange(len(shown)) // self.per_frame
        np.copyto(frames, HIDDEN)
        np.copyto(frames, image, where=since <= np.arange(self.length)[:, None])

    def _show_fresh(self, frames: np.ndarray, image: np.ndarray, words: np.ndarray) -> None:
        """Fill frames (T, P), each from positions of its own."""
        # P is tiny beside 2^64: the remainder is uniform to 13 digits and more.
        shown = (words % len(image)).astype(np.intp).reshape(self.length, self.per_frame)
        np.copyto(frames, HIDDEN)
        np.put_along_axis(frames, shown, image[shown], axis=1)


def nosaic_mnist(
    images: Any,
    labels: Any,
    *,
    length: int = 20,
    per_frame: int = 10,
    kind: str = "growing",
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return images shown through noise as arrays: frames and labels.

    All frames of MNIST's 60 000 images are 940 MB: to make them as they are read, take `NosaicSeries`.

    Parameters
    ----------
    images, length, per_frame, kind, seed
        As in `NosaicSeries`, whose frames these are, pixel for pixel.
    labels
        (n,) one per image.

    Returns
    -------
    X
        (n, T, H, W) uint8 frames.
    y
        (n,) the labels.

    Examples
    --------
    >>> images = np.zeros((3, 28, 28), np.uint8)
    >>> X, y = nosaic_mnist(images, [7, 2, 1])
    >>> X.shape, (X[:, -1] == 0).sum(axis=(1, 2)).tolist()
    ((3, 20, 28, 28), [200, 200, 200])
    """
    series = NosaicSeries(images, length, per_frame, kind, seed)
    y = np.asarray(labels)
    if y.shape != (len(series),):
        raise ValueError(f"`labels` must have shape ({len(series)},), one per image; got shape {y.shape}.")
    return series[:], y
