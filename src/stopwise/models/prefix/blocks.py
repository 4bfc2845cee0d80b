"""Kernel matrices of the kinds of features (blocks), and the search for their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from stopwise.models.prefix.calibration import fit_scale, log_loss
from stopwise.models.prefix.features import Features, pools
from stopwise.models.prefix.kernels import GROUP, POOLS, KernelBlock
from stopwise.models.prefix.parallel import in_threads
from stopwise.models.prefix.rbf import Rbf
from stopwise.models.prefix.ridge import PENALTIES, DualRidge, centered

WEIGHTS = (0.0, 0.3, 1.0, 3.0)
SWEEPS = 2
SEARCH_AT = (0.1, 0.3, 0.6)  # shares of the longest series at which the weights are compared
# Series of one sample, and number of samples: their losses are added. Many small samples cost less than one
# large one, and the weights vary less by chance than those of one small sample.
SEARCH_SERIES, SEARCH_SAMPLES = 400, 3
NEIGHBORS = 1  # penalties on each side of the best one that are tried in the search
PART = 24  # groups of kernels whose pools are held in memory at a time
NEGLIGIBLE = 1e-8  # mean variance below which pools are rounding errors: near the start of a series


def pool_scales(
    features: Features, x: np.ndarray, lengths: np.ndarray, steps: np.ndarray
) -> dict[str, np.ndarray]:
    """Return, by block, factors (G, 4) that give each kind of pool the total variance ¼ at each head.

    Parameters
    ----------
    features
        The features.
    x
        (B, T, C) a sample of the series.
    lengths
        (B,) lengths of the series.
    steps
        (G,) steps of the heads.
    """
    found = {}
    for name, block in features.blocks.items():
        pooled = pools(block, x, steps).reshape(len(steps), len(x), block.groups, POOLS, GROUP)
        factors = np.zeros((len(steps), POOLS), np.float32)
        for g, step in enumerate(steps):
            alive = lengths >= step
            variance = pooled[g, alive].var(axis=0, dtype=np.float64).sum(axis=(0, 2))  # (4,)
            some = variance > NEGLIGIBLE * block.groups * GROUP
            factors[g, some] = 0.5 / np.sqrt(variance[some])
        found[name] = factors
    return found


def add_pool_kernel(
    kernel: np.ndarray,
    block: KernelBlock,
    factors: np.ndarray,
    x: np.ndarray,
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
    x
        (n, T, C) series.
    landmarks
        (m,) rows of x.
    steps
        (G,) steps of the heads.
    """
    for start in range(0, block.groups, PART):
        pooled = pools(block.part(slice(start, start + PART)), x, steps)  # (G, n, F)
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


def unit(gram: np.ndarray) -> np.ndarray:
    """Return a centered Gram matrix (n, n) with mean diagonal 1; zero if its features do not vary."""
    gram = centered(gram.astype(np.float64))
    size = float(np.trace(gram)) / len(gram)
    return gram / size if size > 1e-6 else np.zeros_like(gram)


@dataclass(frozen=True)
class SearchPoint:
    """What the search for block weights needs at one head.

    Parameters
    ----------
    grams
        One (n, n) Gram matrix per kind of features.
    y
        (n,) class indices.
    folds
        Rows of each fold.
    """

    grams: list[np.ndarray]
    y: np.ndarray
    folds: list[np.ndarray]

    def losses(self, weights: np.ndarray, penalties: np.ndarray, classes: int) -> list[float]:
        """Return the held-out log loss for each penalty."""
        gram = combined(self.grams, weights)
        ridge = DualRidge(gram, np.eye(classes)[self.y])
        outputs = [ridge.left_out(penalty, self.folds) for penalty in penalties]
        return [log_loss(fit_scale(output, self.y) * output, self.y) for output in outputs]


def combined(grams: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Return Σ w² · K (n, n) of the blocks with their weights, with mean diagonal 1."""
    total = sum(weight**2 * gram for weight, gram in zip(weights, grams) if weight)
    return total / max(float(np.trace(total)) / len(total), 1e-12)


def search_points(
    features: Features,
    factors: dict[str, np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    lengths: np.ndarray,
    fold: np.ndarray,
    steps: np.ndarray,
) -> list[SearchPoint]:
    """Return the Gram matrices of all kinds of features at three heads."""
    heads = [int(np.abs(steps / steps[-1] - share).argmin()) for share in SEARCH_AT]
    heads = sorted(set(heads))
    kernels = []
    for name, block in features.blocks.items():
        kernel = np.zeros((len(heads), len(x), len(x)), np.float32)
        add_pool_kernel(kernel, block, factors[name][heads], x, np.arange(len(x)), steps[heads])
        kernels.append(kernel)
    statistics = features.statistics.of(x, steps[heads])
    points = []
    for i, head in enumerate(heads):
        rows = np.flatnonzero(lengths >= steps[head])
        grams = [unit(kernel[i][np.ix_(rows, rows)]) for kernel in kernels]
        for kind in features.statistics.kinds:
            rbf = Rbf.learn(statistics[kind][i][rows])
            z = rbf.standardized(statistics[kind][i][rows])
            grams.append(unit(rbf.gram(z, z)))
        points.append(SearchPoint(grams, y[rows], fold_rows(fold[rows])))
    return points


def fold_rows(fold: np.ndarray) -> list[np.ndarray]:
    """Return the rows of each fold that is not empty."""
    return [np.flatnonzero(fold == one) for one in np.unique(fold)]


def search_weights(points: list[SearchPoint], classes: int) -> np.ndarray:
    """Return the block weights of least held-out log loss, by coordinate search from 1.

    The loss is the sum over the search points, each with its best ridge penalty.
    """
    weights = np.ones(len(points[0].grams))
    places = [len(PENALTIES) // 2] * len(points)

    def evaluate(tried: np.ndarray, reach: int = NEIGHBORS) -> tuple[float, list[int]]:
        first = [max(0, place - reach) for place in places]
        losses = in_threads(
            lambda i: points[i].losses(tried, PENALTIES[first[i] : places[i] + reach + 1], classes),
            range(len(points)),
        )
        best = [start + int(np.argmin(found)) for start, found in zip(first, losses)]
        return sum(map(min, losses)), best

    loss, places = evaluate(weights, reach=len(PENALTIES))
    for _ in range(SWEEPS):
        for block in range(len(weights)):
            for value in WEIGHTS:
                tried = weights.copy()
                tried[block] = value
                if value == weights[block] or not tried.any():
                    continue
                new, found = evaluate(tried)
                if new < loss - 1e-6:
                    loss, weights, places = new, tried, found
    return weights
