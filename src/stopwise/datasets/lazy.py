"""Series that are generated when they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np


class LazySeries(ABC):
    """Base class of array-like series that are generated on access, each from its own random numbers.

    Series i depends only on the seed and on i, not on the order of access or on the batch.

    Parameters
    ----------
    seed
        Seed of the random numbers: an integer, or a numpy SeedSequence.
    """

    dtype: ClassVar[np.dtype]

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._key = sequence.generate_state(2, np.uint64)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the series as one array, (n, T, ...)."""

    @abstractmethod
    def _generate(self, rows: np.ndarray) -> np.ndarray:
        """Return the series (m, T, ...) at the indices `rows` (m,)."""

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        rows = self._rows(key)
        series = self._generate(rows.reshape(-1))
        return series if rows.ndim else series[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(
                f"`copy` must not be False: {type(self).__name__} stores no samples, so converting it to an "
                "array always copies."
            )
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def _rows(self, key: Any) -> np.ndarray:
        """Return the indices that `key` selects: 0-d for one series, else (m,)."""
        return row_indices(type(self).__name__, key, len(self))

    def _random_words(self, rows: np.ndarray, count: int) -> Iterator[np.ndarray]:
        """Yield `count` random 64-bit words for each row; they do not depend on the order of the rows."""
        # The row is the fourth word of the counter and the first word counts within the row, so the streams
        # of two rows never overlap. Setting the state takes a tenth of the time of creating a generator.
        bits = np.random.Philox(key=self._key)
        state: Any = bits.state
        for row in rows:
            state["state"]["counter"][3] = row
            bits.state = state
            yield bits.random_raw(count)


def row_indices(kind: str, key: Any, n: int) -> np.ndarray:
    """Return the non-negative indices that `key` selects: 0-d for one series, else (m,).

    Parameters
    ----------
    kind
        Name of the indexed class, for error messages.
    key
        An integer, a slice, or a 1-d array of integers or booleans.
    n
        Number of series.

    Examples
    --------
    >>> row_indices("Things", [-1, 0], 5).tolist()
    [4, 0]
    """
    if isinstance(key, slice):
        return np.arange(*key.indices(n))
    indices = np.asarray(key)
    if indices.dtype == bool and indices.ndim == 1:
        if len(indices) != n:
            raise IndexError(f"a boolean index must have one entry per series, {n}; got {len(indices)}.")
        return np.flatnonzero(indices)
    if isinstance(key, list) and not key:
        return np.empty(0, np.int64)
    if isinstance(key, tuple) or indices.ndim > 1 or not np.issubdtype(indices.dtype, np.integer):
        raise IndexError(
            f"{kind} takes an integer, a slice, or a 1-d array of integers or booleans, for the first axis "
            f"only; got {key!r}. Convert the series to an array first: X[:50][..., 0]."
        )
    outside = indices[(indices < -n) | (indices >= n)]
    if outside.size:
        raise IndexError(f"index {outside.flat[0]} is out of bounds for {n} series.")
    return np.where(indices < 0, indices + n, indices)
