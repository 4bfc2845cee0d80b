"""Compiled convolution and running pools of the kernels, for whole series.

The weights of a kernel sum to zero, so the oldest of its nine values is subtracted from the others first. The
outputs on constant values are then exactly 0. Rounding errors instead of 0 would decide which output of a
group is the largest, and which are above their bias: features that tell classes apart only by chance.
Outputs that are equal up to rounding remain elsewhere, so they are computed in the same order of operations
here and in the streaming step, without fused multiply-adds. Only the sums of the pools may be reordered.
"""

from __future__ import annotations

import numba
import numpy as np

exact = numba.njit(cache=True, nogil=True, error_model="numpy")
reordered = numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")


@exact
def channel_sums(x: np.ndarray, members: np.ndarray, sizes: np.ndarray, out: np.ndarray) -> None:
    """Write the sums of the channels of each group.

    Parameters
    ----------
    x
        (B, T, C) float32 series.
    members
        (Q, M) channels of each group, increasing; only the first `sizes` (Q,) count.
    sizes
        (Q,) number of channels of each group.
    out
        (B, Q, T) float32.
    """
    for b in range(x.shape[0]):
        for q in range(len(members)):
            row = out[b, q]
            for t in range(x.shape[1]):
                row[t] = x[b, t, members[q, 0]]
            for i in range(1, sizes[q]):
                channel = members[q, i]
                for t in range(x.shape[1]):
                    row[t] += x[b, t, channel]


@exact
def kernel_outputs(u: np.ndarray, dilation: int, taps: np.ndarray) -> np.ndarray:
    """Return the outputs (8, T) of the kernels of a group on one series u (T,).

    Before the start of the series, its first value is used.
    """
    out = np.empty((len(taps), len(u)), np.float32)
    _outputs(u, dilation, taps, out)
    return out


@reordered
def pool_series(
    u: np.ndarray,
    dilations: np.ndarray,
    taps: np.ndarray,
    biases: np.ndarray,
    times: np.ndarray,
    ends: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the running pools of all kernels at some steps.

    A kernel has four pools, divided by the step t: the number of outputs above its bias, the sum of these
    excesses, the sum of its outputs where they are the largest of its group, and the number of steps where
    its output is the smallest of its group.

    Parameters
    ----------
    u
        (B, Q, T) float32, the series that each group reads.
    dilations, taps, biases
        The groups, as in `KernelBlock`.
    times
        (G,) steps to write, increasing, counted from 1.
    ends
        (B,) lengths of the series; after its end, the pools of a series stay as they are.
    out
        (G, B, Q, 4, 8) float32.
    """
    groups, size, steps = u.shape[1], taps.shape[1], times[-1]
    outputs = np.empty((size, steps), np.float32)
    high, low = np.empty(steps, np.float32), np.empty(steps, np.float32)
    highest, lowest = np.empty(steps, np.int32), np.empty(steps, np.int32)
    for b in range(u.shape[0]):
        for q in range(groups):
            _outputs(u[b, q], dilations[q], taps[q], outputs)
            _extremes(outputs, high, highest, low, lowest)
            for k in range(size):
                above, excess, largest, smallest = 0, np.float32(0), np.float32(0), 0
                first, output, bias = 0, outputs[k], biases[q, k]
                for g in range(len(times)):
                    last = min(times[g], ends[b])
                    for t in range(first, last):
                        over = output[t] - bias
                        above += over > 0
                        excess += max(over, np.float32(0))
                    for t in range(first, last):
                        largest += high[t] if highest[t] == k else np.float32(0)
                        smallest += lowest[t] == k
                    share = np.float32(1) / np.float32(last)
                    out[g, b, q, 0, k] = np.float32(above) * share
                    out[g, b, q, 1, k] = excess * share
                    out[g, b, q, 2, k] = largest * share
                    out[g, b, q, 3, k] = np.float32(smallest) * share
                    first = last


@exact
def _outputs(u: np.ndarray, dilation: int, taps: np.ndarray, out: np.ndarray) -> None:
    """Write the outputs of the kernels of a group on one series u (T,) to out (8, ≤ T)."""
    steps = out.shape[1]
    held = 8 * dilation  # steps before the start, which hold the first value
    padded = np.empty(held + steps, np.float32)
    padded[:held] = u[0]
    padded[held:] = u[:steps]
    taken = np.empty((9, steps), np.float32)  # taps, relative to the oldest
    total = np.zeros(steps, np.float32)
    for j in range(9):
        tap = padded[j * dilation :]
        for t in range(steps):
            taken[j, t] = tap[t] - padded[t]
            total[t] += taken[j, t]
    for k in range(len(taps)):
        one, two, three = taken[taps[k, 0]], taken[taps[k, 1]], taken[taps[k, 2]]
        row = out[k]
        for t in range(steps):
            row[t] = np.float32(3) * (one[t] + two[t] + three[t]) - total[t]


@exact
def _extremes(
    outputs: np.ndarray, high: np.ndarray, highest: np.ndarray, low: np.ndarray, lowest: np.ndarray
) -> None:
    """Write the largest and smallest output (T,) of each step, and the first kernels (T,) that have them."""
    high[:], low[:], highest[:], lowest[:] = outputs[0], outputs[0], 0, 0
    for k in range(1, len(outputs)):
        row = outputs[k]
        for t in range(len(high)):
            above, below = row[t] > high[t], row[t] < low[t]
            high[t] = row[t] if above else high[t]
            highest[t] = k if above else highest[t]
            low[t] = row[t] if below else low[t]
            lowest[t] = k if below else lowest[t]
