"""Express fitted heads by weights of features, so that predictions need few or no training series."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stopwise.models.prefix import blocks
from stopwise.models.prefix.features import Features, pools
from stopwise.models.prefix.grid import head_shares
from stopwise.models.prefix.heads import Heads, RbfHeads
from stopwise.models.prefix.kernels import GROUP, POOLS

if TYPE_CHECKING:
    from stopwise.models.prefix.fitting import HeadFit, Series


def compiled(
    series: Series,
    features: Features,
    factors: dict[str, np.ndarray],
    weights: dict[str, float],
    steps: np.ndarray,
    fits: list[HeadFit],
    coefficients: list[np.ndarray],
    constants: list[np.ndarray],
) -> Heads:
    """Return the heads; the linear kernel of the pools collapses into one weight per pool.

    Parameters
    ----------
    series, features, factors, weights, steps
        As in `fitting`.
    fits
        The regression of each head.
    coefficients
        Per head, calibrated weights (m, K) of its landmarks. They sum to zero over the landmarks, up to
        rounding, so a constant added to a kernel does not matter.
    constants
        Per head, (K,).
    """
    used = np.unique(np.concatenate([fit.landmarks for fit in fits]))
    places = [np.searchsorted(used, fit.landmarks) for fit in fits]
    dense = np.zeros((len(steps), len(used), series.classes))
    for g, place in enumerate(places):
        dense[g, place] = coefficients[g]
    x = series.x[used]
    pooled = {}
    for name in features.blocks:
        if weights[name]:
            squared = [weights[name] ** 2 * fit.factor * factors[name][g] ** 2 for g, fit in enumerate(fits)]
            pooled[name] = _pool_weights(features, name, x, steps, places, squared, dense)
    statistics = features.statistics.of(x, steps)
    kinds = [kind for kind in features.statistics.kinds if weights[kind]]
    rbf = {kind: _rbf_heads(kind, statistics[kind], places, fits) for kind in kinds}
    shares = head_shares(np.array([len(fit.rows) for fit in fits]))
    return Heads(steps, shares, pooled, rbf, dense.astype(np.float32), np.array(constants))


def _pool_weights(
    features: Features,
    name: str,
    x: np.ndarray,
    steps: np.ndarray,
    places: list[np.ndarray],
    squared: list[np.ndarray],
    coefficients: np.ndarray,
) -> np.ndarray:
    """Return the weights (G, F, K) of the pools of one block.

    `squared` has the factors (4,) of the kernel at each head.
    """
    block = features.blocks[name]
    weights = np.empty((len(steps), features.pooled, coefficients.shape[2]), np.float32)
    for start in range(0, block.groups, blocks.PART):
        values = pools(block.part(slice(start, start + blocks.PART)), x, steps)  # (G, m, F)
        columns = slice(start * POOLS * GROUP, start * POOLS * GROUP + values.shape[2])
        for g, place in enumerate(places):
            scaled = blocks.scaled_pools(values[g][place], squared[g].astype(np.float32))
            weights[g, columns] = scaled.T @ coefficients[g, place].astype(np.float32)
    return weights


def _rbf_heads(kind: str, statistics: np.ndarray, places: list[np.ndarray], fits: list[HeadFit]) -> RbfHeads:
    """Return the Gaussian kernels of one kind of statistics (G, m, F) at all heads."""
    count, marks, size = statistics.shape
    center, scale = np.zeros((count, size), np.float32), np.ones((count, size), np.float32)
    rate, wide, narrow = (np.zeros((count, 1), np.float32) for _ in range(3))
    landmarks = np.zeros((count, marks, size), np.float32)
    for g, (fit, place) in enumerate(zip(fits, places)):
        if kind in fit.rbf:  # otherwise the statistics do not vary at this head
            learned, factor = fit.rbf[kind]
            center[g], scale[g], rate[g] = learned.center, learned.scale, -0.5 / learned.width
            wide[g], narrow[g] = factor * learned.weights[0], factor * learned.weights[1]
            landmarks[g, place] = learned.standardized(statistics[g][place])
    return RbfHeads(center, scale, rate, wide, narrow, landmarks)
