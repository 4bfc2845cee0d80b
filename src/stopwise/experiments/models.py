"""The compared models as flat settings, and the search for their training settings.

All models share data, batch size, order, hidden size and number of steps. The same search finds the learning
rate, schedule, optimizer and one more option of each model: seven short training runs, compared by the
model's own validation loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stopwise.experiments.presets import Preset
from stopwise.experiments.runs import run
from stopwise.experiments.sweep import Job, sweep
from stopwise.models import PAPER_GAUSSIAN

Settings = dict[str, Any]

BASELINES: dict[str, Settings] = {
    "TANDEM-LLLR": PAPER_GAUSSIAN | {"model": "tanh", "loss": "lllr"},
    "Oblivion-LSEL": PAPER_GAUSSIAN | {"model": "tanh", "formula": "oblivion"},
}
PROPOSED: dict[str, Settings] = {
    "B2Bsqrt-TANDEM": PAPER_GAUSSIAN | {"model": "b2bsqrt"},
    "TANDEMformer": PAPER_GAUSSIAN | {"model": "tandemformer", "width": None},  # the samples are the tokens
    "accumulator": PAPER_GAUSSIAN | {"model": "accumulator", "order": 0, "polish": True},
}
MODELS = BASELINES | PROPOSED

# Options are searched one after the other, each with the best settings so far; the first value is the start.
RATES = (3e-3, 1e-3, 1e-2, 3e-2)
SCHEDULES = ("cosine", "constant")
OPTIMIZERS = ("adam", "rmsprop")


def search(
    worlds: Mapping[str, dict[str, Any]],
    sizes: Preset,
    path: Path,
    *,
    models: Mapping[str, Settings] | None = None,
    workers: int = -1,
    progress: bool = True,
) -> dict[str, dict[str, Settings]]:
    """Return, by world and model, the settings with the smallest validation loss in a small search.

    Parameters
    ----------
    worlds
        By name, the argument `world` of `run`.
    sizes
        Preset with the numbers of series and epochs per trial.
    path
        The result file of the trials; every figure and preset with the same search sizes shares it.
    models
        Settings of the models by name; None means `MODELS`.
    workers, progress
        As for `sweep`.
    """
    models = MODELS if models is None else models
    start = {
        "training.learning_rate": RATES[0],
        "training.schedule": SCHEDULES[0],
        "training.optimizer": OPTIMIZERS[0],
    }
    best: dict[str, dict[str, Settings]] = {world: dict.fromkeys(models, start) for world in worlds}
    for stage in ("learning rate", "schedule", "optimizer", "one more option"):
        trials = {
            (world, model): [best[world][model] | change for change in _changes(stage, model)]
            for world in worlds
            for model in models
        }
        jobs = {
            (world, model, i): _trial(world, worlds[world], model, models[model], settings, sizes)
            for (world, model), tried in trials.items()
            for i, settings in enumerate(tried)
        }
        results = sweep(
            run, jobs.values(), path, title=f"search: {stage}", workers=workers, progress=progress
        )
        for (world, model), tried in trials.items():
            losses = [
                results[jobs[world, model, i].name].get("validation_loss", math.inf)
                for i in range(len(tried))
            ]
            best[world][model] = tried[losses.index(min(losses))]
    return best


def tuned(model: str, *changes: Settings) -> Settings:
    """Return the settings of a model with changes applied in order, such as those found by the search.

    Parameters
    ----------
    model
        A name in `MODELS`.
    changes
        Settings; later ones override earlier ones.

    Examples
    --------
    >>> tuned("accumulator", {"training.learning_rate": 0.03}, {"loss": "lllr", "polish": False})["polish"]
    False
    """
    settings = dict(MODELS[model])
    for change in changes:
        settings |= change
    return settings


def _changes(stage: str, model: str) -> list[Settings]:
    """Return the changes that a stage of the search tries."""
    if stage == "learning rate":
        return [{"training.learning_rate": rate} for rate in RATES]
    if stage == "schedule":
        return [{"training.schedule": schedule} for schedule in SCHEDULES]
    if stage == "optimizer":
        return [{"training.optimizer": optimizer} for optimizer in OPTIMIZERS]
    if model == "accumulator":
        return [{}, {"order": 3}]
    return [{}, {"training.gradient_clip": 1.0}]


def _trial(
    world: str, arguments: dict[str, Any], model: str, own: Settings, found: Settings, sizes: Preset
) -> Job:
    numbers = {"train": sizes.search_train, "validation": sizes.search_train // 4}
    settings = own | found | {"training.max_epochs": sizes.search_epochs}
    rate, schedule, optimizer = (
        found[f"training.{name}"] for name in ("learning_rate", "schedule", "optimizer")
    )
    parts = [world, model, f"{rate:g}", schedule, optimizer]
    parts += ["window4"] * ("order" in found) + ["clip"] * ("training.gradient_clip" in found)
    return Job(
        "_".join(parts),
        {"world": arguments, "sizes": numbers, "settings": settings, "judge": "validation"},
    )
