"""The fitted heads of a prefix model: scores of every prefix from the features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stopwise.models.prefix.features import Features, pools
from stopwise.models.prefix.rbf import CLIP, squared_distances

CHUNK_NUMBERS = 1 << 26  # pools held in memory at a time


@dataclass(frozen=True)
class RbfHeads:
    """The Gaussian kernels of one kind of statistics, at every head.

    Parameters
    ----------
    center, scale
        (G, F) standardization of the statistics.
    rate
        (G,) factor of squared distances in the exponent of the wide kernel.
    wide, narrow
        (G,) weights of the wide and the narrow kernel.
    landmarks
        (G, m, F) standardized statistics of training series.
    """

    center: np.ndarray
    scale: np.ndarray
    rate: np.ndarray
    wide: np.ndarray
    narrow: np.ndarray
    landmarks: np.ndarray

    def kernel(self, g: int, statistics: np.ndarray) -> np.ndarray:
        """Return the kernel (B, m) of statistics (B, F) and the landmarks at head g."""
        z = np.clip((statistics.astype(np.float64) - self.center[g]) / self.scale[g], -CLIP, CLIP)
        near = squared_distances(z, self.landmarks[g].astype(np.float64))
        near *= self.rate[g]
        np.exp(near, out=near)
        fourth = near * near
        fourth *= fourth
        return near * self.wide[g] + fourth * self.narrow[g]


@dataclass(frozen=True)
class Heads:
    """Linear maps from features to scores at some steps, and their weights at every step.

    Parameters
    ----------
    times
        (T, G) float32 weight of each head at each step; the last row also applies to later steps.
    pooled
        Per block of kernels: its weights (G, F, K); None if the block is not used.
    rbf
        Gaussian kernels by kind of statistics; only kinds that are used.
    coefficients
        (G, m, K) weights of the landmarks.
    constant
        (G, K).
    """

    times: np.ndarray
    pooled: tuple[np.ndarray | None, np.ndarray | None]
    rbf: dict[str, RbfHeads]
    coefficients: np.ndarray
    constant: np.ndarray

    def weights_at(self, steps: np.ndarray) -> np.ndarray:
        """Return the weights (t, G) of the heads at some steps, counted from 1."""
        return self.times[np.minimum(steps, len(self.times)) - 1]

    def at_head(self, g: int, pooled: list[np.ndarray | None], statistics: dict[str, np.ndarray]) -> np.ndarray:
        """Return the scores (B, K) of head g from pools and statistics (B, ·)."""
        scores = np.repeat(self.constant[g][None], len(next(iter(statistics.values()))), axis=0)
        for weights, values in zip(self.pooled, pooled):
            if weights is not None:
                scores += values @ weights[g]
        for kind, rbf in self.rbf.items():
            scores += rbf.kernel(g, statistics[kind]) @ self.coefficients[g]
        return scores


def all_scores(features: Features, heads: Heads, x: np.ndarray) -> np.ndarray:
    """Return the scores (B, T, K) of series x (B, T, C) after every sample."""
    steps = np.arange(1, x.shape[1] + 1)
    weights = heads.weights_at(steps)
    found = np.zeros((len(x), x.shape[1], heads.constant.shape[1]))
    size = max(1, CHUNK_NUMBERS // (2 * features.pooled * x.shape[1]))
    for start in range(0, len(x), size):
        part = x[start : start + size]
        pooled = [
            None if used is None else pools(block, part, steps)
            for block, used in zip(features.blocks, heads.pooled)
        ]
        statistics = features.statistics.of(part, steps)
        for g in np.flatnonzero(weights.any(axis=0)):
            on = np.flatnonzero(weights[:, g])
            on = slice(on[0], on[-1] + 1)  # weights of a head are positive in one interval
            flat = [None if one is None else one[on].reshape(-1, one.shape[2]) for one in pooled]
            named = {kind: statistics[kind][on].reshape(-1, statistics[kind].shape[2]) for kind in statistics}
            scores = heads.at_head(g, flat, named).reshape(-1, len(part), found.shape[2])
            found[start : start + size, on] += (weights[on, g, None, None] * scores).transpose(1, 0, 2)
    return found
