"""Guarantees: true error rates compared with the requested ones, for textbook and calibrated thresholds.

The scores of both models differ from the true log-likelihood ratios. One model is overconfident: its sensor
repeats every measurement three times, and the model counts each repetition as new evidence. The other is
underconfident: a tanh LSTM, which saturates.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from stopwise import plots
from stopwise.datasets import gaussian, hold_out
from stopwise.estimator import EarlyClassifier
from stopwise.experiments.sweep import Job, Result, sweep
from stopwise.experiments.tables import write_table
from stopwise.rules import SPRT, calibrate

MODELS: dict[str, dict[str, Any]] = {
    "too sure: every measurement counted 3 times": {
        "repetitions": 3,
        "settings": {"model": "accumulator", "order": 0, "training.max_epochs": 20},
    },
    "not sure enough: a saturated LSTM": {
        "repetitions": 1,
        "settings": {"model": "tanh", "order": None, "training.max_epochs": 20, "polish": False},
    },
}
LEVELS = (0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2)
CONFIDENCE = 0.95
# Numbers of training series, of series in the calibration pool, of series per draw from it, and of draws.
SIZES = {"quick": (600, 10_000, 1000, 100), "medium": (600, 50_000, 1000, 1000)}
SIZES["paper"] = SIZES["medium"]
WORLD: dict[str, Any] = {"classes": 2, "offset": 1.0, "channels": 8, "length": 30}


def reproduce(
    name: str, folder: Path, *, repeats: int | None = None, workers: int = -1, progress: bool = True
) -> list[Path]:
    """Run the missing jobs, write ``guarantees-<preset>.json`` and draw; `repeats` is the number of draws."""
    train, pool, size, draws = SIZES[name]
    sizes = {"train": train, "pool": pool, "size": size, "draws": repeats or draws}
    jobs = {model: Job(_stem(model), {"model": model, **sizes}) for model in MODELS}
    path = folder / f"guarantees-{name}.jsonl"
    found = sweep(run, jobs.values(), path, title="models", workers=workers, progress=progress)
    results = {model: found[job.name] for model, job in jobs.items()}
    table = {
        model: {key: result[key] for key in result if key != "calibrated"} | {"broken": broken(result)}
        for model, result in results.items()
    }
    write_table(folder / f"guarantees-{name}.json", {"levels": LEVELS, **table})
    panels = {
        model: {"textbook threshold": result["textbook"], "calibrated, 95 % confidence": result["calibrated"]}
        for model, result in results.items()
    }
    figure = plots.guarantees(LEVELS, panels, title="A calibrated rule keeps its guarantee")
    return [plots.save(figure, folder / f"guarantees-{name}")[0]]


def run(model: str, train: int, pool: int, size: int, draws: int) -> Result:
    """Train one model; return the true error rates and mean times of both kinds of threshold, by level.

    Calibration series are drawn with replacement from a pool, so the error rates on the whole pool are the
    true ones.

    Parameters
    ----------
    model
        A name in `MODELS`.
    train, pool, size, draws
        Numbers of training series, of series in the pool, of series per draw, and of draws.
    """
    repetitions = MODELS[model]["repetitions"]
    X, y, _ = gaussian(train, seed=0, **WORLD)
    X = np.repeat(X, repetitions, axis=1)
    rows, held = hold_out(y, fraction=0.1, seed=0)
    clf = EarlyClassifier.from_settings(MODELS[model]["settings"], progress=False)
    clf.fit(X[rows], y[rows], validation_data=(X[held], y[held]))
    X, y, _ = gaussian(pool, seed=1, **WORLD)
    scores = clf.scores(np.repeat(X, repetitions, axis=1))
    textbook = [SPRT(error_rate=level).decide(scores) for level in LEVELS]
    chosen = _calibrated_thresholds(scores, y, size, draws)  # (draws, A)
    thresholds, places = np.unique(chosen, return_inverse=True)
    decisions = [SPRT(float(threshold)).decide(scores) for threshold in thresholds]
    error = np.array([(d.labels != y).mean() for d in decisions])[places.reshape(chosen.shape)]  # (draws, A)
    time = np.array([d.times.mean() for d in decisions])[places.reshape(chosen.shape)]
    return {
        "textbook": [float((d.labels != y).mean()) for d in textbook],
        "textbook_time": [float(d.times.mean()) for d in textbook],
        "calibrated": error.tolist(),
        "calibrated_error": error.mean(0).tolist(),
        "calibrated_time": time.mean(0).tolist(),
        "final_error": float((scores[:, -1].argmax(1) != y).mean()),
    }


def broken(result: Result) -> list[float]:
    """Return, by level, the fraction of draws whose true error rate is above the level."""
    return (np.array(result["calibrated"]) > np.array(LEVELS)).mean(0).tolist()


def _calibrated_thresholds(scores: np.ndarray, y: np.ndarray, size: int, draws: int) -> np.ndarray:
    """Return the thresholds (draws, A) found by calibration on draws from the pool, by level."""
    thresholds = np.empty((draws, len(LEVELS)))
    rng = np.random.default_rng(2)
    for row in thresholds:
        drawn = rng.integers(0, len(y), size)
        counted = np.ones(size, dtype=bool)  # series drawn twice are independent draws from the pool
        for i, level in enumerate(LEVELS):
            rule = calibrate(
                scores[drawn], y[drawn], error_rate=level, confidence=CONFIDENCE, counted=counted
            )
            row[i] = float(np.asarray(rule.threshold))
    return thresholds


def _stem(model: str) -> str:
    return model.split(":")[0].replace(" ", "-")
