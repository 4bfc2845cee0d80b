"""Numba kernels for attention inside every prefix of a window.

`prefix_attention` documents the computation. A row is a window of M samples with h heads. The output of a
head for a token s in the prefix of the samples up to i is a mean of values of the samples j <= i. Numbers
that are linear in the output, such as the contribution of a head to the feed-forward units, are means of
*mapped* values with the same weights. So the values are mapped once, and the products of each (token, prefix)
pair with the weights of the units are never computed.

The kernels work on `TOKENS` tokens and on a block of `LANES` values at a time, for all prefixes. The sums
over the samples of these tokens are in registers, and everything else fits into the first caches. Arrays are
one-dimensional inside: weights (M, M') of sample j for token s, with M' >= M a multiple of 16; blocks
(M, LANES) of the samples; pairs (M, TOKENS, LANES) of prefixes and tokens.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stopwise.models.networks.kernels.fused_lstm import _exp
from stopwise.models.networks.kernels.simd import (
    LANES,
    add_totals,
    fill,
    load,
    rectified,
    store,
    where_positive,
)

# The compiler may reorder sums; the order is then fixed. NaN and infinity are handled correctly.
compiled = numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")

Array = np.ndarray[Any, Any]

TOKENS = 4
PAIRS = TOKENS * LANES


@compiled
def forward(
    start: int,
    stop: int,
    scores: Array,
    v: Array,
    mapped: Array,
    units: Array,
    heads: Array,
    fired: Array,
) -> None:
    """Write heads (R, h, M, d) and fired (R, M, ff).

    Parameters
    ----------
    start, stop
        Range of rows to process.
    scores
        (R, h, M, M) scaled products of key j and query s.
    v
        (R, h, M, d) values.
    mapped
        (R, h, M, ff) contributions of the values to the units.
    units
        (R, M, ff) contributions of the samples to the units.
    heads, fired
        Output arrays.
    """
    n_heads, samples = scores.shape[1:3]
    softmax, values, pairs = scratch(scores)
    block = np.empty(samples * LANES, scores.dtype)
    own = np.empty(padded(samples) * LANES, scores.dtype)
    zero = scores.dtype.type(0)
    for row in range(start, stop):
        for h in range(n_heads):
            weigh(scores[row, h], softmax[h])
        for low in range(0, v.shape[3], LANES):
            for h in range(n_heads):
                pack(v[row, h], low, values[h])
                block[:] = zero
                for s in range(0, samples, TOKENS):
                    attend(softmax[h], values[h], s, samples, pairs[h])
                    add_tokens(pairs[h], s, samples, block)
                unpack(block, low, heads[row, h])
        for low in range(0, units.shape[2], LANES):
            pack(units[row], low, own)
            for h in range(n_heads):
                pack(mapped[row, h], low, values[h])
            block[:] = zero
            for s in range(0, samples, TOKENS):
                for h in range(n_heads):
                    attend(softmax[h], values[h], s, samples, pairs[h])
                _fire(pairs, own, s, samples, block)
            unpack(block, low, fired[row])


@compiled
def backward(
    start: int,
    stop: int,
    scores: Array,
    v: Array,
    mapped: Array,
    units: Array,
    d_heads: Array,
    d_fired: Array,
    d_scores: Array,
    d_v: Array,
    d_mapped: Array,
    d_units: Array,
) -> None:
    """Write the gradients of the inputs of `forward`. The pairs are computed again."""
    n_heads, samples = scores.shape[1:3]
    softmax, values, pairs = scratch(scores)
    d_softmax = np.empty_like(softmax[:, 0])
    d_values = np.empty_like(values)
    d_pairs = np.empty_like(pairs[0])
    asked = np.empty(samples * LANES, scores.dtype)
    own = np.empty(padded(samples) * LANES, scores.dtype)
    d_own = np.empty_like(own)
    zero = scores.dtype.type(0)
    for row in range(start, stop):
        d_softmax[:] = zero
        for h in range(n_heads):
            weigh(scores[row, h], softmax[h])
        for low in range(0, v.shape[3], LANES):
            for h in range(n_heads):
                pack(v[row, h], low, values[h])
                pack(d_heads[row, h], low, asked)
                d_values[h] = zero
                for s in range(0, samples, TOKENS):
                    attend(softmax[h], values[h], s, samples, pairs[h])
                    _unsum(asked, s, samples, d_pairs)
                    unattend(softmax[h], values[h], s, samples, pairs[h], d_pairs, d_softmax[h], d_values[h])
                unpack(d_values[h], low, d_v[row, h])
        for low in range(0, units.shape[2], LANES):
            pack(units[row], low, own)
            pack(d_fired[row], low, asked)
            for h in range(n_heads):
                pack(mapped[row, h], low, values[h])
            d_values[:] = zero
            for s in range(0, samples, TOKENS):
                for h in range(n_heads):
                    attend(softmax[h], values[h], s, samples, pairs[h])
                _unfire(pairs, own, asked, s, samples, d_pairs, d_own)
                for h in range(n_heads):
                    unattend(softmax[h], values[h], s, samples, pairs[h], d_pairs, d_softmax[h], d_values[h])
            for h in range(n_heads):
                unpack(d_values[h], low, d_mapped[row, h])
            unpack(d_own, low, d_units[row])
        for h in range(n_heads):
            unweigh(softmax[h], d_softmax[h], d_scores[row, h])


@compiled
def padded(samples: int) -> int:
    """Return the multiple of 16 from `samples` up."""
    return (samples + 15) // 16 * 16


@compiled
def scratch(scores: Array) -> tuple[Array, Array, Array]:
    """Allocate arrays for one row: softmax (h, 3, M·M'), values (h, M·LANES), pairs (h, M·PAIRS).

    softmax holds the weights, the decay factors and the inverse sums of weights. Values beyond M are finite
    and ignored.
    """
    heads, samples = scores.shape[1:3]
    return (
        np.empty((heads, 3, samples * padded(samples)), scores.dtype),
        np.empty((heads, samples * LANES), scores.dtype),
        np.empty((heads, samples * PAIRS), scores.dtype),
    )


@compiled
def pack(array: Array, low: int, block: Array) -> None:
    """Copy the columns from `low` on of an array (M, n) to a block; missing columns and rows are 0."""
    rows, columns = array.shape
    width = min(LANES, columns - low)
    if width < LANES or len(block) > rows * LANES:
        block[:] = block.dtype.type(0)
    for j in range(rows):
        source = array[j]
        for f in range(width):
            block[j * LANES + f] = source[low + f]


@compiled
def unpack(block: Array, low: int, array: Array) -> None:
    """Copy a block to the columns from `low` on of an array (M, n)."""
    rows, columns = array.shape
    width = min(LANES, columns - low)
    for j in range(rows):
        target = array[j]
        for f in range(width):
            target[low + f] = block[j * LANES + f]


@compiled
def weigh(scores: Array, softmax: Array) -> None:
    """Write weights, decay factors and inverse sums of weights of an online softmax for scores (M, M).

    The shortest prefix of a token s has the samples j <= s. Weights of these are relative to their maximum,
    later ones to the running maximum. If sample j raises the maximum, all sums so far are multiplied by the
    same decay factor, so no prefix can underflow.
    """
    samples = len(scores)
    wide = padded(samples)
    zero, one = scores.dtype.type(0), scores.dtype.type(1)
    weights, decays, inverses = softmax[0], softmax[1], softmax[2]
    high, summed = np.empty(wide, scores.dtype), np.zeros(wide, scores.dtype)
    high[:samples] = scores[0]
    high[samples:] = zero
    for j in range(1, samples):
        z = scores[j]
        for s in range(j, samples):
            high[s] = high[s] if z[s] < high[s] else z[s]
    for j in range(samples):
        e, decay = weights[j * wide : (j + 1) * wide], decays[j * wide : (j + 1) * wide]
        inverse = inverses[j * wide : (j + 1) * wide]
        e[:samples] = scores[j]
        e[samples:] = zero
        for s in range(j):
            top = high[s] if e[s] < high[s] else e[s]
            decay[s] = high[s] - top
            high[s] = top
        decay[j:] = zero
        for s in range(wide):
            decay[s] = _exp(decay[s])
        for s in range(wide):
            e[s] = _exp(e[s] - high[s])
        for s in range(wide):
            summed[s] = summed[s] * decay[s] + e[s]
        for s in range(wide):
            inverse[s] = one / summed[s]


@compiled
def unweigh(softmax: Array, d_softmax: Array, d_scores: Array) -> None:
    """Write d_scores (M, M) from the gradients of the weights, which include those of their sums."""
    samples = len(d_scores)
    wide = padded(samples)
    weights = softmax[0]
    for j in range(samples):
        e, d_e, d_score = (
            weights[j * wide : (j + 1) * wide],
            d_softmax[j * wide : (j + 1) * wide],
            d_scores[j],
        )
        for s in range(samples):
            d_score[s] = e[s] * d_e[s]


@compiled
def attend(softmax: Array, values: Array, s: int, samples: int, pairs: Array) -> None:
    """Write the means of the values for the tokens from s on in the prefixes from s on to `pairs`."""
    wide = padded(samples)
    weights, decays, inverses = softmax[0], softmax[1], softmax[2]
    zero = fill(values.dtype.type(0))
    a, b, c, d = zero, zero, zero, zero
    for j in range(s):
        at, x = j * wide + s, load(values, j * LANES)
        a = a + x * weights[at]
        b = b + x * weights[at + 1]
        c = c + x * weights[at + 2]
        d = d + x * weights[at + 3]
    for j in range(s, samples):
        at, x = j * wide + s, load(values, j * LANES)
        a = a * decays[at] + x * weights[at]
        b = b * decays[at + 1] + x * weights[at + 1]
        c = c * decays[at + 2] + x * weights[at + 2]
        d = d * decays[at + 3] + x * weights[at + 3]
        store(pairs, j * PAIRS, a * inverses[at])
        store(pairs, j * PAIRS + LANES, b * inverses[at + 1])
        store(pairs, j * PAIRS + 2 * LANES, c * inverses[at + 2])
        store(pairs, j * PAIRS + 3 * LANES, d * inverses[at + 3])


@compiled
def unattend(
    softmax: Array,
    values: Array,
    s: int,
    samples: int,
    pairs: Array,
    d_pairs: Array,
    d_softmax: Array,
    d_values: Array,
) -> None:
    """Add the gradients of weights and values, iterating from the last sample to the first.

    The gradients of the running sums are multiplied by the same decay factors as the sums. Those of the sums
    of weights (e, f, g, h below) are spread over the lanes, and added to those of the values (a, b, c, d).
    """
    wide = padded(samples)
    weights, decays, inverses = softmax[0], softmax[1], softmax[2]
    zero = fill(values.dtype.type(0))
    a, b, c, d = zero, zero, zero, zero
    e, f, g, h = zero, zero, zero, zero
    for j in range(samples - 1, s - 1, -1):
        at, p = j * wide + s, j * PAIRS
        x, d_x = load(values, j * LANES), load(d_values, j * LANES)
        d_a = load(d_pairs, p) * inverses[at]
        d_b = load(d_pairs, p + LANES) * inverses[at + 1]
        d_c = load(d_pairs, p + 2 * LANES) * inverses[at + 2]
        d_d = load(d_pairs, p + 3 * LANES) * inverses[at + 3]
        a, e = a + d_a, e - d_a * load(pairs, p)
        b, f = b + d_b, f - d_b * load(pairs, p + LANES)
        c, g = c + d_c, g - d_c * load(pairs, p + 2 * LANES)
        d, h = d + d_d, h - d_d * load(pairs, p + 3 * LANES)
        add_totals(d_softmax, at, a * x + e, b * x + f, c * x + g, d * x + h)
        d_x = d_x + a * weights[at] + b * weights[at + 1] + c * weights[at + 2] + d * weights[at + 3]
        store(d_values, j * LANES, d_x)
        a, e = a * decays[at], e * decays[at]
        b, f = b * decays[at + 1], f * decays[at + 1]
        c, g = c * decays[at + 2], g * decays[at + 2]
        d, h = d * decays[at + 3], h * decays[at + 3]
    for j in range(s):
        at = j * wide + s
        x, d_x = load(values, j * LANES), load(d_values, j * LANES)
        add_totals(d_softmax, at, a * x + e, b * x + f, c * x + g, d * x + h)
        d_x = d_x + a * weights[at] + b * weights[at + 1] + c * weights[at + 2] + d * weights[at + 3]
        store(d_values, j * LANES, d_x)


@compiled
def add_tokens(pairs: Array, s: int, samples: int, block: Array) -> None:
    """Add the pairs of each prefix, from s on, to a block."""
    for j in range(s, samples):
        x = load(block, j * LANES)
        for k in range(min(TOKENS, j - s + 1)):
            x = x + load(pairs, j * PAIRS + k * LANES)
        store(block, j * LANES, x)


@compiled
def _unsum(asked: Array, s: int, samples: int, d_pairs: Array) -> None:
    """Write the gradient of the pairs in `add_tokens`, which is 0 for tokens that are not in the prefix."""
    zero = fill(asked.dtype.type(0))
    for j in range(s, samples):
        x = load(asked, j * LANES)
        for k in range(TOKENS):
            store(d_pairs, j * PAIRS + k * LANES, x if k <= j - s else zero)


@compiled
def _fire(pairs: Array, own: Array, s: int, samples: int, block: Array) -> None:
    """Add the activations of the tokens of each prefix, given the pairs (h, ·) of all heads, to a block."""
    for j in range(s, samples):
        x = load(block, j * LANES)
        for k in range(min(TOKENS, j - s + 1)):
            unit = load(own, (s + k) * LANES)
            for h in range(len(pairs)):
                unit = unit + load(pairs[h], j * PAIRS + k * LANES)
            x = x + rectified(unit)
        store(block, j * LANES, x)


@compiled
def _unfire(
    pairs: Array, own: Array, asked: Array, s: int, samples: int, d_pairs: Array, d_own: Array
) -> None:
    """Write the gradient of the pairs and of the tokens' own part in `_fire`."""
    zero = fill(asked.dtype.type(0))
    for k in range(TOKENS):
        unit, d_unit = load(own, (s + k) * LANES), zero
        for j in range(s, samples):
            p, x = j * PAIRS + k * LANES, unit
            d_x = zero
            if k <= j - s:
                for h in range(len(pairs)):
                    x = x + load(pairs[h], p)
                d_x = where_positive(x, load(asked, j * LANES))
            store(d_pairs, p, d_x)
            d_unit = d_unit + d_x
        store(d_own, (s + k) * LANES, d_unit)
