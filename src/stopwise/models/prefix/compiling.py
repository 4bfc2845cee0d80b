"""Express fitted heads by weights of features, so that predictions need few or no training series."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve

from stopwise.models.prefix import blocks
from stopwise.models.prefix.features import Features, pools
from stopwise.models.prefix.grid import head_shares
from stopwise.models.prefix.heads import Heads, RbfHeads
from stopwise.models.prefix.kernels import GROUP, POOLS
from stopwise.models.prefix.parallel import in_threads
from stopwise.models.prefix.rbf import Rbf
from stopwise.models.prefix.series import Series

if TYPE_CHECKING:
    from stopwise.models.prefix.draft import Draft
    from stopwise.models.prefix.fitting import HeadFit


NUGGET = 1e-6  # added to the diagonal of a kernel matrix, relative to its mean, before it is inverted


def compiled(
    draft: Draft,
    weights: dict[str, float],
    used: np.ndarray,
    landmarks: np.ndarray,
    fits: list[HeadFit],
    coefficients: np.ndarray,
    constants: np.ndarray,
) -> Heads:
    """Return the heads; the linear kernel of the pools collapses into one weight per pool.

    Parameters
    ----------
    draft, weights
        As in `fitting`.
    used
        (m,) rows of the series that the regressions were fitted with.
    landmarks
        (r,) rows among `used` of which the Gaussian kernels remain. Those of the others are projected.
    fits
        The regression of each head.
    coefficients
        (G, m, K) calibrated weights of the series used. They sum to zero, up to rounding, so a constant added
        to a kernel does not matter.
    constants
        (G, K).
    """
    series, features = draft.series.subset(used), draft.features
    pooled = {}
    for name in features.blocks:
        if weights[name]:
            scales = np.array([fit.factor for fit in fits])[:, None]
            squared = (weights[name] ** 2 * scales * draft.factors[name] ** 2).astype(np.float32)
            pooled[name] = _pool_weights(features, name, series, draft.steps, squared, coefficients)
    statistics = features.statistics.of(series.x, draft.steps, series.lengths)
    kinds = [kind for kind in features.statistics.kinds if weights[kind]]
    marks = np.searchsorted(used, landmarks)  # places of the landmarks in `used`
    if len(marks) < len(used):
        coefficients = np.stack(
            in_threads(
                lambda g: projected(fits[g].rbf, _at(statistics, g), marks, coefficients[g]), range(len(fits))
            )
        )
    rbf = {kind: _rbf_heads(kind, statistics[kind][:, marks], fits) for kind in kinds}
    shares = head_shares(np.array([len(fit.rows) for fit in fits]))
    return Heads(draft.steps, shares, pooled, rbf, coefficients.astype(np.float32), constants)


def projected(
    rbf: dict[str, tuple[Rbf, float]],
    statistics: dict[str, np.ndarray],
    marks: np.ndarray,
    coefficients: np.ndarray,
) -> np.ndarray:
    """Return weights (r, K) of some series that replace the weights (m, K) of all, for the Gaussian kernels.

    The function that they give is the nearest one in the space of the kernel. It is equal at the series kept.

    Parameters
    ----------
    rbf
        Kernels of one head and their factors, by kind of statistics.
    statistics
        (m, F) statistics of the series, by kind.
    marks
        (r,) rows of the series that are kept.
    coefficients
        (m, K) weights of all series.
    """
    kernel = np.zeros((len(marks), len(coefficients)))
    for kind, (learned, factor) in rbf.items():
        # Double precision: with rounding errors, the kernel of series that are equal would be singular.
        z = learned.standardized(statistics[kind].astype(np.float64))
        kernel += factor * learned.gram(z[marks], z)
    kept = kernel[:, marks]  # (r, r)
    kept[np.diag_indices_from(kept)] += NUGGET * max(float(np.trace(kept)) / len(kept), 1e-12)
    found: np.ndarray = solve(kept, kernel @ coefficients, assume_a="pos", check_finite=False)
    return found


def _at(statistics: dict[str, np.ndarray], g: int) -> dict[str, np.ndarray]:
    """Return the statistics (m, F) at one head, by kind."""
    return {kind: values[g] for kind, values in statistics.items()}


def _pool_weights(
    features: Features,
    name: str,
    series: Series,
    steps: np.ndarray,
    squared: np.ndarray,
    coefficients: np.ndarray,
) -> np.ndarray:
    """Return the weights (G, F, K) of the pools of one block.

    `squared` has the factors (G, 4) of the kernel.
    """
    block = features.blocks[name]
    weights = np.empty((len(steps), features.pooled, coefficients.shape[2]), np.float32)
    for start in range(0, block.groups, blocks.PART):
        part = block.part(slice(start, start + blocks.PART))
        values = pools(part, series.x, steps, series.lengths)  # (G, m, F)
        columns = slice(start * POOLS * GROUP, start * POOLS * GROUP + values.shape[2])
        for g, own in enumerate(coefficients):
            scaled = blocks.scaled_pools(values[g], squared[g])
            weights[g, columns] = scaled.T @ own.astype(np.float32)
    return weights


def _rbf_heads(kind: str, statistics: np.ndarray, fits: list[HeadFit]) -> RbfHeads:
    """Return the Gaussian kernels of one kind of statistics (G, m, F) at all heads."""
    count, marks, size = statistics.shape
    center, scale = np.zeros((count, size), np.float32), np.ones((count, size), np.float32)
    rate, wide, narrow = (np.zeros((count, 1), np.float32) for _ in range(3))
    landmarks = np.zeros((count, marks, size), np.float32)
    for g, fit in enumerate(fits):
        if kind in fit.rbf:  # otherwise the statistics do not vary at this head
            learned, factor = fit.rbf[kind]
            center[g], scale[g], rate[g] = learned.center, learned.scale, -0.5 / learned.width
            wide[g], narrow[g] = factor * learned.weights[0], factor * learned.weights[1]
            landmarks[g] = learned.standardized(statistics[g])
    return RbfHeads(center, scale, rate, wide, narrow, landmarks)
