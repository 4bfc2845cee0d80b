"""Attention inside every prefix of a window: the loops over (prefix, token) pairs.

`prefix_attention` says what is computed and does the matrix products. A row is a window of M samples with
h heads of size d; pairs hold the tokens s <= i of prefix i side by side, prefix after prefix:
pair (i, s) is number i(i+1)/2 + s. Tokens are innermost everywhere, so that the short loops vectorise.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stopwise.nets.lstm_kernels import _exp

# Sums may be reordered, once and for all when compiled; NaN and infinity keep their meaning.
compiled = numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")

Array = np.ndarray[Any, Any]


@compiled
def mix(
    start: int,
    stop: int,
    first: int,
    scores: Array,
    v: Array,
    e: Array,
    fade: Array,
    den: Array,
    pairs: Array,
    sums: Array,
) -> None:
    """Write the heads' outcomes of all pairs and their sums over tokens, by an online softmax.

    Weights are relative to the running maximum: when sample j raises it, all that was summed fades by the
    same factor, so no prefix can underflow.

    Parameters
    ----------
    start, stop, first
        The rows first+start..first+stop of scores and v go to rows start..stop of the rest.
    scores
        (R, h, M, M) products of key j and query s.
    v
        (R, M, h·d) values.
    e, fade, den
        (rows, h, M, M') weights, fading factors and sums of weights after sample j, written. M' >= M is a
        multiple of 8, what lies past M is finite and counts nowhere: loops over whole vectors are faster.
    pairs
        (rows, h·d, pairs), written.
    sums
        (R, M, h·d), written.
    """
    heads, samples, wide = e.shape[1:]
    size = v.shape[2] // heads
    zero, one = e.dtype.type(0), e.dtype.type(1)
    z = np.zeros(wide, e.dtype)
    high = np.empty(wide, e.dtype)  # the running maximum
    inverse = np.empty(wide, e.dtype)
    running = np.empty((size, wide), e.dtype)
    for row in range(start, stop):
        for h in range(heads):
            high[:samples] = scores[first + row, h, 0]
            high[samples:] = zero
            running[:] = zero
            inverse[:] = zero
            for j in range(samples):
                z[:samples] = scores[first + row, h, j]
                e_j, fade_j, den_j = e[row, h, j], fade[row, h, j], den[row, h, j]
                for s in range(wide):
                    top = high[s] if z[s] < high[s] else z[s]
                    fade_j[s] = _exp(high[s] - top)
                    high[s] = top
                for s in range(wide):
                    e_j[s] = _exp(z[s] - high[s])
                before = den[row, h, j - 1] if j else running[0]
                for s in range(wide):
                    den_j[s] = before[s] * fade_j[s] + e_j[s]
                for s in range(wide):
                    inverse[s] = one / den_j[s]
                offset = j * (j + 1) // 2
                for f in range(size):
                    g = h * size + f
                    value, total = v[first + row, j, g], running[f]
                    for s in range(wide):
                        total[s] = total[s] * fade_j[s] + value * e_j[s]
                    outcome, summed = pairs[row, g, offset : offset + j + 1], zero
                    for s in range(j + 1):
                        outcome[s] = total[s] * inverse[s]
                        summed += outcome[s]
                    sums[first + row, j, g] = summed


@compiled
def fire(start: int, stop: int, first: int, pairs: Array, units: Array, fired: Array) -> None:
    """Sum relu(pairs + units) over the tokens of each prefix.

    Parameters
    ----------
    start, stop, first
        As for `mix`.
    pairs
        (rows, ff, pairs) what the heads give to each unit.
    units
        (R, ff, M) what the samples give.
    fired
        (R, M, ff), written.
    """
    size, samples = units.shape[1:]
    zero = pairs.dtype.type(0)
    for row in range(start, stop):
        for f in range(size):
            own = units[first + row, f]
            for i in range(samples):
                offset = i * (i + 1) // 2
                pair = pairs[row, f, offset : offset + i + 1]
                summed = zero
                for s in range(i + 1):
                    x = pair[s] + own[s]
                    summed += zero if x < zero else x
                fired[first + row, i, f] = summed


@compiled
def unfire(
    start: int, stop: int, first: int, pairs: Array, units: Array, d_fired: Array, d_units: Array
) -> None:
    """Turn the units of all pairs into their gradients in place; write d_units (R, n, M)."""
    size, samples = pairs.shape[1], d_fired.shape[1]
    zero = pairs.dtype.type(0)
    for row in range(start, stop):
        for f in range(size):
            own, d_own = units[first + row, f], d_units[first + row, f]
            d_own[:] = zero
            for i in range(samples):
                offset = i * (i + 1) // 2
                pair = pairs[row, f, offset : offset + i + 1]
                slope = d_fired[first + row, i, f]
                for s in range(i + 1):
                    pair[s] = slope if pair[s] + own[s] > zero else zero
                    d_own[s] += pair[s]


@compiled
def unmix(
    start: int,
    stop: int,
    first: int,
    v: Array,
    e: Array,
    fade: Array,
    den: Array,
    pairs: Array,
    d_pairs: Array,
    d_heads: Array,
    d_scores: Array,
    d_v: Array,
) -> None:
    """Write d_scores (R, h, M, M) and d_v (R, M, h·d), from the last sample back to the first.

    Arrays are those of `mix`; d_pairs is the gradient of pairs without d_heads (R, M, h·d), that of their
    sums. What later prefixes ask of the running sums fades as they do.
    """
    heads, samples, wide = e.shape[1:]
    size = v.shape[2] // heads
    zero, one = e.dtype.type(0), e.dtype.type(1)
    d_score = np.empty(wide, e.dtype)
    d_den = np.empty(wide, e.dtype)
    inverse = np.empty(wide, e.dtype)
    d_running = np.empty((size, wide), e.dtype)
    for row in range(start, stop):
        for h in range(heads):
            d_running[:] = zero
            d_den[:] = zero
            for j in range(samples - 1, -1, -1):
                e_j, fade_j, den_j = e[row, h, j], fade[row, h, j], den[row, h, j]
                for s in range(wide):
                    inverse[s] = one / den_j[s]
                d_score[:] = zero
                offset = j * (j + 1) // 2
                for f in range(size):
                    g = h * size + f
                    asked, value, d_total = d_heads[first + row, j, g], v[first + row, j, g], d_running[f]
                    a, d_a = pairs[row, g, offset : offset + j + 1], d_pairs[row, g, offset : offset + j + 1]
                    for s in range(j + 1):
                        d = (d_a[s] + asked) * inverse[s]
                        d_total[s] += d
                        d_den[s] -= d * a[s]
                    summed = zero
                    for s in range(wide):
                        d = d_total[s]
                        d_score[s] += d * value
                        summed += d * e_j[s]
                        d_total[s] = d * fade_j[s]
                    d_v[first + row, j, g] = summed
                for s in range(wide):
                    d_score[s] = (d_score[s] + d_den[s]) * e_j[s]
                    d_den[s] *= fade_j[s]
                d_scores[first + row, h, j] = d_score[:samples]
