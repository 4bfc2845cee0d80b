"""Numba kernels for the elementwise part of a step of the window LSTM.

The forward and the backward pass each need one pass over memory. `recurrence` computes the matrix products
and documents the arrays. A row is a window of a series. NaN inputs must give NaN outputs, so the comparisons
below are written such that NaN is passed on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.extending import overload

# Allow only fused multiply-adds. Reordering of sums would break the rounding trick in `_exp32`.
compiled = numba.njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")

Array = np.ndarray[Any, Any]
TANH, B2BLOG = 1, 2  # kinds of activation, as in `recurrence`


@compiled
def _exp32(x: Any) -> Any:
    """Exponential of a float32 within 2 units in the last place, in a form that LLVM can vectorize.

    ``x = n log 2 + r`` with ``|r| <= log(2)/2``. The polynomial for eʳ is from the Cephes library. Adding
    1.5·2²³ leaves the integer n in the low bits, from which it is shifted into the exponent of 2ⁿ.
    """
    f = np.float32
    x = f(-87.3) if x < f(-87.3) else x
    x = f(88.0) if x > f(88.0) else x
    shifted = x * f(1.44269504) + f(12582912.0)
    n = shifted - f(12582912.0)
    r = x - n * f(0.693359375) + n * f(2.12194440e-4)
    p = f(1.9875691500e-4) * r + f(1.3981999507e-3)
    p = p * r + f(8.3334519073e-3)
    p = p * r + f(4.1665795894e-2)
    p = p * r + f(1.6666665459e-1)
    p = p * r + f(5.0000001201e-1)
    bits = np.float32(shifted).view(np.int32) + np.int32(127)
    power = np.int32(bits << np.int32(23)).view(np.float32)
    return (p * r * r + r + f(1.0)) * power


@compiled
def _tanh32(x: Any) -> Any:
    """Hyperbolic tangent of a float32, by a polynomial near 0, where exponentials would cancel."""
    f = np.float32
    size = abs(x)
    s = x * x
    p = f(-5.70498872745e-3) * s + f(2.06390887954e-2)
    p = p * s - f(5.37397155531e-2)
    p = p * s + f(1.33314422036e-1)
    p = p * s - f(3.33332819422e-1)
    far = f(1.0) - f(2.0) / (_exp32(f(2.0) * size) + f(1.0))
    return p * s * x + x if size < f(0.625) else math.copysign(far, x)


def _exp(x: Any) -> Any:
    return math.exp(x)


def _tanh(x: Any) -> Any:
    return math.tanh(x)


@overload(_exp, strict=False)
def _typed_exp(x: Any) -> Callable[[Any], Any]:
    return (lambda x: _exp32(x)) if x == numba.float32 else (lambda x: math.exp(x))


@overload(_tanh, strict=False)
def _typed_tanh(x: Any) -> Callable[[Any], Any]:
    return (lambda x: _tanh32(x)) if x == numba.float32 else (lambda x: math.tanh(x))


@compiled
def _squash(x: Any, bounded: bool, alpha: Any, root: Any) -> Any:
    """Apply the activation: tanh if `bounded`, otherwise B2Bsqrt with α and √α."""
    if bounded:
        return _tanh(x)
    size = math.sqrt(alpha + abs(x)) + root
    return x if size == 0 else x / size  # avoid 0/0 for α = 0 and x = 0


@compiled
def _slope(y: Any, bounded: bool, root: Any, one: Any) -> Any:
    """Derivative of the activation as a function of its value."""
    if bounded:
        return one - y * y
    size = abs(y) + root
    return one / (size + size)


@compiled
def _log(x: Any) -> Any:
    """Apply B2Blog; its derivative is exp(−|y|)."""
    return math.copysign(math.log1p(abs(x)), x)


# B2Blog has loops of its own: in a common loop its logarithm would keep LLVM from vectorizing the others.
# The rows below fit into the first-level cache, so several short loops over a row cost little. In
# measurements, a single long loop over all arrays was slower.


@compiled
def advance(
    start: int,
    stop: int,
    projected: Array,
    gates: Array,
    cells: Array,
    states: Array,
    m: int,
    kind: int,
    alpha: float,
) -> None:
    """Add the inputs of step m to its gates, activate the gates in place, and write cells and states."""
    batch, size = projected.shape[1], cells.shape[2]
    zero, one, al = gates.dtype.type(0), gates.dtype.type(1), gates.dtype.type(alpha)
    root = gates.dtype.type(math.sqrt(alpha))
    bounded = kind == TANH
    for row in range(start, stop):
        gate, cell, before, state = gates[m, row], cells[m, row], cells[m - 1, row], states[m, row]
        i, f, o, candidate = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size], gate[3 * size :]
        inputs = projected[m + row // batch, row % batch]
        if m == 0:
            gate[:] = zero
        for j in range(3 * size):
            gate[j] = one / (one + _exp(-(gate[j] + inputs[j])))
        if kind == B2BLOG:
            for j in range(size):
                candidate[j] = _log(candidate[j] + inputs[3 * size + j])
        else:
            for j in range(size):
                candidate[j] = _squash(candidate[j] + inputs[3 * size + j], bounded, al, root)
        for j in range(size):
            cell[j] = i[j] * candidate[j]
        if m > 0:
            for j in range(size):
                cell[j] += f[j] * before[j]
        if kind == B2BLOG:
            for j in range(size):
                state[j] = o[j] * _log(cell[j])
        else:
            for j in range(size):
                state[j] = o[j] * _squash(cell[j], bounded, al, root)


@compiled
def retreat(
    start: int,
    stop: int,
    d_states: Array,
    gates: Array,
    cells: Array,
    dh: Array,
    dc: Array,
    m: int,
    kind: int,
    alpha: float,
) -> None:
    """Overwrite the gates of step m with their gradients, and dc with the gradient of the cells of step m−1.

    On entry, dh and dc are the gradients from step m+1. The gradient `d_states` of the output is added here.
    """
    size = cells.shape[2]
    zero, one, al = gates.dtype.type(0), gates.dtype.type(1), gates.dtype.type(alpha)
    root = gates.dtype.type(math.sqrt(alpha))
    bounded = kind == TANH
    for row in range(start, stop):
        gate, cell, before = gates[m, row], cells[m, row], cells[m - 1, row]
        i, f, o, candidate = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size], gate[3 * size :]
        asked, d_state, d_cell = d_states[m, row], dh[row], dc[row]
        for j in range(size):
            d_state[j] += asked[j]
        if kind == B2BLOG:
            for j in range(size):
                y = _log(cell[j])
                d_cell[j] += d_state[j] * o[j] * _exp(-abs(y))
                o[j] = d_state[j] * y * o[j] * (one - o[j])
            for j in range(size):
                d_input = d_cell[j] * candidate[j] * i[j] * (one - i[j])
                candidate[j] = d_cell[j] * i[j] * _exp(-abs(candidate[j]))
                i[j] = d_input
        else:
            for j in range(size):
                y = _squash(cell[j], bounded, al, root)
                d_cell[j] += d_state[j] * o[j] * _slope(y, bounded, root, one)
                o[j] = d_state[j] * y * o[j] * (one - o[j])
            for j in range(size):
                d_input = d_cell[j] * candidate[j] * i[j] * (one - i[j])
                candidate[j] = d_cell[j] * i[j] * _slope(candidate[j], bounded, root, one)
                i[j] = d_input
        if m > 0:
            for j in range(size):
                d_forget = d_cell[j] * before[j] * f[j] * (one - f[j])
                d_cell[j] *= f[j]
                f[j] = d_forget
        else:
            f[:] = zero


@compiled
def fold(start: int, stop: int, d_gates: Array, d_projected: Array) -> None:
    """Sum the gradients of all windows per step: d_gates (M, W, B·4H) → d_projected (T, B·4H)."""
    samples, windows, size = d_gates.shape
    for step in range(start, stop):
        total = d_projected[step]
        first = max(0, step - windows + 1)
        for j in range(size):
            total[j] = d_gates[first, step - first, j]
        for m in range(first + 1, min(samples, step + 1)):
            part = d_gates[m, step - m]
            for j in range(size):
                total[j] += part[j]
