"""Numba kernels for attention inside every prefix of a window, with a normalization before the units.

As `fused_prefix`, but the units of a (token, prefix) pair are divided by the standard deviation of the token
before the bias is added. The variance ``own + (cross + square a) · a`` is a quadratic function of the heads
a. Since ``square a`` is linear in a, it is a mean of mapped values like the units: two such means and their
product per pair give the variance. Only the inverse standard deviations, one number per pair, are kept for
the backward pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.models.networks.kernels.fused_prefix import (
    PAIRS,
    TOKENS,
    Array,
    add_tokens,
    attend,
    compiled,
    pack,
    padded,
    scratch,
    unattend,
    unpack,
    unweigh,
    weigh,
)
from stopwise.models.networks.kernels.simd import (
    LANES,
    add_totals,
    fill,
    load,
    rectified,
    store,
    where_positive,
)


@compiled
def forward(
    start: int,
    stop: int,
    scores: Array,
    v: Array,
    mapped: Array,
    units: Array,
    squared: Array,
    cross: Array,
    own: Array,
    bias: Array,
    heads: Array,
    fired: Array,
    scales: Array,
) -> None:
    """Write heads (R, h, M, d), fired (R, M, ff) and scales (R, M·M').

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
    squared
        (R, h, h, M, d) contributions of the values of each head to ``square a``, for the components of each
        head.
    cross
        (R, h, M, d) coefficients of the variance that are linear in the heads.
    own
        (R, M) variances of the samples without the heads.
    bias
        (R, 1, ff) biases of the units, the same for all rows.
    heads, fired
        Output arrays.
    scales
        Output array for the inverse standard deviations of token s in the prefix up to j.
    """
    n_heads, samples = scores.shape[1:3]
    softmax, values, pairs = scratch(scores)
    own_values, means = np.empty_like(values[0]), np.empty_like(pairs[0])
    block = np.empty(samples * LANES, scores.dtype)
    token = np.empty(padded(samples) * LANES, scores.dtype)
    shift = np.empty(LANES, scores.dtype)
    zero = scores.dtype.type(0)
    for row in range(start, stop):
        variances = scales[row]
        variances[:] = zero
        for h in range(n_heads):
            weigh(scores[row, h], softmax[h])
        for g in range(n_heads):
            for low in range(0, v.shape[3], LANES):
                pack(v[row, g], low, own_values)
                pack(cross[row, g], low, token)
                for h in range(n_heads):
                    pack(squared[row, h, g], low, values[h])
                block[:] = zero
                for s in range(0, samples, TOKENS):
                    attend(softmax[g], own_values, s, samples, means)
                    add_tokens(means, s, samples, block)
                    for h in range(n_heads):
                        attend(softmax[h], values[h], s, samples, pairs[h])
                    _vary(means, pairs, token, s, samples, variances)
                unpack(block, low, heads[row, g])
        _scale(own[row], variances)
        for low in range(0, units.shape[2], LANES):
            pack(units[row], low, token)
            pack(bias[row], low, shift)
            for h in range(n_heads):
                pack(mapped[row, h], low, values[h])
            block[:] = zero
            for s in range(0, samples, TOKENS):
                for h in range(n_heads):
                    attend(softmax[h], values[h], s, samples, pairs[h])
                _fire(pairs, token, shift, variances, s, samples, block)
            unpack(block, low, fired[row])


@compiled
def backward(
    start: int,
    stop: int,
    scores: Array,
    v: Array,
    mapped: Array,
    units: Array,
    squared: Array,
    cross: Array,
    own: Array,
    bias: Array,
    scales: Array,
    d_heads: Array,
    d_fired: Array,
    d_scores: Array,
    d_v: Array,
    d_mapped: Array,
    d_units: Array,
    d_squared: Array,
    d_cross: Array,
    d_own: Array,
    d_bias: Array,
) -> None:
    """Write the gradients of the inputs of `forward`, given the scales. All else is computed again."""
    n_heads, samples = scores.shape[1:3]
    softmax, values, pairs = scratch(scores)
    own_values, means = np.empty_like(values[0]), np.empty_like(pairs[0])
    d_softmax, d_variances = np.empty_like(softmax[:, 0]), np.empty_like(softmax[0, 0])
    d_values, d_own_values = np.empty_like(values), np.empty_like(own_values)
    d_pairs, d_means = np.empty_like(means), np.empty_like(means)
    asked = np.empty(samples * LANES, scores.dtype)
    token = np.empty(padded(samples) * LANES, scores.dtype)
    d_token = np.empty_like(token)
    shift, d_shift = np.empty(LANES, scores.dtype), np.empty(LANES, scores.dtype)
    zero = scores.dtype.type(0)
    for row in range(start, stop):
        d_softmax[:] = zero
        d_variances[:] = zero
        for h in range(n_heads):
            weigh(scores[row, h], softmax[h])
        for low in range(0, units.shape[2], LANES):
            pack(units[row], low, token)
            pack(bias[row], low, shift)
            pack(d_fired[row], low, asked)
            for h in range(n_heads):
                pack(mapped[row, h], low, values[h])
            d_values[:] = zero
            d_token[:] = zero
            d_shift[:] = zero
            for s in range(0, samples, TOKENS):
                for h in range(n_heads):
                    attend(softmax[h], values[h], s, samples, pairs[h])
                _unfire(
                    pairs,
                    token,
                    shift,
                    scales[row],
                    asked,
                    s,
                    samples,
                    d_pairs,
                    d_token,
                    d_shift,
                    d_variances,
                )
                for h in range(n_heads):
                    unattend(softmax[h], values[h], s, samples, pairs[h], d_pairs, d_softmax[h], d_values[h])
            for h in range(n_heads):
                unpack(d_values[h], low, d_mapped[row, h])
            unpack(d_token, low, d_units[row])
            unpack(d_shift, low, d_bias[row])
        _unscale(scales[row], d_variances, d_own[row])
        for g in range(n_heads):
            for low in range(0, v.shape[3], LANES):
                pack(v[row, g], low, own_values)
                pack(cross[row, g], low, token)
                pack(d_heads[row, g], low, asked)
                for h in range(n_heads):
                    pack(squared[row, h, g], low, values[h])
                d_values[:] = zero
                d_own_values[:] = zero
                for s in range(0, samples, TOKENS):
                    attend(softmax[g], own_values, s, samples, means)
                    for h in range(n_heads):
                        attend(softmax[h], values[h], s, samples, pairs[h])
                    _unvary(means, pairs, token, asked, d_variances, s, samples, d_means, d_pairs, d_token)
                    unattend(softmax[g], own_values, s, samples, means, d_means, d_softmax[g], d_own_values)
                    for h in range(n_heads):
                        unattend(
                            softmax[h], values[h], s, samples, pairs[h], d_pairs, d_softmax[h], d_values[h]
                        )
                for h in range(n_heads):
                    unpack(d_values[h], low, d_squared[row, h, g])
                unpack(d_own_values, low, d_v[row, g])
                unpack(d_token, low, d_cross[row, g])
        for h in range(n_heads):
            unweigh(softmax[h], d_softmax[h], d_scores[row, h])


@compiled
def _added(token: Any, pairs: Array, at: int) -> Any:
    """Return a vector of the token plus those of all heads in the pairs (h, M·PAIRS)."""
    for h in range(len(pairs)):
        token = token + load(pairs[h], at)
    return token


@compiled
def _vary(means: Array, pairs: Array, cross: Array, s: int, samples: int, variances: Array) -> None:
    """Add ``(cross + square a) · a`` for one block of components, given a (`means`) and `pairs`."""
    wide = padded(samples)
    a, b, c, d = (
        load(cross, s * LANES),
        load(cross, (s + 1) * LANES),
        load(cross, (s + 2) * LANES),
        load(cross, (s + 3) * LANES),
    )
    for j in range(s, samples):
        p, q, r, t = j * PAIRS, j * PAIRS + LANES, j * PAIRS + 2 * LANES, j * PAIRS + 3 * LANES
        add_totals(
            variances,
            j * wide + s,
            _added(a, pairs, p) * load(means, p),
            _added(b, pairs, q) * load(means, q),
            _added(c, pairs, r) * load(means, r),
            _added(d, pairs, t) * load(means, t),
        )


@compiled
def _unvary(
    means: Array,
    pairs: Array,
    cross: Array,
    asked: Array,
    d_variances: Array,
    s: int,
    samples: int,
    d_means: Array,
    d_pairs: Array,
    d_cross: Array,
) -> None:
    """Write the gradients of means, pairs and the tokens' part in `_vary`; of means also in `add_tokens`."""
    wide = padded(samples)
    zero = fill(asked.dtype.type(0))
    for k in range(TOKENS):
        token, d_token = load(cross, (s + k) * LANES), zero
        for j in range(s, samples):
            p, d_mean, d_pair = j * PAIRS + k * LANES, zero, zero
            if k <= j - s:
                d = d_variances[j * wide + s + k]
                d_mean = load(asked, j * LANES) + _added(token, pairs, p) * d
                d_pair = load(means, p) * d
            store(d_means, p, d_mean)
            store(d_pairs, p, d_pair)
            d_token = d_token + d_pair
        store(d_cross, (s + k) * LANES, d_token)


@compiled
def _scale(own: Array, variances: Array) -> None:
    """Add the tokens' part to the variances (M·M'), and replace them by their inverse square roots."""
    samples = len(own)
    wide = padded(samples)
    zero, one, tiny = own.dtype.type(0), own.dtype.type(1), np.finfo(own.dtype).tiny
    for j in range(samples):
        row = variances[j * wide : (j + 1) * wide]
        for s in range(j + 1):
            variance = row[s] + own[s]
            # Rounding must not make it negative, and NaN stays NaN.
            row[s] = one / np.sqrt(tiny if variance < tiny else variance)
        row[j + 1 :] = zero  # these tokens are not in the prefix


@compiled
def _unscale(scales: Array, d_variances: Array, d_own: Array) -> None:
    """Replace gradients of scales (M·M') by those of the variances, and write those of the tokens' part."""
    samples = len(d_own)
    wide = padded(samples)
    zero, half = d_own.dtype.type(0), d_own.dtype.type(0.5)
    # A variance that was too small was replaced by a constant.
    top = d_own.dtype.type(1) / np.sqrt(np.finfo(d_own.dtype).tiny)
    d_own[:] = zero
    for j in range(samples):
        row, d_row = scales[j * wide : (j + 1) * wide], d_variances[j * wide : (j + 1) * wide]
        for s in range(j + 1):
            r = row[s]
            d = zero if r >= top else -half * r * r * r * d_row[s]
            d_row[s] = d
            d_own[s] += d


@compiled
def _fire(
    pairs: Array, token: Array, shift: Array, scales: Array, s: int, samples: int, block: Array
) -> None:
    """Add the activations of the tokens of each prefix, given the pairs (h, ·) of all heads, to a block."""
    wide = padded(samples)
    bias = load(shift, 0)
    for j in range(s, samples):
        x = load(block, j * LANES)
        for k in range(min(TOKENS, j - s + 1)):
            unit = _added(load(token, (s + k) * LANES), pairs, j * PAIRS + k * LANES)
            x = x + rectified(unit * scales[j * wide + s + k] + bias)
        store(block, j * LANES, x)


@compiled
def _unfire(
    pairs: Array,
    token: Array,
    shift: Array,
    scales: Array,
    asked: Array,
    s: int,
    samples: int,
    d_pairs: Array,
    d_token: Array,
    d_shift: Array,
    d_scales: Array,
) -> None:
    """Write the gradient of the pairs in `_fire`, and add those of the tokens' part, the bias and the scales.

    Gradients are 0 for tokens that are not in the prefix, except those of the scales, which are not used.
    """
    wide = padded(samples)
    bias, d_bias, zero = load(shift, 0), load(d_shift, 0), fill(asked.dtype.type(0))
    t, u, v, w = s * LANES, (s + 1) * LANES, (s + 2) * LANES, (s + 3) * LANES
    for j in range(s, samples):
        at, p, x, last = j * wide + s, j * PAIRS, load(asked, j * LANES), j - s
        a = _added(load(token, t), pairs, p)
        b = _added(load(token, u), pairs, p + LANES)
        c = _added(load(token, v), pairs, p + 2 * LANES)
        d = _added(load(token, w), pairs, p + 3 * LANES)
        d_a = where_positive(a * scales[at] + bias, x)
        d_b = where_positive(b * scales[at + 1] + bias, x if last >= 1 else zero)
        d_c = where_positive(c * scales[at + 2] + bias, x if last >= 2 else zero)
        d_d = where_positive(d * scales[at + 3] + bias, x if last >= 3 else zero)
        add_totals(d_scales, at, d_a * a, d_b * b, d_c * c, d_d * d)
        d_bias = d_bias + d_a + d_b + d_c + d_d
        d_a, d_b = d_a * scales[at], d_b * scales[at + 1]
        d_c, d_d = d_c * scales[at + 2], d_d * scales[at + 3]
        store(d_pairs, p, d_a)
        store(d_pairs, p + LANES, d_b)
        store(d_pairs, p + 2 * LANES, d_c)
        store(d_pairs, p + 3 * LANES, d_d)
        store(d_token, t, load(d_token, t) + d_a)
        store(d_token, u, load(d_token, u) + d_b)
        store(d_token, v, load(d_token, v) + d_c)
        store(d_token, w, load(d_token, w) + d_d)
    store(d_shift, 0, d_bias)
