"""Whole series from the sorted Arrow batches of a partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def each_series(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """Yield the name, the times (T,) and the samples (T, D) of each series.

    Parameters
    ----------
    batches
        Batches with columns series, time and x (lists of D numbers; optional), sorted by series and time. A
        series may extend over several batches.

    Examples
    --------
    >>> import pyarrow as pa  # doctest: +SKIP
    >>> batch = pa.RecordBatch.from_pydict({"series": ["a", "a", "b"], "time": [0, 1, 0]})  # doctest: +SKIP
    >>> [(name, times.tolist()) for name, times, _ in each_series([batch])]  # doctest: +SKIP
    [('a', [0, 1]), ('b', [0])]
    """
    parts: list[tuple[np.ndarray, np.ndarray]] = []  # of the current series
    current: Any = None
    for batch in batches:
        names = batch.column("series").to_pylist()
        times, values = _times(batch), _values(batch)
        starts = [i for i in range(len(names)) if i == 0 or not _same(names[i - 1], names[i])]
        for start, stop in zip(starts, [*starts[1:], len(names)]):
            if parts and not _same(current, names[start]):
                yield current, *_joined(parts)
                parts = []
            current = names[start]
            parts.append((times[start:stop], values[start:stop]))
    if parts:
        yield current, *_joined(parts)


def _same(one: Any, other: Any) -> bool:
    """Return whether two names are equal; NaN equals NaN, as for Spark."""
    return one == other or (one != one and other != other)


def _times(batch: pa.RecordBatch) -> np.ndarray:
    """Return the times (rows,); an array of objects if some are missing."""
    column = batch.column("time")
    if column.null_count:
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy(zero_copy_only=False)


def _values(batch: pa.RecordBatch) -> np.ndarray:
    """Return the samples (rows, D), or (rows, 0) if there are none."""
    if "x" not in batch.schema.names:
        return np.empty((batch.num_rows, 0))
    return batch.column("x").flatten().to_numpy().reshape(batch.num_rows, -1)


def _joined(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([times for times, _ in parts]), np.concatenate([values for _, values in parts])
