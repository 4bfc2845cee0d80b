"""The scale of the LLRs during training: error and slope of B2Bsqrt-TANDEM over the training steps.

The loss of a series with a large LLR is almost 0 whatever the LLR is, so nothing in it fixes the scale. One
setting at a time is changed, from a constant learning rate of 0.001.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stopwise import plots
from stopwise.experiments.conditions import TITLES, worlds
from stopwise.experiments.models import MODELS, Settings
from stopwise.experiments.presets import BATCH, Preset, preset
from stopwise.experiments.runs import run
from stopwise.experiments.statistics import mean_and_sem
from stopwise.experiments.sweep import Job, Result, export_to, stored, sweep
from stopwise.experiments.tables import write_table
from stopwise.validation import check_choice

MODEL = "B2Bsqrt-TANDEM"
LONGER = 2  # factor on the number of passes of the preset
CHECKS = 8  # validations per pass
VALIDATION = 4000  # largest number of validation series
MOST_REPEATS = 10  # of stored runs that are drawn
BASE: Settings = {"training.learning_rate": 1e-3, "training.schedule": "constant"}
BASE_NAME = "rate-0.001"
DECAYING: Settings = {"training.learning_rate": 5e-3, "training.schedule": "cosine"}
SLOWED: Settings = DECAYING | {"training.epsilon": 1e-3}


def _rates(schedule: str, ending: str) -> dict[str, Settings]:
    rates = (1e-3, 3e-3, 3e-4, 1e-2)
    return {
        f"rate-{rate:g}{ending}": {"training.learning_rate": rate, "training.schedule": schedule}
        for rate in rates
    }


# Changes of the base settings by name, in panels of the picture; the most telling panels come first.
PANELS: dict[str, dict[str, Settings]] = {
    "constant rate": _rates("constant", ""),
    "cosine decay": _rates("cosine", "-cosine"),
    "weight average": {
        BASE_NAME: {},
        "average-0.999": {"training.weight_average": 0.999},
        "average-1": {"training.weight_average": 1.0},
    },
    "α": {f"alpha-{alpha:g}": {"alpha": alpha} for alpha in (0.01, 0.1)}
    | {BASE_NAME: {}, "alpha-10": {"alpha": 10.0}},
    "forget bias": {
        "forget-0": {"forget_bias": 0.0},
        BASE_NAME: {},
        "forget-2": {"forget_bias": 2.0},
        "forget-3": {"forget_bias": 3.0},
        "forget-4": {"forget_bias": 4.0},  # about the logarithm of the number of steps
    },
    "open forget gate": {
        "forget-4": {"forget_bias": 4.0},
        "forget-4-rate-0.003": {"forget_bias": 4.0, "training.learning_rate": 3e-3},
        "forget-4-average-0.999": {"forget_bias": 4.0, "training.weight_average": 0.999},
        "forget-4-cosine": {
            "forget_bias": 4.0,
            "training.learning_rate": 3e-3,
            "training.schedule": "cosine",
        },
    },
    "ε of the optimizer": {
        "rate-0.005-cosine": DECAYING,
        "epsilon-0.0001": DECAYING | {"training.epsilon": 1e-4},
        "epsilon-0.001": SLOWED,
        "epsilon-0.01": DECAYING | {"training.epsilon": 1e-2},
    },
    "ε = 1e-3, by α": {
        "epsilon-0.001": SLOWED,
        "epsilon-0.001-alpha-1.5": SLOWED | {"alpha": 1.5},
        "epsilon-0.001-alpha-2": SLOWED | {"alpha": 2.0},
    },
    "clipping": {
        BASE_NAME: {},
        "clip-1": {"training.gradient_clip": 1.0},
        "clip-0.1": {"training.gradient_clip": 0.1},
    },
}

LABELS = {
    "rate-0.001": "constant rate 0.001",
    "rate-0.003": "constant rate 0.003",
    "rate-0.0003": "constant rate 0.0003",
    "rate-0.01": "constant rate 0.01",
    "rate-0.001-cosine": "cosine, 0.001",
    "rate-0.003-cosine": "cosine, 0.003",
    "rate-0.0003-cosine": "cosine, 0.0003",
    "rate-0.01-cosine": "cosine, 0.01",
    "average-0.999": "average of weights, decay 0.999",
    "average-1": "average of all weights",
    "alpha-0.01": "α = 0.01",
    "alpha-0.1": "α = 0.1",
    "alpha-10": "α = 10",
    "forget-0": "forget bias 0",
    "forget-2": "forget bias 2",
    "forget-3": "forget bias 3",
    "forget-4": "forget bias 4",
    "forget-4-rate-0.003": "forget bias 4, rate 0.003",
    "forget-4-average-0.999": "forget bias 4, average 0.999",
    "forget-4-cosine": "forget bias 4, cosine, 0.003",
    "rate-0.005-cosine": "cosine, 0.005",
    "epsilon-0.0001": "ε = 1e-4, cosine, 0.005",
    "epsilon-0.001": "ε = 1e-3, cosine, 0.005",
    "epsilon-0.01": "ε = 1e-2, cosine, 0.005",
    "epsilon-0.001-alpha-1.5": "ε = 1e-3, α = 1.5, cosine, 0.005",
    "epsilon-0.001-alpha-2": "ε = 1e-3, α = 2, cosine, 0.005",
    "clip-1": "gradients clipped at 1",
    "clip-0.1": "gradients clipped at 0.1",
}


def conditions() -> dict[str, Settings]:
    """Return the changes of all conditions by name, without duplicates."""
    return {name: changes for panel in PANELS.values() for name, changes in panel.items()}


def reproduce(
    name: str,
    folder: Path,
    *,
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
    world_names: Sequence[str] = ("a2",),
    conditions: Sequence[str] | None = None,
    export: Path | None = None,
) -> list[Path]:
    """Run the missing jobs, write ``drift-<world>-<preset>.json`` and draw one picture per world.

    `repeats` is the number of repeats, 1 by default. With `conditions`, only these run, and the picture shows
    all finished runs.
    """
    sizes = _sizes(preset(name))
    known = _conditions()
    wanted = [check_choice("--condition", one, known) for one in conditions or known]
    for world in world_names:
        check_choice("--world", world, TITLES)
    pictures = []
    for world in world_names:
        target = folder / f"drift-{world}-{name}"
        path = target.with_suffix(".jsonl")
        jobs = [
            _job(world, condition, repeat, sizes) for repeat in range(repeats or 1) for condition in wanted
        ]
        jobs = [replace(one, export=export_to(export, f"{world}_{one.name}")) for one in jobs]
        results = sweep(run, jobs, path, title="runs", workers=workers, progress=progress)
        every = (_job(world, one, repeat, sizes) for one in known for repeat in range(MOST_REPEATS))
        results = stored(every, path) | results
        runs = {condition: _runs(results, condition) for condition in known}
        write_table(target.with_suffix(".json"), {one: _row(own) for one, own in runs.items() if own})
        pictures.append(plots.save(_figure(runs, world, sizes), target)[0])
    return pictures


_conditions = conditions  # the argument of `reproduce` has the same name


def _sizes(sizes: Preset) -> Preset:
    return replace(
        sizes,
        epochs=LONGER * sizes.epochs,
        checks=CHECKS,
        validation=min(VALIDATION, sizes.validation),
    )


def _job(world: str, condition: str, repeat: int, sizes: Preset) -> Job:
    settings = MODELS[MODEL] | BASE | _conditions()[condition] | sizes.lasting()
    arguments = {
        "world": worlds(sizes)[world],
        "sizes": sizes.numbers,
        "settings": settings,
        "repeat": repeat,
    }
    return Job(f"{condition}_{repeat}", arguments)


def _runs(results: Mapping[str, Result], condition: str) -> list[Result]:
    return [
        result
        for name, result in results.items()
        if name.rpartition("_")[0] == condition and "diverged" not in result
    ]


def _row(runs: list[Result]) -> dict[str, Any]:
    """Return error and slope on test series, for both choices of the weights."""
    row: dict[str, Any] = {"runs": len(runs)}
    for choice, chosen in (
        ("by_validation_loss", runs),
        ("by_truth", [one["by_truth"] for one in runs]),
    ):
        row[choice] = {key: mean_and_sem([one[key] for one in chosen]) for key in ("llr_error", "slope")} | {
            "slopes": [round(one["slope"], 3) for one in chosen]
        }
    return row


def _figure(runs: Mapping[str, list[Result]], world: str, sizes: Preset) -> Any:
    steps = sizes.epoch_series / BATCH
    panels = {
        panel: {
            LABELS[condition]: [one["watched"] for one in runs[condition]]
            for condition in cells
            if runs[condition]
        }
        for panel, cells in PANELS.items()
    }
    return plots.llr_drift(
        {panel: cells for panel, cells in panels.items() if cells},
        steps=steps,
        title=f"{MODEL} during training: {sizes.train:,} series, {TITLES[world]}",
    )
