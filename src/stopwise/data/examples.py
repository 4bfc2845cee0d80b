"""Labelled series to learn from, read in batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stopwise.data.series import Series, hold

# rows → x (B, T, D) and lengths (B,)
Reader = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Examples:
    """Labelled series, read in batches: `read(rows)` gives x (B, T, D) and lengths (B,) of rows (B,)."""

    read: Reader
    y: np.ndarray
    classes: int

    def __len__(self) -> int:
        return len(self.y)

    def weights(self) -> np.ndarray:
        """Return weights (n,) with mean 1 that give every class present the same share."""
        counts = np.bincount(self.y, minlength=self.classes)
        return len(self.y) / (np.count_nonzero(counts) * counts[self.y])

    def sample(self, n: int, seed: int) -> Examples:
        """Return at most n of the series, drawn at random: every class has its share, and one at least."""
        if n >= len(self):
            return self
        shuffled = np.random.default_rng([seed, n]).permutation(len(self))
        turns = np.empty(len(self))  # the first of each class come at 0, its last near 1
        for one in np.unique(self.y):
            own = shuffled[self.y[shuffled] == one]
            turns[own] = np.arange(len(own)) / len(own)
        rows = np.sort(shuffled[np.argsort(turns[shuffled], kind="stable")[:n]])
        return Examples(_Rows(self.read, rows), self.y[rows], self.classes)


@dataclass(frozen=True)
class _Rows:
    """Read some rows of what another reads; picklable, so that processes can share it."""

    read: Reader
    rows: np.ndarray

    def __call__(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.read(self.rows[rows])


@dataclass(frozen=True)
class SeriesReader:
    """Read series as a network takes them; picklable, so that processes can share it.

    Parameters
    ----------
    series
        The series.
    missing
        "error", or "mask": what was not observed is held, and channels tell what was.
    fill
        (D,) what stands for a channel before its first observation.
    """

    series: Series
    missing: str
    fill: np.ndarray

    def __call__(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x (B, T, D), or (B, T, 2·D) with what was observed, and lengths (B,) of rows (B,)."""
        x, lengths = self.series.batch(rows, self.missing)
        return (hold(x, self.fill) if self.missing == "mask" else x), lengths
