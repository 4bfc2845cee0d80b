"""MiniRocket features: shares of positive outputs of fixed dilated convolutions.

Written from the description of the method by Dempster, Schmidt and Webb (KDD 2021). It is the feature
extractor of the peer in `stopwise.experiments.calimera`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Self

import numba
import numpy as np

TAPS = 9
FEATURES = 10_000  # about; rounded down to a multiple of the number of kernels
DILATIONS = 32  # most dilations per kernel
CHANNELS = 9  # most channels that a kernel sums
#: (84, 3) taps of each kernel with weight 2; the six others have weight −1.
PATTERNS = np.array(list(combinations(range(TAPS), 3)))
GOLDEN = (np.sqrt(5) + 1) / 2

compiled = numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")


@dataclass(frozen=True)
class MiniRocket:
    """Random features of series (n, T, d) of one length T ≥ 9.

    A combination is a kernel with a dilation and a subset of the channels, which are summed. Each combination
    has several biases: quantiles of its output on a random training series. A feature is the share of steps
    at which the output is above a bias.

    Parameters
    ----------
    length
        The length T.
    dilations
        (Q,) increasing dilations.
    channels
        (Q, 84, M) channels of each combination; only the first `sizes` (Q, 84) count.
    sizes
        (Q, 84) numbers of channels.
    biases
        (84·b,) biases, ordered by dilation, kernel and quantile.
    counts
        (Q,) number of biases of each combination with this dilation.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(5, 20, 2)).astype(np.float32)
    >>> MiniRocket.fit(X, seed=0).transform(X).shape
    (5, 9996)
    """

    length: int
    dilations: np.ndarray
    channels: np.ndarray
    sizes: np.ndarray
    biases: np.ndarray
    counts: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray, *, seed: int, features: int = FEATURES) -> Self:
        """Draw channels and biases for training series X (n, T, d).

        Parameters
        ----------
        X
            The series.
        seed
            Random seed.
        features
            Number of features, rounded down to a multiple of 84.
        """
        n, length, d = X.shape
        if length < TAPS:
            raise ValueError(f"`X` must have at least {TAPS} steps for MiniRocket; got {length}.")
        rng = np.random.default_rng(seed)
        dilations, counts = _dilations(length, max(1, features // len(PATTERNS)))
        shape = (len(dilations), len(PATTERNS))
        most = min(d, CHANNELS)
        sizes = (2 ** rng.uniform(0, np.log2(most + 1), shape)).astype(np.int64)  # (Q, 84), 1 to most
        channels = np.zeros((*shape, most), np.int64)
        for index, size in np.ndenumerate(sizes):
            channels[*index, :size] = rng.choice(d, size, replace=False)
        quantiles = (np.arange(1, counts.sum() * len(PATTERNS) + 1) * GOLDEN) % 1
        biases = np.empty(len(quantiles), np.float32)
        rows = rng.integers(n, size=shape)
        start = 0
        x = np.ascontiguousarray(X.transpose(0, 2, 1), dtype=np.float32)  # (n, d, T)
        for q, dilation in enumerate(dilations):
            for k, taps in enumerate(PATTERNS):
                own = channels[q, k, : sizes[q, k]]
                summed = x[rows[q, k], own].sum(axis=0)
                low, high = _valid(q, k, dilation, length)
                output = _output(_shifted(summed, dilation), taps)[low:high]
                stop = start + counts[q]
                biases[start:stop] = np.quantile(output, quantiles[start:stop])
                start = stop
        return cls(length, dilations, channels, sizes, biases, counts)

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the features (n, F), float32, of series X (n, T, d)."""
        x = np.ascontiguousarray(X.transpose(0, 2, 1), dtype=np.float32)
        out = np.empty((len(x), len(self.biases)), np.float32)
        _transform(x, self.dilations, self.channels, self.sizes, self.biases, self.counts, PATTERNS, out)
        return out


def _dilations(length: int, per_kernel: int) -> tuple[np.ndarray, np.ndarray]:
    """Return dilations (Q,), log-uniform up to the longest that fits, and the number of biases of each."""
    most = np.log2((length - 1) / (TAPS - 1))
    wanted = min(per_kernel, DILATIONS)
    dilations, counts = np.unique(np.logspace(0, most, wanted, base=2).astype(np.int64), return_counts=True)
    counts = (counts * (per_kernel / wanted)).astype(np.int64)
    counts[np.arange(per_kernel - counts.sum()) % len(counts)] += 1  # those lost by rounding
    return dilations, counts


@compiled
def _valid(q: int, k: int, dilation: int, length: int) -> tuple[int, int]:
    """Return the steps of the output that count: all, or, for every other kernel, those without padding."""
    if (q + k) % 2 == 0:
        return 0, length
    edge = (TAPS // 2) * dilation
    return edge, length - edge


@compiled
def _shifted(x: np.ndarray, dilation: int) -> np.ndarray:
    """Return the series (T,) seen by each tap, (9, T), zero outside the series."""
    length = len(x)
    out = np.zeros((TAPS, length), np.float32)
    for tap in range(TAPS):
        shift = (tap - TAPS // 2) * dilation
        for t in range(max(0, -shift), min(length, length - shift)):
            out[tap, t] = x[t + shift]
    return out


@compiled
def _output(shifted: np.ndarray, taps: np.ndarray) -> np.ndarray:
    """Return the output (T,) of a kernel: 3 × the chosen taps minus all taps."""
    out = np.zeros(shifted.shape[1], np.float32)
    for tap in range(TAPS):
        for t in range(len(out)):
            out[t] -= shifted[tap, t]
    for i in range(len(taps)):
        for t in range(len(out)):
            out[t] += np.float32(3) * shifted[taps[i], t]
    return out


@compiled
def _add_shares(output: np.ndarray, biases: np.ndarray, out: np.ndarray) -> None:
    """Write the share of outputs above each bias."""
    for b in range(len(biases)):
        above = np.int32(0)
        for t in range(len(output)):
            above += np.int32(output[t] > biases[b])
        out[b] = above / len(output)


@compiled
def _transform(
    x: np.ndarray,
    dilations: np.ndarray,
    channels: np.ndarray,
    sizes: np.ndarray,
    biases: np.ndarray,
    counts: np.ndarray,
    patterns: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the features of series x (n, d, T) to out (n, F)."""
    n, d, length = x.shape
    shifted = np.empty((d, TAPS, length), np.float32)
    total = np.empty((d, length), np.float32)  # minus the sum of all taps
    output = np.empty(length, np.float32)
    for i in range(n):
        start = 0
        for q in range(len(dilations)):
            for c in range(d):
                shifted[c] = _shifted(x[i, c], dilations[q])
                total[c] = _output(shifted[c], patterns[0, :0])
            for k in range(len(patterns)):
                a, b, g = patterns[k, 0], patterns[k, 1], patterns[k, 2]
                for j in range(sizes[q, k]):
                    c = channels[q, k, j]
                    if j == 0:
                        output[:] = 0
                    for t in range(length):
                        three = shifted[c, a, t] + shifted[c, b, t] + shifted[c, g, t]
                        output[t] += total[c, t] + np.float32(3) * three
                low, high = _valid(q, k, dilations[q], length)
                stop = start + counts[q]
                _add_shares(output[low:high], biases[start:stop], out[i, start:stop])
                start = stop
