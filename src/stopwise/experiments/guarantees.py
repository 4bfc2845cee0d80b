"""Guarantees: true errors against those asked for, by textbook and by calibrated thresholds.

Two models whose scores are not log-likelihood ratios. One believes too much: its sensor reports every
measurement three times, and it counts each report as news. One believes too little: a tanh LSTM, saturated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from stopwise import plots
from stopwise.datasets import gaussian
from stopwise.estimator import EarlyClassifier
from stopwise.experiments.sweep import Job, sweep
from stopwise.experiments.tables import write_table
from stopwise.rules import SPRT, calibrate
from stopwise.rules.calibration.trials import CANDIDATES, Trials, totals_by_candidate

MODELS: dict[str, dict[str, Any]] = {
    "too sure: every measurement counted 3 times": {
        "times": 3,
        "settings": {"model": "accumulator", "order": 0, "max_epochs": 20},
    },
    "not sure enough: a saturated LSTM": {
        "times": 1,
        "settings": {"model": "lstm", "order": None, "max_epochs": 20, "polish": False},
    },
}
LEVELS = (0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2)
CONFIDENCE = 0.95
# Series to train on, to draw calibration series from, and of one draw; and draws.
SIZES = {"quick": (600, 10_000, 1000, 100), "medium": (600, 50_000, 1000, 1000)}
SIZES["paper"] = SIZES["medium"]
WORLD: dict[str, Any] = {"classes": 2, "offset": 1.0, "dim": 8, "length": 30}


def reproduce(
    name: str, folder: Path, *, repeats: int | None = None, workers: int = -1, progress: bool = True
) -> list[Path]:
    """Run what is missing; write ``guarantees-<preset>.json`` and draw the picture; `repeats` are draws."""
    train, pool, size, draws = SIZES[name]
    sizes = {"train": train, "pool": pool, "size": size, "draws": repeats or draws}
    jobs = [Job(_stem(model), {"model": model, **sizes}) for model in MODELS]
    found = sweep(
        run, jobs, folder / f"guarantees-{name}", title="models", workers=workers, progress=progress
    )
    results = {model: found[_stem(model)] for model in MODELS}
    table = {
        model: {key: told[key] for key in told if key != "calibrated"} | {"broken": broken(told)}
        for model, told in results.items()
    }
    write_table(folder / f"guarantees-{name}.json", {"levels": LEVELS, **table})
    panels = {
        model: {"textbook threshold": told["textbook"], "calibrated, 95 % confidence": told["calibrated"]}
        for model, told in results.items()
    }
    figure = plots.promises(LEVELS, panels, title="A calibrated rule keeps its promise")
    return [plots.save(figure, folder / f"guarantees-{name}")[0]]


def run(model: str, train: int, pool: int, size: int, draws: int) -> dict[str, Any]:
    """Train one model; return the true errors and mean times of both kinds of threshold, level by level.

    Calibration series are drawn with replacement from a pool, whose errors are therefore the true ones.
    """
    times = MODELS[model]["times"]
    X, y, _ = gaussian(train, seed=0, **WORLD)
    clf = EarlyClassifier(**MODELS[model]["settings"], progress=False).fit(np.repeat(X, times, axis=1), y)
    X, y, _ = gaussian(pool, seed=1, **WORLD)
    scores = clf.scores(np.repeat(X, times, axis=1))
    textbook = [SPRT(error_rate=level).decide(scores) for level in LEVELS]
    trials, all_one = Trials.of(scores, y), np.zeros_like(y)
    error = totals_by_candidate(trials, trials.errors(), all_one, 1)[0] / pool  # (J,)
    time = totals_by_candidate(trials, trials.times(), all_one, 1)[0] / pool
    chosen = np.empty((draws, len(LEVELS)), dtype=int)
    place = {a: j for j, a in enumerate(CANDIDATES)}
    rng = np.random.default_rng(2)
    for row in chosen:
        rows = rng.integers(0, pool, size)
        for i, level in enumerate(LEVELS):
            rule = calibrate(scores[rows], y[rows], error_rate=level, confidence=CONFIDENCE)
            row[i] = place[float(np.asarray(rule.threshold))]
    return {
        "textbook": [float((d.labels != y).mean()) for d in textbook],
        "textbook_time": [float(d.times.mean()) for d in textbook],
        "calibrated": error[chosen].tolist(),
        "calibrated_error": error[chosen].mean(0).tolist(),
        "calibrated_time": time[chosen].mean(0).tolist(),
        "final_error": float(error[0]),
    }


def broken(told: dict[str, Any]) -> list[float]:
    """Return the share of draws whose true error is above the level, level by level."""
    return (np.array(told["calibrated"]) > np.array(LEVELS)).mean(0).tolist()


def _stem(model: str) -> str:
    return model.split(":")[0].replace(" ", "-")
