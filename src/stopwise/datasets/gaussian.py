"""The sequential Gaussian world: independent samples whose mean depends on the class.

In class k every sample has mean ``offset * e_k`` and identity covariance. Therefore
``log p(x | k) = offset * x_k + const``, and the scores are cumulative sums. `GaussianSeries` generates a
series when it is read, so that a million series need almost no memory; `gaussian` returns an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.datasets.labels import balanced_labels
from stopwise.datasets.lazy import LazySeries
from stopwise.validation import check_integer, check_real


class GaussianSeries(LazySeries):
    """Sequential Gaussian series (n, T, D), float32, generated when they are read.

    In class k, the samples are independent and normal with mean `offset` on channel k, mean 0 on the other
    channels, and identity covariance. Series i depends only on i and on the arguments, not on the order of
    access or on the batch. Use another `seed` for a test set.

    Parameters
    ----------
    n
        Number of series.
    classes
        Number of classes K. The class counts differ by at most one.
    offset
        Distance of the mean of a class from the origin, along the axis of the class. Larger values make the
        classes easier to separate.
    channels
        Number of channels D; at least K, because each class has its own axis.
    length
        Number of steps T.
    seed
        Seed of the labels and of the noise.

    Examples
    --------
    >>> X = GaussianSeries(1_000_000, offset=2.0)
    >>> X.shape
    (1000000, 50, 128)
    >>> X[[3, 999_999]].shape
    (2, 50, 128)
    >>> bool((X[3] == X[:10][3]).all())
    True
    """

    dtype = np.dtype(np.float32)

    def __init__(
        self,
        n: int,
        classes: int = 2,
        offset: float = 2.0,
        channels: int = 128,
        length: int = 50,
        seed: int = 0,
    ) -> None:
        self.n = check_integer("n", n, 1)
        self.classes = check_integer("classes", classes, 2)
        self.offset = check_real("offset", offset, -np.inf, np.inf, open_low=True, open_high=True)
        self.channels = check_integer("channels", channels, 1)
        if self.channels < self.classes:
            raise ValueError(
                f"`channels` must be >= classes, because each class has its own axis; got "
                f"channels={channels} for classes={classes}. Raise `channels` to {classes} or more."
            )
        self.length = check_integer("length", length, 1)
        self.seed = check_integer("seed", seed, 0)
        noise, labels = np.random.SeedSequence(self.seed).spawn(2)
        super().__init__(noise)
        self._labels = balanced_labels(self.n, self.classes, np.random.default_rng(labels))  # (n,)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape (n, T, D)."""
        return self.n, self.length, self.channels

    @property
    def y(self) -> np.ndarray:
        """The labels (n,), int64; a copy, so changing it does not change the series."""
        return self._labels.copy()

    def scores(self, indices: Any = None) -> np.ndarray:
        """Return the exact scores of some series.

        Parameters
        ----------
        indices
            An integer, a slice, or a 1-d array of integers or booleans. If None, all series.

        Returns
        -------
        scores
            (m, T, K) float64, as in `gaussian`.

        Examples
        --------
        >>> X = GaussianSeries(100, offset=1.0, seed=1)
        >>> scores = X.scores([0, 7])
        >>> scores.shape
        (2, 50, 2)
        >>> bool(scores[1, -1].argmax() == X.y[7])
        True
        """
        wanted = np.arange(self.n) if indices is None else np.atleast_1d(self._rows(indices))
        own = np.empty((len(wanted), self.length, self.classes), np.float32)  # (m, T, K)
        for start in range(0, len(wanted), 256):  # blocks: all channels of all series need not fit in memory
            block = slice(start, start + 256)
            own[block] = self[wanted[block]][:, :, : self.classes]
        return exact_scores(own, self.offset)

    def _generate(self, rows: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), self.length, self.channels), np.float32)  # (m, T, D)
        flat = out.reshape(len(rows), self.length * self.channels)
        words = self._random_words(rows, (flat.shape[1] + 1) // 2)
        for series, noise, label, own in zip(out, flat, self._labels[rows], words):
            _box_muller(own, out=noise)
            series[:, label] += self.offset
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return GaussianSeries, (self.n, self.classes, self.offset, self.channels, self.length, self.seed)

    def __repr__(self) -> str:
        return (
            f"GaussianSeries(n={self.n}, classes={self.classes}, offset={self.offset:g}, "
            f"channels={self.channels}, length={self.length}, seed={self.seed})"
        )


def gaussian(
    n: int, classes: int = 2, offset: float = 2.0, channels: int = 128, length: int = 50, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Generate sequential Gaussian series with their labels and exact scores.

    In class k, the samples are independent and normal with mean `offset` on channel k, mean 0 on the other
    channels, and identity covariance. `GaussianSeries` gives the same series without holding them in memory.

    Parameters
    ----------
    n
        Number of series.
    classes
        Number of classes K. The class counts differ by at most one.
    offset
        Distance of the mean of a class from the origin, along the axis of the class. Larger values make the
        classes easier to separate.
    channels
        Number of channels D; at least K, because each class has its own axis.
    length
        Number of steps T.
    seed
        Seed of the labels and of the noise. Use a different seed for a test set.

    Returns
    -------
    X
        (n, T, D) float32 series.
    y
        (n,) int64 labels.
    scores
        (n, T, K) float64 exact scores: the log-likelihood of each class given the samples so far, up to a
        term common to all classes. The difference between the scores of two classes is the true
        log-likelihood ratio.

    Examples
    --------
    >>> X, y, scores = gaussian(n=1000, offset=1.0, seed=0)
    >>> X.shape, scores.shape
    ((1000, 50, 128), (1000, 50, 2))
    >>> errors = scores.argmax(axis=2) != y[:, None]
    >>> print("error at step 1: {:.0%}, at step 10: {:.0%}".format(*errors[:, [0, 9]].mean(axis=0)))
    error at step 1: 24%, at step 10: 2%
    """
    series = GaussianSeries(n, classes, offset, channels, length, seed)
    X = series[:]  # (n, T, D)
    return X, series.y, exact_scores(X[:, :, :classes], series.offset)


def exact_scores(own: np.ndarray, offset: float) -> np.ndarray:
    """Return the scores (m, T, K) from the channels (m, T, K) that are the axes of the classes."""
    return offset * np.cumsum(own, axis=1, dtype=np.float64)


def _box_muller(words: np.ndarray, out: np.ndarray) -> None:
    """Fill `out`, (size,), with standard normals from ceil(size / 2) random 64-bit words.

    It has no branches and takes half the time of numpy's method.
    """
    half = len(words)
    bits = words.view(np.uint32)
    radius = bits[:half].astype(np.float32)
    radius += np.float32(0.5)
    radius *= np.float32(2.0**-32)  # uniform in (0, 1]
    np.log(radius, out=radius)
    radius *= np.float32(-2.0)
    np.sqrt(radius, out=radius)
    angle = bits[half:].view(np.int32).astype(np.float32)
    angle *= np.float32(np.pi * 2.0**-31)
    rest = out.size - half
    np.cos(angle, out=out[:half])
    np.sin(angle[:rest], out=out[half:])
    out[:half] *= radius
    out[half:] *= radius[:rest]
