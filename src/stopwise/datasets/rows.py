"""Rows of series that are made as they are read: what an index means."""

from __future__ import annotations

from typing import Any

import numpy as np


def row_indices(kind: str, key: Any, n: int) -> np.ndarray:
    """Return the non-negative indices meant by `key`: 0-d for one series, else (m,).

    Parameters
    ----------
    kind
        What is indexed, for messages.
    key
        A whole number, a slice, or a 1-d array of whole numbers or booleans.
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
            f"{kind} takes a whole number, a slice, or a 1-d array of whole numbers or booleans, "
            f"for the first axis only; got {key!r}. Materialise the series first: X[:50][..., 0]."
        )
    outside = indices[(indices < -n) | (indices >= n)]
    if outside.size:
        raise IndexError(f"index {outside.flat[0]} is out of bounds for {n} series.")
    return np.where(indices < 0, indices + n, indices)
