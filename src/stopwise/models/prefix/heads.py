"""The fitted heads of a prefix model: scores from the features, at some steps.

Between two heads, the scores of the earlier one hold. Applying a head to the features of another step was
tried: where the series of a set are aligned in time, it gave scores that were far too confident.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stopwise.models.prefix.features import Features, pools
from stopwise.models.prefix.rbf import CLIP

CHUNK_NUMBERS = 1 << 26  # pools held in memory at a time

Array = Any  # numpy.ndarray or torch.Tensor


@dataclass(frozen=True)
class RbfHeads:
    """The Gaussian kernels of one kind of statistics, at every head.

    Parameters
    ----------
    center, scale
        (G, F) standardization of the statistics.
    rate
        (G, 1) factor of squared distances in the exponent of the wide kernel.
    wide, narrow
        (G, 1) weights of the wide and the narrow kernel.
    landmarks
        (G, m, F) standardized statistics of training series.
    """

    center: np.ndarray
    scale: np.ndarray
    rate: np.ndarray
    wide: np.ndarray
    narrow: np.ndarray
    landmarks: np.ndarray

    def at(self, g: int) -> dict[str, np.ndarray]:
        """Return the arrays of head g, in double precision: large terms of the kernel cancel."""
        return {name: value[g].astype(np.float64) for name, value in vars(self).items()}


@dataclass(frozen=True)
class Heads:
    """Scores as functions of the features, at some steps.

    Parameters
    ----------
    steps
        (G,) steps of the heads, increasing, from 1.
    shares
        (G,) share of a head's own scores; the rest is taken from the scores before it. Less than 1 if the
        head was learned from few series.
    pooled
        Weights (G, F, K) of the pools, by block of kernels; only blocks that are used.
    rbf
        Gaussian kernels, by kind of statistics; only kinds that are used.
    coefficients
        (G, m, K) weights of the landmarks.
    constant
        (G, K).
    """

    steps: np.ndarray
    shares: np.ndarray
    pooled: dict[str, np.ndarray]
    rbf: dict[str, RbfHeads]
    coefficients: np.ndarray
    constant: np.ndarray

    def scores(self, g: int, pooled: dict[str, np.ndarray], statistics: dict[str, np.ndarray]) -> np.ndarray:
        """Return the scores (B, K) of head g, from pools and statistics (B, ·)."""
        found = np.repeat(self.constant[g][None], len(next(iter((pooled | statistics).values()))), axis=0)
        for name, weights in self.pooled.items():
            found += pooled[name] @ weights[g]
        for kind, rbf in self.rbf.items():
            found += rbf_kernel(np, statistics[kind], **rbf.at(g)) @ self.coefficients[g]
        return found


def rbf_kernel(
    xp: Any,
    statistics: Array,
    *,
    center: Array,
    scale: Array,
    rate: Array,
    wide: Array,
    narrow: Array,
    landmarks: Array,
) -> Array:
    """Return the kernel (…, B, m) of statistics (…, B, F) and landmarks (…, m, F).

    `xp` is numpy or torch. The other arguments are those of `RbfHeads` at one head.
    """
    z = ((statistics - center) / scale).clip(-CLIP, CLIP)
    products = z @ landmarks.swapaxes(-1, -2)
    near = (z * z).sum(-1)[..., None] - 2 * products + (landmarks * landmarks).sum(-1)[..., None, :]
    near = xp.exp(near.clip(0) * rate)
    narrower = near * near
    return near * wide + narrower * narrower * narrow


def all_scores(features: Features, heads: Heads, x: np.ndarray) -> np.ndarray:
    """Return the scores (B, T, K) of series x (B, T, C) after every sample."""
    steps = heads.steps[heads.steps <= x.shape[1]]
    x = features.scaled(x)
    found = np.empty((len(x), len(steps), heads.constant.shape[1]))
    size = max(1, CHUNK_NUMBERS // (2 * features.pooled * len(steps)))
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        pooled = {name: pools(features.blocks[name], x[part], steps) for name in heads.pooled}
        statistics = features.statistics.of(x[part], steps)
        for g in range(len(steps)):
            scores = heads.scores(
                g,
                {name: values[g] for name, values in pooled.items()},
                {kind: values[g].astype(np.float64) for kind, values in statistics.items()},
            )
            found[part, g] = scores
    return held(lean(found, heads.shares), steps, x.shape[1])


def lean(scores: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return scores (B, G, K) of the heads in which heads with few series lean on the scores before them."""
    for g in range(1, scores.shape[1]):
        if shares[g] < 1:
            scores[:, g] = shares[g] * scores[:, g] + (1 - shares[g]) * scores[:, g - 1]
    return scores


def held(scores: np.ndarray, steps: np.ndarray, count: int) -> np.ndarray:
    """Return the scores (B, count, K) at every step, from those at the heads (B, G, K).

    Examples
    --------
    >>> held(np.array([[[1.0], [2.0]]]), np.array([1, 3]), 4).ravel().tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    return scores[:, np.searchsorted(steps, np.arange(1, count + 1), side="right") - 1]
