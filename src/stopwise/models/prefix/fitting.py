"""Fit the heads of a prefix model in closed form, with held-out scores of the training series."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.special import log_softmax

from stopwise.models.prefix import blocks, calibration, ridge
from stopwise.models.prefix.compiling import compiled
from stopwise.models.prefix.features import DRAW_ROWS, SCALE_ROWS, Features
from stopwise.models.prefix.grid import head_steps
from stopwise.models.prefix.heads import Heads, lean
from stopwise.models.prefix.parallel import in_threads
from stopwise.models.prefix.rbf import Rbf
from stopwise.progress import Stages

SEARCH, HEADS = "weighing features", "fitting"
FIT_SHARES = {SEARCH: 0.3, HEADS: 0.7}  # stages of a fit and their share of the time
FEWEST_ALIVE = 5  # series that a head needs at least ...
SMALLEST_SHARE = 0.02  # ... and as a share of all
KERNEL_NUMBERS = 1 << 29  # numbers of kernel matrices held in memory at a time


@dataclass
class Series:
    """Training series of a prefix model.

    Parameters
    ----------
    x
        (n, T, C) series.
    y
        (n,) class indices.
    lengths
        (n,) lengths.
    fold
        (n,) fold of each series.
    classes
        K, the number of classes.
    """

    x: np.ndarray
    y: np.ndarray
    lengths: np.ndarray
    fold: np.ndarray
    classes: int

    def alive(self, step: int) -> np.ndarray:
        """Return the rows of the series that have at least this many steps."""
        return np.flatnonzero(self.lengths >= step)

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return a random sample of rows, in order, with the same share of each class, at least two of it."""
        if count >= len(self.y):
            return np.arange(len(self.y))
        chosen = []
        for k in np.unique(self.y):
            rows = np.flatnonzero(self.y == k)
            share = max(2, round(count * len(rows) / len(self.y)))
            chosen.append(rng.permutation(rows)[:share])
        return np.sort(np.concatenate(chosen))

    def samples(self, count: int, most: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return up to `most` random samples of rows, as of `sample`, without common rows if possible."""
        number = min(most, len(self.y) // count)
        if number <= 1:
            return [self.sample(count, rng)]
        chosen: list[list[np.ndarray]] = [[] for _ in range(number)]
        for k in np.unique(self.y):
            rows = rng.permutation(np.flatnonzero(self.y == k))
            share = min(len(rows), max(2, round(count * len(rows) / len(self.y))))
            for i, part in enumerate(chosen):  # a rare class begins again
                part.append(rows[np.arange(i * share, (i + 1) * share) % len(rows)])
        return [np.sort(np.concatenate(part)) for part in chosen]


@dataclass
class HeadFit:
    """Ridge regressions of one head with every penalty, before calibration."""

    rows: np.ndarray  # (n,) series that are long enough
    landmarks: np.ndarray  # (m,) of these, the series that the head is expressed by
    outputs: np.ndarray  # (penalties, n, K) held-out predictions
    coefficients: np.ndarray  # (penalties, m, K) of the landmarks
    intercepts: np.ndarray  # (penalties, K)
    losses: np.ndarray  # (penalties,) held-out log loss
    rbf: dict[str, tuple[Rbf, float]]  # kernels by kind of statistics, with their factors
    factor: float  # of the kernel of the pools


@dataclass
class Fit:
    """Result of a fit."""

    features: Features
    heads: Heads
    steps: np.ndarray  # (G,)
    held_out: np.ndarray  # (n, G, K) scores: log posterior − log prior; NaN where a series is too short
    report: dict[str, Any] = field(default_factory=dict)


def fit_prefix(
    series: Series,
    *,
    kernels: int,
    landmarks: int,
    random_state: int,
    stages: Stages,
) -> Fit:
    """Fit a prefix model.

    Parameters
    ----------
    series
        Training series.
    kernels
        Number of convolution kernels of each of the two blocks.
    landmarks
        Number of series above which a sample of this size represents the training series.
    random_state
        Random seed.
    stages
        Progress of the stages in `FIT_SHARES`.
    """
    rng = np.random.default_rng(random_state)
    watch = _Watch()
    steps = head_steps(int(series.lengths.max()))
    counts = np.array([len(series.alive(step)) for step in steps])
    steps = steps[counts >= max(FEWEST_ALIVE, SMALLEST_SHARE * len(series.y))]
    drawn = series.sample(DRAW_ROWS, rng)
    features = Features.draw(series.x[drawn], series.lengths[drawn], kernels, rng)
    few = series.sample(SCALE_ROWS, rng)
    factors = blocks.pool_scales(features, series.x[few], series.lengths[few], steps)
    watch.lap("features")
    samples = series.samples(blocks.SEARCH_SERIES, blocks.SEARCH_SAMPLES, rng)
    with stages.stage(SEARCH, 1) as stage:
        points = [
            point
            for rows in samples
            for point in blocks.search_points(
                features,
                factors,
                series.x[rows],
                series.y[rows],
                series.lengths[rows],
                series.fold[rows],
                steps,
            )
        ]
        weights = dict(zip(features.kinds, blocks.search_weights(points, series.classes).tolist()))
        stage.advance()
    watch.lap("search")
    chosen = series.sample(landmarks, rng)
    with stages.stage(HEADS, len(steps)) as stage:
        fits = _fit_heads(series, features, factors, weights, steps, chosen, stage.advance)
    watch.lap("heads")
    picked = _pick(np.stack([fit.losses for fit in fits]))
    heads, held_out, penalty = _calibrated(series, features, factors, weights, steps, fits, picked)
    watch.lap("calibration")
    report = {
        "block_weights": weights,
        "steps": steps.tolist(),
        "ridge": [float(head_penalties(len(series.y), len(chosen))[i]) for i in picked],
        "calibration_penalty": penalty,
        "held_out_loss": _losses(held_out, series.y),
        "series": len(series.y),
        "landmarks": len(chosen),
        "kernels": kernels,
        "seconds": watch.laps,
    }
    return Fit(features, heads, steps, held_out, report)


def _fit_heads(
    series: Series,
    features: Features,
    factors: dict[str, np.ndarray],
    weights: dict[str, float],
    steps: np.ndarray,
    landmarks: np.ndarray,
    advance: Callable[[], None],
) -> list[HeadFit]:
    """Return the ridge regressions of all heads; kernel matrices of some heads are in memory at a time."""
    n, fits = len(series.y), []
    size = max(1, KERNEL_NUMBERS // (n * len(landmarks)))
    for start in range(0, len(steps), size):
        part = slice(start, start + size)
        kernel = np.zeros((len(steps[part]), n, len(landmarks)), np.float32)
        for name, block in features.blocks.items():
            if weights[name]:
                scaled = np.float32(weights[name]) * factors[name][part]
                blocks.add_pool_kernel(kernel, block, scaled, series.x, landmarks, steps[part])
        statistics = features.statistics.of(series.x, steps[part])
        fits += in_threads(
            partial(_fit_head, series, kernel, statistics, weights, steps[part], landmarks),
            range(len(kernel)),
            done=advance,
        )
    return fits


def _fit_head(
    series: Series,
    kernels: np.ndarray,
    statistics: dict[str, np.ndarray],
    weights: dict[str, float],
    steps: np.ndarray,
    landmarks: np.ndarray,
    place: int,
) -> HeadFit:
    """Return the ridge regressions of one head of some.

    `kernels` are those of the pools (heads, n, all landmarks); `statistics` have shape (heads, n, F).
    """
    rows = series.alive(steps[place])
    on = np.flatnonzero(series.lengths[landmarks] >= steps[place])
    marks = landmarks[on]
    total = kernels[place][np.ix_(rows, on)].astype(np.float64)
    rbf = {}
    for kind, values in statistics.items():
        if weights[kind]:
            learned = Rbf.learn(values[place][marks])
            z = learned.standardized(values[place][rows])
            found = learned.gram(z, learned.standardized(values[place][marks]))
            size = _mean_diagonal(found[np.searchsorted(rows, marks)])
            if size > 1e-6:
                rbf[kind] = learned, float(weights[kind] ** 2 / size)
                total += rbf[kind][1] * found
    scale = 1 / max(_mean_diagonal(total[np.searchsorted(rows, marks)]), 1e-12)
    total *= scale
    rbf = {kind: (learned, factor * scale) for kind, (learned, factor) in rbf.items()}
    targets, y = np.eye(series.classes)[series.y[rows]], series.y[rows]
    folds = blocks.fold_rows(series.fold[rows])
    solve = _dual if len(marks) == len(rows) else _nystrom
    penalties = head_penalties(len(series.y), len(landmarks))
    outputs, coefficients, intercepts = solve(total, targets, folds, np.searchsorted(rows, marks), penalties)
    losses = [calibration.log_loss(calibration.fit_scale(one, y) * one, y) for one in outputs]
    return HeadFit(rows, marks, outputs, coefficients, intercepts, np.array(losses), rbf, scale)


def head_penalties(series: int, landmarks: int) -> np.ndarray:
    """Return the ridge penalties that are tried; with many series the best one need not be known exactly."""
    return ridge.PENALTIES if series <= landmarks else ridge.PENALTIES[::2]


def _mean_diagonal(gram: np.ndarray) -> float:
    """Return the mean diagonal of a Gram matrix (m, m) after centering."""
    return float(np.trace(gram) / len(gram) - gram.mean(dtype=np.float64))


def _dual(
    kernel: np.ndarray,
    targets: np.ndarray,
    folds: list[np.ndarray],
    places: np.ndarray,
    penalties: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve with all series as landmarks; return held-out outputs, coefficients and intercepts."""
    offset = kernel.mean(axis=0)
    fit = ridge.DualRidge(ridge.centered(kernel), targets)
    outputs = np.stack([fit.left_out(penalty, folds) for penalty in penalties])
    coefficients = np.stack([fit.coefficients(penalty) for penalty in penalties])
    # Coefficients sum to zero, so centering the kernel changes predictions by a constant only.
    return outputs, coefficients, fit.intercept - offset @ coefficients


def _nystrom(
    kernel: np.ndarray,
    targets: np.ndarray,
    folds: list[np.ndarray],
    places: np.ndarray,
    penalties: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve with some series as landmarks (rows `places` of the kernel); see `_dual`."""
    values, vectors = eigh(ridge.centered(kernel[places]))
    kept = values > 1e-6 * values[-1]
    maps = vectors[:, kept] / np.sqrt(values[kept])  # (m, kept); columns sum to zero
    offset = kernel[places].mean(axis=0)
    fit = ridge.PrimalRidge(((kernel - offset) @ maps).astype(np.float32), targets, folds)
    outputs = np.stack([fit.left_out(penalty) for penalty in penalties])
    solved = np.stack([fit.solve(penalty) for penalty in penalties])  # (penalties, kept + 1, K)
    coefficients = maps @ solved[:, :-1]
    return outputs, coefficients, solved[:, -1] - offset @ coefficients


def _pick(losses: np.ndarray) -> np.ndarray:
    """Return the penalty (G,) of each head: that of least loss (G, penalties), smoothed over heads."""
    padded = np.concatenate([losses[:1], losses, losses[-1:]])
    return (padded[:-2] + 2 * padded[1:-1] + padded[2:]).argmin(axis=1)


def _calibrated(
    series: Series,
    features: Features,
    factors: dict[str, np.ndarray],
    weights: dict[str, float],
    steps: np.ndarray,
    fits: list[HeadFit],
    picked: np.ndarray,
) -> tuple[Heads, np.ndarray, float]:
    """Calibrate the heads; return them, held-out scores (n, G, K) and the penalty."""
    inputs = []
    for fit, i in zip(fits, picked):
        output = fit.outputs[i]
        inputs.append((calibration.fit_scale(output, series.y[fit.rows]), output))
    folds = [blocks.fold_rows(series.fold[fit.rows]) for fit in fits]
    centered = [scale * (output - output.mean(axis=1, keepdims=True)) for scale, output in inputs]
    penalty = calibration.choose_penalty(centered, [series.y[fit.rows] for fit in fits], folds)
    held_out = np.full((len(series.y), len(steps), series.classes), np.nan, np.float32)
    maps, constants = [], []
    middle = np.eye(series.classes) - 1 / series.classes
    log_prior = np.log(np.bincount(series.y, minlength=series.classes) / len(series.y))
    for g, (fit, z) in enumerate(zip(fits, centered)):
        y = series.y[fit.rows]
        logits = calibration.left_out_logits(z, y, penalty, folds[g])
        held_out[fit.rows, g] = log_softmax(logits, axis=1) - log_prior
        matrix, bias = calibration.fit_matrix(z, y, penalty)
        maps.append(inputs[g][0] * middle @ matrix)  # (K, K), from regression outputs to logits
        constants.append(fit.intercepts[picked[g]] @ maps[g] + bias - log_prior)
    coefficients = [fit.coefficients[i] @ one for fit, i, one in zip(fits, picked, maps)]
    heads = compiled(series, features, factors, weights, steps, fits, coefficients, constants)
    return heads, lean(held_out, heads.shares), penalty


def _losses(held_out: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the mean held-out log loss (G,) at each head, over the series that are long enough."""
    log_prior = np.log(np.bincount(y, minlength=held_out.shape[2]) / len(y))
    log_p = held_out[np.arange(len(y)), :, y] + log_prior[y, None]  # (n, G)
    return (-np.nanmean(log_p, axis=0)).tolist()


class _Watch:
    """Seconds of the stages of a fit."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, stage: str) -> None:
        now = perf_counter()
        self.laps[stage] = round(now - self._last, 3)
        self._last = now
