"""Kernel matrices of the blocks of convolution kernels."""

from __future__ import annotations

from functools import partial

import numpy as np

from stopwise.models.prefix.features import Features, pools
from stopwise.models.prefix.kernels import GROUP, POOLS, KernelBlock
from stopwise.models.prefix.parallel import in_threads
from stopwise.models.prefix.series import Series

PART = 24  # groups of kernels whose pools are held in memory at a time
NEGLIGIBLE = 1e-8  # mean variance below which pools are rounding errors: near the start of a series


def pool_scales(features: Features, series: Series, steps: np.ndarray) -> dict[str, np.ndarray]:
    """Return, by block, factors (G, 4) that give each kind of pool the total variance ¼ at each head.

    Parameters
    ----------
    features
        The features.
    series
        A sample of the series.
    steps
        (G,) steps of the heads.
    """
    found = {}
    for name, block in features.blocks.items():
        pooled = pools(block, series.x, steps, series.lengths)
        shaped = pooled.reshape(len(steps), len(series), block.groups, POOLS, GROUP)
        variance = np.stack([one.var(axis=0, dtype=np.float64).sum(axis=(0, 2)) for one in shaped])  # (G, 4)
        some = variance > NEGLIGIBLE * block.groups * GROUP
        factors = np.zeros(variance.shape, np.float32)
        factors[some] = 0.5 / np.sqrt(variance[some])
        found[name] = factors
    return found


def add_pool_kernel(
    kernel: np.ndarray,
    block: KernelBlock,
    factors: np.ndarray,
    series: Series,
    landmarks: np.ndarray,
    steps: np.ndarray,
) -> None:
    """Add the linear kernel of the pools of a block to `kernel` (G, n, m).

    Parameters
    ----------
    kernel
        (G, n, m) float32 array that is added to.
    block
        Convolution kernels.
    factors
        (G, 4) factors of the pools.
    series
        The n series.
    landmarks
        (m,) rows of the series.
    steps
        (G,) steps of the heads.
    """
    for start in range(0, block.groups, PART):
        pooled = pools(block.part(slice(start, start + PART)), series.x, steps, series.lengths)
        in_threads(partial(_add_products, kernel, pooled, factors, landmarks), range(len(steps)))


def _add_products(
    kernel: np.ndarray, pooled: np.ndarray, factors: np.ndarray, landmarks: np.ndarray, g: int
) -> None:
    """Add the products of the pools (G, n, F) of one head."""
    scaled = scaled_pools(pooled[g], factors[g])
    kernel[g] += scaled @ scaled[landmarks].T


def scaled_pools(pooled: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return pools (n, Q·4·8), each kind of pool multiplied by its factor (4,)."""
    shaped = pooled.reshape(len(pooled), -1, POOLS, GROUP)
    return (shaped * factors[:, None]).reshape(len(pooled), -1)
