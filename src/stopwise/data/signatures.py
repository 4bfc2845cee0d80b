"""Hashes of series that stay the same under tiny changes, such as rounding or noise.

A series is reduced to a few random projections, each rounded to a grid. The grid has a width of `GRID`
standard deviations of a channel, so most changes far below this width leave the rounded values as they are.
A value may still lie next to a grid line and be rounded differently. So there are two grids, shifted by half
a width, and two series are taken as equal if they agree on one of them.

Not recognized as equal: a series that was rescaled, shifted, cropped, resampled, or whose channels were
exchanged.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from stopwise.data.series import SeriesSet

GRID = 1e-4  # width of the grid, in standard deviations
SHIFTS = np.array([0.0, 0.5])  # of the grids, in widths
# Enough to tell series apart whose differences are only ten times the grid, among millions of pairs.
PROJECTIONS = 12
BYTES = 6  # length of a hash; a random match among millions of pairs has a probability of about 1e-6
BATCH_NUMBERS = 1 << 20  # number of values to read at once
BLOCK = 1 << 16  # number of values that are projected at once


def signatures(series: SeriesSet, rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the hashes (m, 2) of series, one per grid, as integers.

    Parameters
    ----------
    series
        The series.
    rows
        (m,) indices of the series to hash.
    scale
        (D,) standard deviation of each channel.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(2, 50, 3))
    >>> X[1] = X[0] + 1e-7
    >>> first, second = signatures(SeriesSet(X), np.arange(2), np.ones(3))
    >>> bool((first == second).any())
    True
    """
    raw = np.zeros((len(rows), len(SHIFTS), 8), dtype=np.uint8)
    size = series.rows_of(BATCH_NUMBERS)
    for start in range(0, len(rows), size):
        x, lengths = series.batch(rows[start : start + size])
        values = _comparable(x) / scale  # (B, T, D)
        missing = np.isnan(values)
        projected = _project(np.where(missing, 0.0, values).reshape(len(x), -1))  # (B, P)
        projected /= np.sqrt(lengths * series.channels)[:, None]
        # As floats, because huge values do not fit into integers. Adding 0 turns -0 into 0.
        cells = np.floor(projected[:, None] / GRID + SHIFTS[:, None]) + 0.0  # (B, 2, P)
        for i, (own, gaps, length) in enumerate(zip(cells, missing, lengths), start):
            shape = length.tobytes() + np.packbits(gaps[:length]).tobytes()
            for grid, rounded in enumerate(own):
                text = bytes([grid]) + shape + rounded.tobytes()
                digest = hashlib.blake2b(text, digest_size=BYTES).digest()
                raw[i, grid, :BYTES] = np.frombuffer(digest, dtype=np.uint8)
    return raw.view("<u8")[..., 0].astype(np.uint64)


def distinct(hashes: np.ndarray) -> np.ndarray:
    """Return a number (n,) for each series such that equal series have the same number.

    Two series are equal if one of their hashes (n, 2) agrees, or if both are equal to a third one.

    Examples
    --------
    >>> distinct(np.array([[1, 5], [2, 6], [1, 7], [3, 7]])).tolist()
    [0, 1, 0, 0]
    """
    n, grids = hashes.shape
    _, places = np.unique(hashes, return_inverse=True)
    places = n + places.reshape(-1)
    links = coo_array((np.ones(n * grids), (np.repeat(np.arange(n), grids), places)), [places.max() + 1] * 2)
    return connected_components(links, directed=False)[1][:n]


def _comparable(x: np.ndarray) -> np.ndarray:
    """Return x in double precision, rounded to single precision so that copies in both types agree."""
    with np.errstate(over="ignore", under="ignore"):
        single = x.astype(np.float32)
    fits = np.isfinite(single) & (np.abs(single) >= np.finfo(np.float32).tiny)
    return np.where(fits, single, x).astype(np.float64)


def _project(values: np.ndarray) -> np.ndarray:
    """Return random projections (B, P) of values (B, N)."""
    total = np.zeros((len(values), PROJECTIONS))
    for block, start in enumerate(range(0, values.shape[1], BLOCK)):
        part = values[:, start : start + BLOCK]
        total += part @ _directions(block)[: part.shape[1]]
    return total


@lru_cache(maxsize=4)
def _directions(block: int) -> np.ndarray:
    """Return the weights (BLOCK, P) of one block of values: uniform, with variance 1."""
    # Raw bits of Philox are the same in all versions of numpy, unlike the distributions made from them.
    bits = np.random.Philox(key=block).random_raw((BLOCK, PROJECTIONS))
    return (bits / 2.0**63 - 1) * np.sqrt(3)
