"""Precision on worlds with exact LLRs: the accumulator, and the models of the paper.

Unlike in the figures of the paper, the accumulator chooses its order from the data. The "lifted" variants of
the paper's models have the same advantages: the order of the world, the multiplet
loss and the polish. Where the order of the samples matters, the lifted TANDEMformer has learned positions and
tokens that are wider than the few channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stopwise import plots
from stopwise.experiments.limits import limits
from stopwise.experiments.models import Settings
from stopwise.experiments.presets import Preset, preset
from stopwise.experiments.result_file import read_records
from stopwise.experiments.runs import run
from stopwise.experiments.statistics import mean_and_sem
from stopwise.experiments.sweep import Job, Result, export_to, sweep
from stopwise.experiments.tables import write_table
from stopwise.models import PAPER_GAUSSIAN
from stopwise.validation import check_choice

OURS = "accumulator"
# Worlds with few channels, whose evidence is harder to find: factor on the epochs of all models.
LONGER = {"autoregressive": 3, "hidden_markov": 3}
KEYS = ("llr_error", "relative", "slope", "ausat", "oracle_ausat", "order", "fit_seconds")
# Order of the lifted variants by world. The hidden-Markov world has no finite order.
LIFTED = {"gaussian-a2": 0, "gaussian-a1": 0, "ar1": 1, "ar2": 2, "hidden-markov": 2}


def worlds(sizes: Preset) -> dict[str, dict[str, Any]]:
    """Return the worlds by name."""
    gaussian = {"kind": "gaussian", "channels": sizes.channels, "length": sizes.length}
    autoregressive = {"kind": "autoregressive", "length": sizes.length}
    return {
        "gaussian-a2": gaussian | {"offset": 2.0},
        "gaussian-a1": gaussian | {"offset": 1.0},
        "gaussian-3": gaussian | {"offset": 2.0, "classes": 3},
        "ar1": autoregressive | {"order": 1},
        "ar2": autoregressive | {"order": 2},
        "hidden-markov": {"kind": "hidden_markov", "length": sizes.length},
    }


def models(world: str) -> dict[str, Settings]:
    """Return the settings of the models that run on a world, by name."""
    tried: dict[str, Settings] = {OURS: {"model": "accumulator"}}
    if not world.startswith("gaussian"):  # `main` runs these models on Gaussian worlds
        tried["B2Bsqrt-TANDEM"] = PAPER_GAUSSIAN | {"model": "b2bsqrt"}
        paper = {"model": "tandemformer", "positions": "sinusoidal", "width": None}
        tried["TANDEMformer"] = PAPER_GAUSSIAN | paper
    if world in LIFTED:
        order = LIFTED[world]
        placed = {"positions": "learned"} if order else {}
        tried["B2Bsqrt-TANDEM, lifted"] = {"model": "b2bsqrt", "order": order}
        tried["TANDEMformer, lifted"] = {"model": "tandemformer", "order": order} | placed
    return tried


def reproduce(
    name: str,
    folder: Path,
    *,
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
    world_names: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    export: Path | None = None,
) -> list[Path]:
    """Run the missing jobs, write ``precision-<preset>.json`` and draw one picture per world.

    With `methods`, only these models are run; the tables also have the stored runs of the others.
    """
    sizes = preset(name)
    known = worlds(sizes)
    chosen = {world: known[check_choice("--world", world, known)] for world in world_names or known}
    numbers = {"train": sizes.train, "validation": sizes.validation, "test": sizes.test}
    jobs = [
        Job(
            f"{_stem(world, model)}{repeat}",
            {
                "world": arguments,
                "sizes": numbers,
                "settings": settings
                | {"training.max_epochs": sizes.epochs * LONGER.get(arguments["kind"], 1)},
                "repeat": repeat,
            },
        )
        for repeat in range(repeats or sizes.repeats)
        for world, arguments in chosen.items()
        for model, settings in models(world).items()
        if not methods or model in methods
    ]
    jobs = [replace(one, export=export_to(export, one.name)) for one in jobs]
    path = folder / f"precision-{name}.jsonl"
    results = sweep(run, jobs, path, title="runs", workers=workers, progress=progress)
    results = {name: record["result"] for name, record in read_records(path).items()} | results
    two_classes = {world: chosen[world] for world, order in LIFTED.items() if not order and world in chosen}
    bounds = limits(two_classes, sizes, path, workers=workers, progress=progress)
    table = {world: _row(results, world, bounds.get(world)) for world in chosen}
    write_table(folder / f"precision-{name}.json", table, keep=True)
    pictures = {f"precision-{world}-{name}": _picture(results, world, table[world]) for world in chosen}
    # In the Gaussian world with offset 2 the mean LLR grows by 4 nats per sample.
    marks = {"after 1 sample": 4.0, "after 5": 20.0, "after 10": 40.0}
    pictures["loss-slope"] = plots.loss_slope(
        marks, title="Large LLRs contribute almost nothing to the gradient"
    )
    return [plots.save(figure, folder / stem)[0] for stem, figure in pictures.items()]


def _row(results: Mapping[str, Result], world: str, bounds: dict[str, float] | None) -> dict[str, Any]:
    row: dict[str, Any] = {} if bounds is None else {"limits": bounds}
    for model in models(world):
        runs = _runs(results, world, model)
        row[model] = {key: _summary([run[key] for run in runs]) for key in KEYS} | {"runs": len(runs)}
    return row


def _stem(world: str, model: str) -> str:
    """Return the name of a run without its repeat."""
    return f"{world}_{model}_".replace(" ", "-").replace(",", "")


def _runs(results: Mapping[str, Result], world: str, model: str) -> list[Result]:
    prefix = _stem(world, model)
    return [
        result
        for name, result in results.items()
        if name.startswith(prefix) and name.removeprefix(prefix).isdigit() and "llr_error" in result
    ]


def _summary(values: list[float]) -> dict[str, float | None] | None:
    return mean_and_sem(values) | {"least": min(values), "most": max(values)} if values else None


def _picture(results: Mapping[str, Result], world: str, row: Mapping[str, Any]) -> Any:
    runs = {model: _runs(results, world, model) for model in models(world)}
    errors = {model: [run["llr_error"] for run in found] for model, found in runs.items() if found}
    first = runs[OURS][0]
    return plots.llr_error_bars(
        errors,
        limit=row.get("limits", {}).get("single"),
        trivial=first["llr_error"] / first["relative"],
        title=f"LLR error on {world}",
    )
