"""The search for the weights of the kinds of features, by the held-out loss of a sample of the series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from stopwise.models.prefix.blocks import add_pool_kernel
from stopwise.models.prefix.calibration import fit_scale, log_loss
from stopwise.models.prefix.features import Features
from stopwise.models.prefix.folds import fold_rows
from stopwise.models.prefix.parallel import in_threads
from stopwise.models.prefix.rbf import Rbf
from stopwise.models.prefix.ridge import PENALTIES, DualRidge, centered
from stopwise.models.prefix.series import Series

WEIGHTS = (0.0, 0.3, 1.0, 3.0)
SWEEPS = 2
SEARCH_AT = (0.1, 0.3, 0.6)  # shares of the longest series at which the weights are compared
# Series of one sample, and number of samples: their losses are added. Many small samples cost less than one
# large one, and the weights vary less by chance than those of one small sample.
SEARCH_SERIES, SEARCH_SAMPLES = 400, 3
NEIGHBORS = 1  # penalties on each side of the best one that are tried in the search
CLEARLY = 2.0  # standard errors


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
    alive
        Rows of the series that have not ended: only their losses count.
    """

    grams: list[np.ndarray]
    y: np.ndarray
    folds: list[np.ndarray]
    alive: np.ndarray

    def outputs(self, weights: np.ndarray, penalties: np.ndarray, classes: int) -> list[np.ndarray]:
        """Return the held-out outputs (alive, K), with one scale, for each penalty."""
        ridge = DualRidge(combined(self.grams, weights), np.eye(classes)[self.y])
        found = [ridge.left_out(penalty, self.folds)[self.alive] for penalty in penalties]
        return [fit_scale(output, self.y[self.alive]) * output for output in found]

    def losses(self, weights: np.ndarray, penalties: np.ndarray, classes: int) -> list[float]:
        """Return the held-out log loss for each penalty."""
        y = self.y[self.alive]
        return [log_loss(output, y) for output in self.outputs(weights, penalties, classes)]

    def series_losses(self, classes: int) -> np.ndarray:
        """Return the held-out log loss (n,) of each series with equal weights; NaN if it has ended."""
        y, rows = self.y[self.alive], np.arange(len(self.alive))
        outputs = self.outputs(np.ones(len(self.grams)), PENALTIES, classes)
        best = min(outputs, key=lambda output: log_loss(output, y))
        found = np.full(len(self.y), np.nan)
        found[self.alive] = -log_softmax(best, axis=1)[rows, y]
        return found


def combined(grams: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Return Σ w² · K (n, n) of the blocks with their weights, with mean diagonal 1."""
    total = sum(weight**2 * gram for weight, gram in zip(weights, grams) if weight)
    return total / max(float(np.trace(total)) / len(total), 1e-12)


def search_points(
    features: Features,
    factors: dict[str, np.ndarray],
    series: Series,
    steps: np.ndarray,
    *,
    together: bool,
    widening: float,
    same_pools: Sequence[SearchPoint] | None = None,
) -> list[SearchPoint]:
    """Return the Gram matrices of all kinds of features at three heads; the arguments are as in `Draft`.

    With `same_pools`, the Gram matrices of the pools are taken from these points of the same series.
    """
    heads = sorted({int(np.abs(steps / steps[-1] - share).argmin()) for share in SEARCH_AT})
    heads = [head for head in heads if len(series.alive(steps[head]))]
    if same_pools is None:
        pooled = _pool_grams(
            features, {name: own[heads] for name, own in factors.items()}, series, steps[heads]
        )
    else:
        pooled = [point.grams[: len(features.blocks)] for point in same_pools]
    statistics = features.statistics.of(series.x, steps[heads], series.lengths)
    points = []
    for i, head in enumerate(heads):
        grams = list(pooled[i])
        for kind in features.statistics.kinds:
            parts = features.statistics.parts(kind) if together else None
            rbf = Rbf.learn(statistics[kind][i], parts, widening)
            z = rbf.standardized(statistics[kind][i])
            grams.append(unit(rbf.gram(z, z)))
        points.append(SearchPoint(grams, series.y, fold_rows(series.fold), series.alive(steps[head])))
    return points


def _pool_grams(
    features: Features, factors: dict[str, np.ndarray], series: Series, steps: np.ndarray
) -> list[list[np.ndarray]]:
    """Return, for each step, the Gram matrices (n, n) of the pools of each block."""
    everyone = np.arange(len(series))
    kernels = []
    for name, block in features.blocks.items():
        kernel = np.zeros((len(steps), len(series), len(series)), np.float32)
        add_pool_kernel(kernel, block, factors[name], series, everyone, steps)
        kernels.append(kernel)
    return [[unit(kernel[i]) for kernel in kernels] for i in range(len(steps))]


def clearly_better(
    tried: Sequence[Sequence[SearchPoint]], present: Sequence[Sequence[SearchPoint]], classes: int
) -> bool:
    """Whether the features tried have a clearly lower held-out loss than the present ones, on equal series.

    Both are the points of some samples of the series. The mean difference over the series must exceed two
    standard errors.
    """
    gains = []
    for new, old in zip(tried, present, strict=True):
        after, before = (
            np.stack(in_threads(lambda point: point.series_losses(classes), points))  # (points, n)
            for points in (new, old)
        )
        gains.append(np.nanmean(before - after, axis=0))  # the first head is reached by every series
    gain = np.concatenate(gains)
    return bool(gain.mean() > CLEARLY * gain.std() / np.sqrt(len(gain)))


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
