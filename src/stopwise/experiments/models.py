"""The models compared, as settings of `EarlyClassifier`, and the search for how to train each.

All share data, batch size, order, hidden size and number of steps. Learning rate, schedule, optimiser, and
one choice more are found for each model by the same search of seven short trainings, judged by the model's
own validation loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stopwise.estimator import PAPER
from stopwise.experiments.presets import Preset
from stopwise.experiments.runs import run
from stopwise.experiments.sweep import Job, sweep

Settings = dict[str, Any]

BASELINES: dict[str, Settings] = {
    "TANDEM-LLLR": PAPER | {"model": "lstm", "loss": "lllr"},
    "Oblivion-LSEL": PAPER | {"model": "lstm", "formula": "oblivion"},
}
PROPOSED: dict[str, Settings] = {
    "B2Bsqrt-TANDEM": PAPER | {"model": "b2bsqrt"},
    "TANDEMformer": PAPER | {"model": "tandemformer"},
    "accumulator": PAPER
    | {"model": "accumulator", "polish": True, "model_params": {"body": "window", "window": 1}},
}
MODELS = BASELINES | PROPOSED

# Coordinate by coordinate, each from the best so far; the first value of a coordinate is where it starts.
RATES = (3e-3, 1e-3, 1e-2, 3e-2)
SCHEDULES = ("cosine", "constant")
OPTIMIZERS = ("adam", "rmsprop")


def search(
    worlds: Mapping[str, dict[str, Any]],
    sizes: Preset,
    folder: Path,
    *,
    workers: int = -1,
    progress: bool = True,
) -> dict[str, dict[str, Settings]]:
    """Return, by world and model, the settings with the least validation loss in a small search.

    Parameters
    ----------
    worlds
        By name, the arguments of `run`.
    sizes
        Tells how much data and how many epochs a trial has.
    folder
        Where the trials are kept; they are shared by every figure and preset of the same search sizes.
    workers, progress
        As for `sweep`.
    """
    best: dict[str, dict[str, Settings]] = {world: {} for world in worlds}
    for world, model in _pairs(worlds):
        best[world][model] = {
            "learning_rate": RATES[0],
            "schedule": SCHEDULES[0],
            "optimizer": OPTIMIZERS[0],
        }
    for stage in ("learning_rate", "schedule", "optimizer", "more"):
        trials: dict[tuple[str, str], list[Settings]] = {}
        for world, model in _pairs(worlds):
            trials[world, model] = [best[world][model] | change for change in _changes(stage, model)]
        jobs = {
            (world, model, i): _trial(world, worlds[world], model, settings, sizes)
            for (world, model), options in trials.items()
            for i, settings in enumerate(options)
        }
        results = sweep(
            run, jobs.values(), folder, title=f"search: {stage}", workers=workers, progress=progress
        )
        for (world, model), options in trials.items():
            losses = [
                results[jobs[world, model, i].name].get("validation_loss", math.inf)
                for i in range(len(options))
            ]
            best[world][model] = options[losses.index(min(losses))]
    return best


def tuned(model: str, found: Settings, **changes: Any) -> Settings:
    """Return a model's settings with what the search found for it and further changes.

    `model_params` are joined, not replaced.
    """
    base = MODELS[model]
    parts = (base.get("model_params", {}), found.get("model_params", {}), changes.pop("model_params", {}))
    params = {name: value for part in parts for name, value in part.items()}
    return base | found | changes | ({"model_params": params} if params else {})


def _changes(stage: str, model: str) -> list[Settings]:
    values: dict[str, tuple[Any, ...]] = {
        "learning_rate": RATES,
        "schedule": SCHEDULES,
        "optimizer": OPTIMIZERS,
    }
    if stage in values:
        return [{stage: value} for value in values[stage]]
    if model == "accumulator":  # how far back the increments look
        return [{}, {"model_params": {"window": 4}}]
    return [{}, {"gradient_clip": 1.0}]


def _trial(world: str, arguments: dict[str, Any], model: str, found: Settings, sizes: Preset) -> Job:
    numbers = {"train": sizes.search_train, "validation": sizes.search_train // 4}
    settings = tuned(model, found, max_epochs=sizes.search_epochs)
    marks = [f"{found['learning_rate']:g}", found["schedule"], found["optimizer"]]
    marks += ["window4"] * ("model_params" in found) + ["clip"] * ("gradient_clip" in found)
    name = f"{world}_{model}_{'_'.join(marks)}".replace(" ", "-")
    return Job(name, {"world": arguments, "sizes": numbers, "settings": settings, "judge": "validation"})


def _pairs(worlds: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(world, model) for world in worlds for model in MODELS]
