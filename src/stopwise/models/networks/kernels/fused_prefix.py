"""Numba kernels for attention inside every prefix of a window.

`prefix_attention` documents the computation. A row is a window of M samples with h heads of size d. Arrays of
pairs hold the tokens s <= i of prefix i, one prefix after the other, so pair (i, s) has index i(i+1)/2 + s.
Tokens are always the innermost dimension, so that the short loops can be vectorized. The pairs of a row fit
into the cache and are never written to larger arrays. The small matrix products are also computed here, so
that the threads need to synchronize only once for all rows.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stopwise.models.networks.kernels.fused_lstm import _exp

# The compiler may reorder sums; the order is then fixed. NaN and infinity are handled correctly.
compiled = numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")

Array = np.ndarray[Any, Any]

TILE = 256  # pairs processed at a time, for all units, such that they fit into the first-level cache


@compiled
def forward(
    start: int,
    stop: int,
    scores: Array,
    v: Array,
    units: Array,
    expand: Array,
    heads: Array,
    fired: Array,
) -> None:
    """Write heads (R, M, h·d) and fired (R, M, ff).

    Parameters
    ----------
    start, stop
        Range of rows to process.
    scores
        (R, h, M, M) scaled products of key j and query s.
    v
        (R, M, h·d) values.
    units
        (R, ff, M) contributions of the samples to the units.
    expand
        (ff, h·d) map from the heads to the units.
    heads, fired
        Output arrays.
    """
    softmax, pairs, hidden = _scratch(scores, expand)
    for row in range(start, stop):
        _mix(scores[row], v[row], softmax, pairs, heads[row])
        _multiply(expand, pairs, hidden)
        _fire(hidden, units[row], fired[row])


@compiled
def backward(
    start: int,
    stop: int,
    scores: Array,
    v: Array,
    units: Array,
    expand: Array,
    transposed: Array,
    d_heads: Array,
    d_fired: Array,
    d_scores: Array,
    d_v: Array,
    d_units: Array,
    d_expand: Array,
) -> None:
    """Write the gradients of the inputs of `forward`; the gradient of `expand` is (R, ff, h·d), per row."""
    softmax, pairs, hidden = _scratch(scores, expand)
    heads, d_pairs = np.empty_like(v[0]), np.empty_like(pairs)
    for row in range(start, stop):
        _mix(scores[row], v[row], softmax, pairs, heads)
        _multiply(expand, pairs, hidden)
        _unfire(hidden, units[row], d_fired[row], d_units[row])
        _multiply_transposed(hidden, pairs, d_expand[row])
        _multiply(transposed, hidden, d_pairs)
        _unmix(v[row], softmax, pairs, d_pairs, d_heads[row], d_scores[row], d_v[row])


@compiled
def _scratch(scores: Array, expand: Array) -> tuple[Array, Array, Array]:
    """Allocate the arrays for one row: softmax, pairs and hidden.

    softmax (3, h, M, M') holds the weights, decay factors and sums of weights after sample j. M' >= M is a
    multiple of 8, because loops over full vectors are faster. The values beyond M are finite and ignored.
    """
    heads, samples = scores.shape[1:3]
    count = samples * (samples + 1) // 2
    softmax = np.empty((3, heads, samples, (samples + 7) // 8 * 8), scores.dtype)
    return (
        softmax,
        np.empty((expand.shape[1], count), scores.dtype),
        np.empty((expand.shape[0], count), scores.dtype),
    )


@compiled
def _mix(scores: Array, v: Array, softmax: Array, pairs: Array, sums: Array) -> None:
    """Write the outputs of the heads (h·d, pairs) and their sums (M, h·d) over tokens by an online softmax.

    Weights are relative to the running maximum. When sample j raises the maximum, all sums so far are
    multiplied by the same decay factor, so no prefix can underflow.
    """
    heads, samples, wide = softmax.shape[1:]
    size = v.shape[1] // heads
    zero, one = v.dtype.type(0), v.dtype.type(1)
    z = np.zeros(wide, v.dtype)
    high = np.empty(wide, v.dtype)  # the running maximum
    inverse = np.empty(wide, v.dtype)
    running = np.empty((size, wide), v.dtype)
    for h in range(heads):
        e, fade, den = softmax[0, h], softmax[1, h], softmax[2, h]
        high[:samples] = scores[h, 0]
        high[samples:] = zero
        running[:] = zero
        for j in range(samples):
            z[:samples] = scores[h, j]
            e_j, fade_j, den_j = e[j], fade[j], den[j]
            for s in range(wide):
                top = high[s] if z[s] < high[s] else z[s]
                fade_j[s] = _exp(high[s] - top)
                high[s] = top
            for s in range(wide):
                e_j[s] = _exp(z[s] - high[s])
            before = den[j - 1] if j > 0 else running[0]  # `running` is 0 at this point
            for s in range(wide):
                den_j[s] = before[s] * fade_j[s] + e_j[s]
            for s in range(wide):
                inverse[s] = one / den_j[s]
            offset = j * (j + 1) // 2
            for f in range(size):
                g = h * size + f
                value, total = v[j, g], running[f]
                for s in range(wide):
                    total[s] = total[s] * fade_j[s] + value * e_j[s]
                outcome, summed = pairs[g, offset : offset + j + 1], zero
                for s in range(j + 1):
                    outcome[s] = total[s] * inverse[s]
                    summed += outcome[s]
                sums[j, g] = summed


@compiled
def _unmix(
    v: Array,
    softmax: Array,
    pairs: Array,
    d_pairs: Array,
    d_heads: Array,
    d_scores: Array,
    d_v: Array,
) -> None:
    """Write d_scores (h, M, M) and d_v (M, h·d), iterating from the last sample to the first.

    d_pairs is the gradient of the pairs except for the part through their sums, which is d_heads (M, h·d).
    The gradients of the running sums are multiplied by the same decay factors as the sums.
    """
    heads, samples, wide = softmax.shape[1:]
    size = v.shape[1] // heads
    zero, one = v.dtype.type(0), v.dtype.type(1)
    d_score = np.empty(wide, v.dtype)
    d_den = np.empty(wide, v.dtype)
    inverse = np.empty(wide, v.dtype)
    d_running = np.empty((size, wide), v.dtype)
    for h in range(heads):
        d_running[:] = zero
        d_den[:] = zero
        for j in range(samples - 1, -1, -1):
            e_j, fade_j, den_j = softmax[0, h, j], softmax[1, h, j], softmax[2, h, j]
            for s in range(wide):
                inverse[s] = one / den_j[s]
            d_score[:] = zero
            offset = j * (j + 1) // 2
            for f in range(size):
                g = h * size + f
                asked, value, d_total = d_heads[j, g], v[j, g], d_running[f]
                a, d_a = (
                    pairs[g, offset : offset + j + 1],
                    d_pairs[g, offset : offset + j + 1],
                )
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
                d_v[j, g] = summed
            for s in range(wide):
                d_score[s] = (d_score[s] + d_den[s]) * e_j[s]
                d_den[s] *= fade_j[s]
            d_scores[h, j] = d_score[:samples]


@compiled
def _fire(hidden: Array, units: Array, fired: Array) -> None:
    """Write the sums (M, ff) of relu(hidden + units) over the tokens of each prefix."""
    size, samples = units.shape
    zero = hidden.dtype.type(0)
    for f in range(size):
        own = units[f]
        for i in range(samples):
            offset = i * (i + 1) // 2
            pair = hidden[f, offset : offset + i + 1]
            summed = zero
            for s in range(i + 1):
                x = pair[s] + own[s]
                summed += zero if x < zero else x
            fired[i, f] = summed


@compiled
def _unfire(hidden: Array, units: Array, d_fired: Array, d_units: Array) -> None:
    """Overwrite `hidden` with its gradient and write d_units (ff, M)."""
    size, samples = units.shape
    zero = hidden.dtype.type(0)
    for f in range(size):
        own, d_own = units[f], d_units[f]
        d_own[:] = zero
        for i in range(samples):
            offset = i * (i + 1) // 2
            pair, asked = hidden[f, offset : offset + i + 1], d_fired[i, f]
            for s in range(i + 1):
                pair[s] = asked if pair[s] + own[s] > zero else zero
                d_own[s] += pair[s]


@compiled
def _multiply(matrix: Array, pairs: Array, out: Array) -> None:
    """Write matrix @ pairs, with eight rows of pairs at a time to reduce loads and stores of the sums."""
    inner, count = pairs.shape
    for low in range(0, count, TILE):
        tile = slice(low, min(low + TILE, count))
        for f in range(len(matrix)):
            w, r = matrix[f], out[f, tile]
            r[:] = matrix.dtype.type(0)
            for k in range(0, inner - 7, 8):
                a, b, c, d = (
                    pairs[k, tile],
                    pairs[k + 1, tile],
                    pairs[k + 2, tile],
                    pairs[k + 3, tile],
                )
                e, g, h, i = (
                    pairs[k + 4, tile],
                    pairs[k + 5, tile],
                    pairs[k + 6, tile],
                    pairs[k + 7, tile],
                )
                w0, w1, w2, w3 = w[k], w[k + 1], w[k + 2], w[k + 3]
                w4, w5, w6, w7 = w[k + 4], w[k + 5], w[k + 6], w[k + 7]
                for p in range(len(r)):
                    near = (w0 * a[p] + w1 * b[p]) + (w2 * c[p] + w3 * d[p])
                    far = (w4 * e[p] + w5 * g[p]) + (w6 * h[p] + w7 * i[p])
                    r[p] += near + far
            for k in range(inner - inner % 8, inner):
                weight, a = w[k], pairs[k, tile]
                for p in range(len(r)):
                    r[p] += weight * a[p]


@compiled
def _multiply_transposed(left: Array, right: Array, out: Array) -> None:
    """Write left @ rightᵀ for two arrays (·, pairs), with four columns at a time."""
    zero = left.dtype.type(0)
    inner, count = right.shape
    out[:] = zero
    for low in range(0, count, TILE):
        tile = slice(low, min(low + TILE, count))
        for f in range(len(left)):
            x = left[f, tile]
            for k in range(0, inner - 3, 4):
                a, b, c, d = (
                    right[k, tile],
                    right[k + 1, tile],
                    right[k + 2, tile],
                    right[k + 3, tile],
                )
                sum0, sum1, sum2, sum3 = zero, zero, zero, zero
                for p in range(len(x)):
                    sum0 += x[p] * a[p]
                    sum1 += x[p] * b[p]
                    sum2 += x[p] * c[p]
                    sum3 += x[p] * d[p]
                out[f, k] += sum0
                out[f, k + 1] += sum1
                out[f, k + 2] += sum2
                out[f, k + 3] += sum3
            for k in range(inner - inner % 4, inner):
                summed, a = zero, right[k, tile]
                for p in range(len(x)):
                    summed += x[p] * a[p]
                out[f, k] += summed
