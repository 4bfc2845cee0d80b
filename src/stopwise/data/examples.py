"""Labeled series for training, read in batches of model inputs."""

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

DIGEST_SERIES = 8  # number of series whose values are hashed


@dataclass(frozen=True)
class Examples:
    """Labeled series for training.

    Parameters
    ----------
    read
        `read(rows)` returns model inputs x (B, T, C) and lengths (B,) of the series with indices rows (B,).
    y
        (n,) class indices.
    classes
        Number of classes K.
    channels
        Number of input channels C of the model.
    lengths
        (n,) number of steps of each series.
    groups
        (n,) group of each series, such as a person or a recording. A group is never split. None: no groups.
    sizes
        (C,) standard deviations of the channels before they were standardized, relative to each other. None:
        they are not known or all equal.

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
    sizes: np.ndarray | None = None

    @classmethod
    def of(
        cls, series: SeriesSet, inputs: Inputs, y: np.ndarray, classes: int, groups: Any = None
    ) -> Examples:
        """Return examples that read `series` and convert them to model inputs by `inputs`."""
        owners = None if groups is None else check_labels("`groups`", groups, len(series))
        reader = InputReader(series, inputs)
        return cls(reader, y, classes, inputs.model_channels, series.lengths, owners, inputs.sizes)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def steps(self) -> int:
        """T, the number of steps of the longest series."""
        return int(self.lengths.max())

    @cached_property
    def weights(self) -> np.ndarray:
        """Sample weights (n,) with mean 1 that give all classes that occur the same total weight."""
        return compute_sample_weight("balanced", self.y)

    def subset(self, rows: np.ndarray) -> Examples:
        """Return the series with indices `rows`."""
        groups = None if self.groups is None else self.groups[rows]
        return replace(
            self, read=_Rows(self.read, rows), y=self.y[rows], lengths=self.lengths[rows], groups=groups
        )

    def sample(self, n: int, seed: int) -> Examples:
        """Return a stratified random sample of at most n series, with at least one of every class."""
        if n >= len(self):
            return self
        shuffled = np.random.default_rng([seed, n]).permutation(len(self))
        turns = np.empty(len(self))  # 0 for the first series of each class, near 1 for its last
        for one in np.unique(self.y):
            own = shuffled[self.y[shuffled] == one]
            turns[own] = np.arange(len(own)) / len(own)
        return self.subset(np.sort(shuffled[np.argsort(turns[shuffled], kind="stable")[:n]]))

    def split(self, fraction: float, seed: int) -> tuple[Examples, Examples | None]:
        """Return a training part and a validation part; the latter is None if nothing can be held out.

        Without groups, the validation part has `fraction` of each class, at least one series of each class
        that has two or more. With groups, it consists of whole groups.
        """
        if fraction == 0 or np.bincount(self.y).max() == 1:  # every class has only one series
            return self, None
        rows, held = hold_out(self.y, self.groups, fraction=fraction, seed=seed)
        return self.subset(rows), self.subset(held)

    def digest(self) -> str:
        """Return a short text that identifies the data set: a hash of labels, lengths and a few series."""
        rows = np.unique(np.linspace(0, len(self) - 1, DIGEST_SERIES).astype(int))
        digest = hashlib.sha256(self.y.astype(np.int64).tobytes() + self.lengths.astype(np.int64).tobytes())
        digest.update(np.ascontiguousarray(self.read(rows)[0]).tobytes())
        return f"{len(self)} series, {digest.hexdigest()[:16]}"


@dataclass(frozen=True)
class _Rows:
    """Reader of a subset of the rows of another reader; picklable, for use in several processes."""

    read: Reader
    rows: np.ndarray

    def __call__(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.read(self.rows[rows])
