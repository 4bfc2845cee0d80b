"""Compiled kernel that centers and scales a large batch in one pass over memory."""

from __future__ import annotations

import numba
import numpy as np

LARGEST = float(np.finfo(np.float32).max)


@numba.njit(cache=True, nogil=True)
def standardize(x: np.ndarray, center: np.ndarray, factor: np.ndarray, out: np.ndarray) -> bool:
    """Write (x − center) · factor to `out`; return whether all results are finite.

    The computation is in double precision.

    Parameters
    ----------
    x
        (B, T, D) float32 or float64.
    center, factor
        (D,) float64.
    out
        (T, B, D) float32.
    """
    rows, steps, channels = x.shape
    bad = 0
    for t in range(steps):
        for b in range(rows):
            for d in range(channels):
                value = (np.float64(x[b, t, d]) - center[d]) * factor[d]
                bad |= not abs(value) <= LARGEST  # also True for NaN
                out[t, b, d] = value
    return bad == 0
