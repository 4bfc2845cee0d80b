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

from stopwise.models.prefix import blocks, calibration, ridge, search
from stopwise.models.prefix.compiling import compiled
from stopwise.models.prefix.draft import Draft, chosen_draft
from stopwise.models.prefix.features import Features
from stopwise.models.prefix.folds import fold_rows
from stopwise.models.prefix.grid import head_steps
from stopwise.models.prefix.heads import Heads, lean
from stopwise.models.prefix.parallel import in_threads
from stopwise.models.prefix.rbf import Rbf
from stopwise.models.prefix.series import Series
from stopwise.progress import Stages

SEARCH, HEADS = "weighing features", "fitting"
FIT_SHARES = {SEARCH: 0.3, HEADS: 0.7}  # stages of a fit and their share of the time
FEWEST_ALIVE = 5  # series that a head needs at least ...
SMALLEST_SHARE = 0.02  # ... and as a share of all
WHOLE = 1.5  # times the number of landmarks up to which the regressions are fitted with all series
KERNEL_NUMBERS = 1 << 29  # numbers of kernel matrices held in memory at a time


@dataclass
class HeadFit:
    """Ridge regressions of one head with every penalty, before calibration."""

    rows: np.ndarray  # (alive,) series that are long enough, which the head is judged by
    outputs: np.ndarray  # (penalties, alive, K) held-out predictions
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
    sizes: np.ndarray,
    kernels: int,
    landmarks: int,
    random_state: int,
    stages: Stages,
) -> Fit:
    """Fit a prefix model.

    A head learns from all series, from those that have ended before its step by their features at the end; it
    is calibrated and judged by those that have not ended. Learning only from these was tried: the late heads
    then have few series, and their errors on series of unequal lengths were up to twice as many.

    Parameters
    ----------
    series
        Training series.
    sizes
        (C,) standard deviations of the channels relative to each other, before they were standardized.
    kernels
        Number of convolution kernels of each of the two blocks.
    landmarks
        Number of series of which the Gaussian kernels are used in predictions. Beyond `WHOLE` times this
        number, a sample of this size represents the training series in the regressions, too.
    random_state
        Random seed.
    stages
        Progress of the stages in `FIT_SHARES`.
    """
    rng = np.random.default_rng(random_state)
    watch = _Watch()
    steps = head_steps(int(series.lengths.max()))
    counts = np.array([len(series.alive(step)) for step in steps])
    steps = steps[counts >= max(FEWEST_ALIVE, SMALLEST_SHARE * len(series))]
    samples = series.samples(search.SEARCH_SERIES, search.SEARCH_SAMPLES, rng)
    with stages.stage(SEARCH, 1) as stage:
        draft, points = chosen_draft(series, sizes, kernels, steps, samples, int(rng.integers(1 << 32)))
        watch.lap("features")
        found = search.search_weights(points, series.classes)
        weights = dict(zip(draft.features.kinds, found.tolist()))
        stage.advance()
    watch.lap("search")
    marks = series.sample(landmarks, rng)
    chosen = np.arange(len(series)) if len(series) <= WHOLE * landmarks else marks
    with stages.stage(HEADS, len(steps)) as stage:
        fits = _fit_heads(draft, weights, chosen, stage.advance)
    watch.lap("heads")
    picked = _pick(np.stack([fit.losses for fit in fits]))
    heads, held_out, penalty = _calibrated(draft, weights, chosen, marks, fits, picked)
    watch.lap("calibration")
    report = {
        "block_weights": weights,
        "channels": "together" if draft.together else "separately",
        "widening": draft.widening,
        "steps": steps.tolist(),
        "ridge": [float(head_penalties(len(series), len(chosen))[i]) for i in picked],
        "calibration_penalty": penalty,
        "held_out_loss": _losses(held_out, series.y),
        "series": len(series),
        "landmarks": len(marks),
        "kernels": kernels,
        "seconds": watch.laps,
    }
    return Fit(draft.features, heads, steps, held_out, report)


