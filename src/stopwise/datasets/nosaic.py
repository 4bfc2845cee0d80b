"""Nosaic MNIST: short videos that reveal a few random pixels of a still image in each frame.

A frame is white (255) except at random positions, which show the image. "growing" (NMNIST-H) reveals
`per_frame` further pixels in each frame; "fresh" (NMNIST-100f) draws `per_frame` positions with replacement
for each frame independently. The evidence for the class therefore grows over time.

The method is that of Miyagawa and Ebihara, The power of log-sum-exp, ICML 2021. The random positions differ
from those of the original videos.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.datasets.lazy import LazySeries
from stopwise.validation import check_choice, check_integer, check_one_per_item

KINDS = ("growing", "fresh")
HIDDEN = 255


class NosaicSeries(LazySeries):
    """Videos (n, T, H, W), uint8, that gradually reveal still images; generated when they are read.

    A frame is white (255) except at random positions, which show the image. Video i depends only on i, image
    i and the other arguments, not on the order of access or on the batch. Use another `seed` for a test set.

    Parameters
    ----------
    images
        (n, H, W) uint8 images: an array or a memory map.
    length
        Number of frames T.
    per_frame
        Number of positions drawn per frame.
    kind
        "growing": each frame shows the pixels of the previous frame and `per_frame` more; NMNIST-H has
        length=20 and per_frame=10. "fresh": the positions of each frame are drawn independently, with
        replacement; NMNIST-100f has length=100 and per_frame=15.
    seed
        Seed of the positions.

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

    def __init__(
        self, images: Any, length: int = 20, per_frame: int = 10, kind: str = "growing", seed: int = 0
    ) -> None:
        self.images = images if isinstance(images, np.ndarray) else np.asarray(images)
        if self.images.ndim != 3 or 0 in self.images.shape or self.images.dtype != np.uint8:
            raise ValueError(
                "`images` must be uint8 of shape (n, H, W), none of them 0; got "
                f"{self.images.dtype} of shape {self.images.shape}. Reshape them, or scale them to 0..255 "
                "and round."
            )
        self.length = check_integer("length", length, 1)
        self.per_frame = check_integer("per_frame", per_frame, 1)
        self.kind = check_choice("kind", kind, KINDS)
        self.seed = check_integer("seed", seed, 0)
        super().__init__(self.seed)
        pixels = self.images[0].size
        if self.kind == "growing" and self.length * self.per_frame > pixels:
            raise ValueError(
                f"`length` · `per_frame` must be at most {pixels}, the number of pixels; got "
                f"{self.length} · {self.per_frame} = {self.length * self.per_frame}. Lower one of them."
            )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape (n, T, H, W)."""
        n, height, width = self.images.shape
        return n, self.length, height, width

    def __repr__(self) -> str:
        n, steps, height, width = self.shape
        return (
            f"NosaicSeries({n} images of {height} x {width}, {steps} frames, {self.kind}, seed={self.seed})"
        )

    def _generate(self, rows: np.ndarray) -> np.ndarray:
        pixels = self.images[0].size
        images = np.asarray(self.images[rows]).reshape(len(rows), pixels)  # (m, P)
        out = np.empty((len(rows), self.length, pixels), np.uint8)  # (m, T, P)
        growing = self.kind == "growing"
        reveal = self._reveal_growing if growing else self._reveal_fresh
        words = self._random_words(rows, pixels if growing else self.length * self.per_frame)
        for frames, image, own in zip(out, images, words):
            reveal(frames, image, own)
        return out.reshape(len(rows), *self.shape[1:])

    def _reveal_growing(self, frames: np.ndarray, image: np.ndarray, words: np.ndarray) -> None:
        """Fill frames (T, P): pixels appear in the order of the sorted words (P,)."""
        shown = np.argsort(words)[: self.length * self.per_frame]  # (T · per_frame,)
        first = np.full(len(image), self.length)  # (P,) the first frame that shows a pixel
        first[shown] = np.arange(len(shown)) // self.per_frame
        np.copyto(frames, HIDDEN)
        np.copyto(frames, image, where=first <= np.arange(self.length)[:, None])

    def _reveal_fresh(self, frames: np.ndarray, image: np.ndarray, words: np.ndarray) -> None:
        """Fill frames (T, P), each at its own positions from words (T · per_frame,)."""
        # P is so small compared with 2^64 that the remainder is uniform to at least 13 digits.
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
    """Generate videos that gradually reveal still images, with their labels.

    The videos of the 60,000 training images of MNIST take 940 MB. `NosaicSeries` gives the same frames but
    generates them when they are read.

    Parameters
    ----------
    images
        (n, H, W) uint8 images, such as those of MNIST.
    labels
        (n,) labels, one per image.
    length
        Number of frames T.
    per_frame
        Number of positions drawn per frame.
    kind
        "growing": each frame shows the pixels of the previous frame and `per_frame` more. "fresh": the
        positions of each frame are drawn independently, with replacement.
    seed
        Seed of the positions. Use a different seed for a test set.

    Returns
    -------
    X
        (n, T, H, W) uint8 frames.
    y
        (n,) labels.

    Examples
    --------
    >>> images = np.zeros((3, 28, 28), np.uint8)
    >>> X, y = nosaic_mnist(images, [7, 2, 1])
    >>> X.shape, (X[:, -1] == 0).sum(axis=(1, 2)).tolist()
    ((3, 20, 28, 28), [200, 200, 200])
    """
    series = NosaicSeries(images, length, per_frame, kind, seed)
    y = check_one_per_item(labels, len(series), name="labels", item="image")
    return series[:], y
