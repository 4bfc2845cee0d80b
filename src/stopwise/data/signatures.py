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
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from stopwise.data.series import SeriesSet

GRID = 1e-4  # width of the grid, in standard deviations
SHIFTS = np.array([0.0, 0.5])  # of the grids, in widths
# Enough to tell series apart whose differences are only ten times the grid, among millions of pairs.
PROJECTIONS = 12
BYTES = 6  # length of a hash; a random match among millions of pairs has a probability of about 1e-6
PADDING = bytes(8 - BYTES)
BATCH_NUMBERS = 1 << 18  # number of values to read at once
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
    digests = bytearray()
    directions = lru_cache(maxsize=4)(partial(_scaled_directions, series.steps * series.channels, scale))
    size = series.rows_of(BATCH_NUMBERS)
    for start in range(0, len(rows), size):
        x, lengths = series.batch(rows[start : start + size])
        values, missing = _comparable(x).reshape(len(x), -1), None  # (B, T·D)
        projected = _project(values, directions)  # (B, P)
        if not np.isfinite(projected).all():  # there are missing or huge values
            missing = np.isnan(values)
            projected = _project(np.where(missing, 0.0, values), directions)
        projected /= np.sqrt(lengths * series.channels)[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            # As floats, because huge values do not fit into integers. Adding 0 turns -0 into 0.
            cells = np.floor(projected[:, None] / GRID + SHIFTS[:, None]) + 0.0  # (B, 2, P)
        own = np.empty((len(x), len(SHIFTS), 2 + PROJECTIONS))
        own[..., 0], own[..., 1], own[..., 2:] = np.arange(len(SHIFTS)), lengths[:, None], cells
        for i, one in enumerate(own):
            gaps = b""
            if missing is not None and missing[i].any():
                gaps = np.packbits(missing[i, : lengths[i] * series.channels]).tobytes()
            for text in one:
                digests += hashlib.blake2b(text.tobytes() + gaps, digest_size=BYTES).digest() + PADDING
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64).reshape(-1, len(SHIFTS))


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
    if x.dtype == np.float32:
        return x.astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        single = x.astype(np.float32)
    rounded = single.astype(np.float64)
    # Numbers that single precision cannot represent stay as they are. NaN and 0 are the same in both.
    lost = np.isinf(single) | (np.abs(single) < np.finfo(np.float32).tiny)
    return np.where(lost, x, rounded) if lost.any() else rounded


def _project(values: np.ndarray, directions: Callable[[int], np.ndarray]) -> np.ndarray:
    """Return random projections (B, P) of values (B, N), by the weights of each block of values."""
    total = np.zeros((len(values), PROJECTIONS))
    with np.errstate(over="ignore", invalid="ignore"):
        for block, start in enumerate(range(0, values.shape[1], BLOCK)):
            part = values[:, start : start + BLOCK]
            total += part @ directions(block)[: part.shape[1]]
    return total


def _scaled_directions(numbers: int, scale: np.ndarray, block: int) -> np.ndarray:
    """Return the weights of a block of the `numbers` values of a series, divided by the scale (D,)."""
    places = np.arange(block * BLOCK, min((block + 1) * BLOCK, numbers))
    return _directions(block)[: len(places)] / scale[places % len(scale), None]


@lru_cache(maxsize=4)
def _directions(block: int) -> np.ndarray:
    """Return the weights (BLOCK, P) of one block of values: uniform, with variance 1."""
    # Raw bits of Philox are the same in all versions of numpy, unlike the distributions made from them.
    bits = np.random.Philox(key=block).random_raw((BLOCK, PROJECTIONS))
    return (bits / 2.0**63 - 1) * np.sqrt(3)
