"""The training series of a prefix model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Series:
    """Training series of a prefix model.

    Parameters
    ----------
    x
        (n, T, C) series.
    y
        (n,) class indices.
    lengths
        (n,) lengths.
    fold
        (n,) fold of each series.
    classes
        K, the number of classes.

    Examples
    --------
    >>> y = np.repeat([0, 1], 10)
    >>> series = Series(np.zeros((20, 5, 1), np.float32), y, np.full(20, 5), y * 0, 2)
    >>> series.y[series.sample(6, np.random.default_rng(0))].tolist()
    [0, 0, 0, 1, 1, 1]
    """

    x: np.ndarray
    y: np.ndarray
    lengths: np.ndarray
    fold: np.ndarray
    classes: int

    def __len__(self) -> int:
        return len(self.y)

    def alive(self, step: int) -> np.ndarray:
        """Return the rows of the series that have at least this many steps."""
        return np.flatnonzero(self.lengths >= step)

    def subset(self, rows: np.ndarray) -> Series:
        """Return the series in these rows."""
        return replace(self, x=self.x[rows], y=self.y[rows], lengths=self.lengths[rows], fold=self.fold[rows])

    def scaled(self, scale: np.ndarray) -> Series:
        """Return the series with each channel multiplied by its factor (C,)."""
        return self if (scale == 1).all() else replace(self, x=self.x * scale)

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return a random sample of rows, in order, with the same share of each class, at least two of it."""
        if count >= len(self.y):
            return np.arange(len(self.y))
        chosen = []
        for k in np.unique(self.y):
            rows = np.flatnonzero(self.y == k)
            share = max(2, round(count * len(rows) / len(self.y)))
            chosen.append(rng.permutation(rows)[:share])
        return np.sort(np.concatenate(chosen))

    def samples(self, count: int, most: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return up to `most` random samples of rows, as of `sample`, without common rows if possible."""
        number = min(most, len(self.y) // count)
        if number <= 1:
            return [self.sample(count, rng)]
        chosen: list[list[np.ndarray]] = [[] for _ in range(number)]
        for k in np.unique(self.y):
            rows = rng.permutation(np.flatnonzero(self.y == k))
            share = min(len(rows), max(2, round(count * len(rows) / len(self.y))))
            for i, part in enumerate(chosen):  # a rare class begins again
                part.append(rows[np.arange(i * share, (i + 1) * share) % len(rows)])
        return [np.sort(np.concatenate(part)) for part in chosen]
