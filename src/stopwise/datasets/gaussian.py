"""The sequential Gaussian world: independent samples whose mean tells the class.

Class k has mean ``offset * e_k`` and identity covariance, independently at every step, so that
``log p(x | k) = offset * x_k + const`` and the scores are cumulative sums. `GaussianSeries` makes each
series when it is asked for, so that a million series need no memory; `gaussian` is the same as an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.datasets.labels import balanced_labels
from stopwise.datasets.rows import row_indices
from stopwise.validation import check_integer, check_real


class GaussianSeries:
    """Sequential Gaussian series (n, T, D), float32, made on the fly.

    Series i depends on the arguments and on i alone: neither the order of access nor the batch it is
    asked for with changes a bit of it. Take another `seed` for a test set.

    Parameters
    ----------
    n
        Number of series.
    classes
        Number of classes K; their counts differ by at most one.
    offset
        Distance of a class's mean from the origin, along the class's own axis.
    dim
        Number of features D; at least K, as every class needs an axis.
    length
        Number of steps T.
    seed
        What the labels and the noise are drawn from.

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
    ndim = 3

    def __init__(
        self,
        n: int,
        classes: int = 2,
        offset: float = 2.0,
        dim: int = 128,
        length: int = 50,
        seed: int = 0,
    ) -> None:
        self.n = check_integer("n", n, 1)
        self.classes = check_integer("classes", classes, 2)
        self.offset = check_real("offset", offset, -np.inf, np.inf, open_low=True, open_high=True)
        self.dim = check_integer("dim", dim, 1)
        if self.dim < self.classes:
            raise ValueError(
                f"`dim` must be >= classes, as each class has an axis of its own; got dim={dim} for "
                f"classes={classes}. Raise `dim` to {classes} or more."
            )
        self.length = check_integer("length", length, 1)
        self.seed = check_integer("seed", seed, 0)
        noise, labels = np.random.SeedSequence(self.seed).spawn(2)
        self._key = noise.generate_state(2, np.uint64)
        self._labels = balanced_labels(self.n, self.classes, np.random.default_rng(labels))  # (n,)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape (n, T, D)."""
        return self.n, self.length, self.dim

    @property
    def y(self) -> np.ndarray:
        """The labels (n,), int64; a copy, so that changing it leaves the series as they are."""
        return self._labels.copy()

    def scores(self, indices: Any = None) -> np.ndarray:
        """Return the exact scores (m, T, K), float64, of the series at `indices`; None means all.

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
        for start in range(0, len(wanted), 256):  # never all the features of all the series at once
            block = slice(start, start + 256)
            own[block] = self[wanted[block]][:, :, : self.classes]
        return exact_scores(own, self.offset)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, key: Any) -> np.ndarray:
        wanted = self._rows(key)
        out = np.empty((wanted.size, self.length, self.dim), np.float32)  # (m, T, D)
        flat = out.reshape(wanted.size, self.length * self.dim)
        words = (flat.shape[1] + 1) // 2
        # The fourth word of the counter names the series, the first counts within it: streams never meet.
        # Setting the state costs a tenth of making a generator.
        bits = np.random.Philox(key=self._key)
        state: Any = bits.state
        for row, i in enumerate(wanted.reshape(-1)):
            state["state"]["counter"][3] = i
            bits.state = state
            _box_muller(bits.random_raw(words), out=flat[row])
            out[row, :, self._labels[i]] += self.offset
        return out if wanted.ndim else out[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("GaussianSeries holds no data: an array of it is always a copy.")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return GaussianSeries, (self.n, self.classes, self.offset, self.dim, self.length, self.seed)

    def __repr__(self) -> str:
        return (
            f"GaussianSeries(n={self.n}, classes={self.classes}, offset={self.offset:g}, dim={self.dim}, "
            f"length={self.length}, seed={self.seed})"
        )

    def _rows(self, key: Any) -> np.ndarray:
        return row_indices("GaussianSeries", key, self.n)


def gaussian(
    n: int, classes: int = 2, offset: float = 2.0, dim: int = 128, length: int = 50, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the sequential Gaussian world as arrays: series, labels and exact scores.

    Parameters
    ----------
    n, classes, offset, dim, length, seed
        As in `GaussianSeries`, whose series these are, bit for bit.

    Returns
    -------
    X
        (n, T, D) float32 series.
    y
        (n,) int64 labels.
    scores
        (n, T, K) float64 exact scores; their differences are the true log-likelihood ratios.

    Examples
    --------
    >>> X, y, scores = gaussian(n=1000, offset=1.0, seed=0)
    >>> X.shape, scores.shape
    ((1000, 50, 128), (1000, 50, 2))
    >>> errors = scores.argmax(axis=2) != y[:, None]
    >>> print("error at step 1: {:.0%}, at step 10: {:.0%}".format(*errors[:, [0, 9]].mean(axis=0)))
    error at step 1: 24%, at step 10: 2%
    """
    series = GaussianSeries(n, classes, offset, dim, length, seed)
    X = series[:]  # (n, T, D)
    return X, series.y, exact_scores(X[:, :, :classes], series.offset)


def exact_scores(own: np.ndarray, offset: float) -> np.ndarray:
    """Return the scores (m, T, K) from the coordinates (m, T, K) along the classes' own axes."""
    return offset * np.cumsum(own, axis=1, dtype=np.float64)


def _box_muller(words: np.ndarray, out: np.ndarray) -> None:
    """Fill `out`, (size,), with standard normals from ceil(size / 2) random 64-bit words.

    Free of branches, hence half the time of the generator's own method.
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
