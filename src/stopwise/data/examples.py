"""Labelled series to learn from, read in batches as a model sees them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight

from stopwise.data.holdout import hold_out
from stopwise.data.inputs import InputReader, Inputs
from stopwise.data.labels import check_labels
from stopwise.data.series import SeriesSet

# rows → x (B, T, C) and lengths (B,)
Reader = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

DIGEST_SERIES = 8  # series whose values distinguish data sets


@dataclass(frozen=True)
class Examples:
    """Labelled series.

    Parameters
    ----------
    read
        `read(rows)` returns x (B, T, C) and lengths (B,) of rows (B,).
    y
        (n,) class indices.
    classes
        K.
    channels
        C, the numbers a model sees of a sample.
    lengths
        (n,) steps of each series.
    groups
        (n,) who or which recording each series comes from: a group is never split. None: no groups.

    Examples
    --------
    >>> read = lambda rows: (np.zeros((len(rows), 5, 2), np.float32), np.full(len(rows), 5))
    >>> examples = Examples(read, np.array([0, 0, 0, 1]), 2, channels=2, lengths=np.full(4, 5))
    >>> len(examples), examples.steps, examples.weights.round(2).tolist()
    (4, 5, [0.67, 0.67, 0.67, 2.0])
    """

    read: Reader
    y: np.ndarray
    classes: int
    channels: int
    lengths: np.ndarray
    groups: np.ndarray | None = None

    @classmethod
    def of(
        cls, series: SeriesSet, inputs: Inputs, y: np.ndarray, classes: int, groups: Any = None
    ) -> Examples:
        """Return examples of series as `inputs` show them to a model."""
        owners = None if groups is None else check_labels("`groups`", groups, len(series))
        reader = InputReader(series, inputs)
        return cls(reader, y, classes, inputs.model_channels, series.lengths, owners)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def steps(self) -> int:
        """T, the steps of the longest series."""
        return int(self.lengths.max())

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights (n,) with mean 1 that give every class present the same share."""
        return compute_sample_weight("balanced", self.y)

    def subset(self, rows: np.ndarray) -> Examples:
        """Return some of the series."""
        groups = None if self.groups is None else self.groups[rows]
        return replace(
            self, read=_Rows(self.read, rows), y=self.y[rows], lengths=self.lengths[rows], groups=groups
        )

    def sample(self, n: int, seed: int) -> Examples:
        """Return at most n of the series, drawn at random: every class has its share, and at least one."""
        if n >= len(self):
            return self
        shuffled = np.random.default_rng([seed, n]).permutation(len(self))
        turns = np.empty(len(self))  # the first series of each class has turn 0, its last one nearly 1
        for one in np.unique(self.y):
            own = shuffled[self.y[shuffled] == one]
            turns[own] = np.arange(len(own)) / len(own)
        return self.subset(np.sort(shuffled[np.argsort(turns[shuffled], kind="stable")[:n]]))

    def split(self, fraction: float, seed: int) -> tuple[Examples, Examples | None]:
        """Return a part to learn from and a part to validate on; None where nothing can be held out.

        The validation part takes `fraction` of each class, at least one series, or whole groups.
        """
        if fraction == 0 or np.bincount(self.y).max() == 1:  # no class has a series to spare
            return self, None
        rows, held = hold_out(self.y, self.groups, fraction=fraction, seed=seed)
        return self.subset(rows), self.subset(held)

    def digest(self) -> str:
        """Return a short text that another data set would not have: labels, lengths and a few series."""
        rows = np.unique(np.linspace(0, len(self) - 1, DIGEST_SERIES).astype(int))
        digest = hashlib.sha256(self.y.astype(np.int64).tobytes() + self.lengths.astype(np.int64).tobytes())
        digest.update(np.ascontiguousarray(self.read(rows)[0]).tobytes())
        return f"{len(self)} series, {digest.hexdigest()[:16]}"


@dataclass(frozen=True)
class _Rows:
    """Read some rows of what another reader reads; picklable, so that processes can share it."""

    read: Reader
    rows: np.ndarray

    def __call__(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.read(self.rows[rows])