def _fit_heads(
    draft: Draft, weights: dict[str, float], landmarks: np.ndarray, advance: Callable[[], None]
) -> list[HeadFit]:
    """Return the ridge regressions of all heads; kernel matrices of some heads are in memory at a time."""
    series, fits = draft.series, []
    size = max(1, KERNEL_NUMBERS // (len(series) * len(landmarks)))
    for start in range(0, len(draft.steps), size):
        part = slice(start, start + size)
        steps = draft.steps[part]
        kernel = np.zeros((len(steps), len(series), len(landmarks)), np.float32)
        for name, block in draft.features.blocks.items():
            if weights[name]:
                scaled = np.float32(weights[name]) * draft.factors[name][part]
                blocks.add_pool_kernel(kernel, block, scaled, series, landmarks, steps)
        statistics = draft.features.statistics.of(series.x, steps, series.lengths)
        fits += in_threads(
            partial(_fit_head, draft, kernel, statistics, weights, steps, landmarks),
            range(len(kernel)),
            done=advance,
        )
    return fits


def _fit_head(
    draft: Draft,
    kernels: np.ndarray,
    statistics: dict[str, np.ndarray],
    weights: dict[str, float],
    steps: np.ndarray,
    landmarks: np.ndarray,
    place: int,
) -> HeadFit:
    """Return the ridge regressions of one head of some.

    `kernels` are those of the pools (heads, n, landmarks); `statistics` have shape (heads, n, F).
    """
    series = draft.series
    total = kernels[place].astype(np.float64)
    rbf = {}
    for kind, values in statistics.items():
        if weights[kind]:
            parts = draft.features.statistics.parts(kind) if draft.together else None
            learned = Rbf.learn(values[place][landmarks], parts, draft.widening)
            z = learned.standardized(values[place])
            found = learned.gram(z, z[landmarks])
            size = _mean_diagonal(found[landmarks])
            if size > 1e-6:
                rbf[kind] = learned, float(weights[kind] ** 2 / size)
                total += rbf[kind][1] * found
    scale = 1 / max(_mean_diagonal(total[landmarks]), 1e-12)
    total *= scale
    rbf = {kind: (learned, factor * scale) for kind, (learned, factor) in rbf.items()}
    targets = np.eye(series.classes)[series.y]
    folds = fold_rows(series.fold)
    solve = _dual if len(landmarks) == len(series) else _nystrom
    penalties = head_penalties(len(series), len(landmarks))
    outputs, coefficients, intercepts = solve(total, targets, folds, landmarks, penalties)
    alive = series.alive(steps[place])  # after the end of a series its scores do not matter
    outputs, y = outputs[:, alive], series.y[alive]
    losses = [calibration.log_loss(calibration.fit_scale(one, y) * one, y) for one in outputs]
    return HeadFit(alive, outputs, coefficients, intercepts, np.array(losses), rbf, scale)


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
    draft: Draft,
    weights: dict[str, float],
    used: np.ndarray,
    landmarks: np.ndarray,
    fits: list[HeadFit],
    picked: np.ndarray,
) -> tuple[Heads, np.ndarray, float]:
    """Calibrate the heads; return them, held-out scores (n, G, K) and the penalty."""
    series = draft.series
    inputs = []
    for fit, i in zip(fits, picked):
        output = fit.outputs[i]
        inputs.append((calibration.fit_scale(output, series.y[fit.rows]), output))
    folds = [fold_rows(series.fold[fit.rows]) for fit in fits]
    centered = [scale * (output - output.mean(axis=1, keepdims=True)) for scale, output in inputs]
    penalty = calibration.choose_penalty(centered, [series.y[fit.rows] for fit in fits], folds)
    held_out = np.full((len(series), len(fits), series.classes), np.nan, np.float32)
    middle = np.eye(series.classes) - 1 / series.classes
    log_prior = np.log(np.bincount(series.y, minlength=series.classes) / len(series.y))

    def calibrate(g: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the map (K, K) from regression outputs to logits, and the constant (K,), of a head."""
        fit, z = fits[g], centered[g]
        y = series.y[fit.rows]
        logits = calibration.left_out_logits(z, y, penalty, folds[g])
        held_out[fit.rows, g] = log_softmax(logits, axis=1) - log_prior
        matrix, bias = calibration.fit_matrix(z, y, penalty)
        mapped = inputs[g][0] * middle @ matrix
        return mapped, fit.intercepts[picked[g]] @ mapped + bias - log_prior

    maps, constants = zip(*in_threads(calibrate, range(len(fits))))
    coefficients = np.stack([fit.coefficients[i] @ one for fit, i, one in zip(fits, picked, maps)])
    heads = compiled(draft, weights, used, landmarks, fits, coefficients, np.array(constants))
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
