"""The main comparison: all models, each tuned by the same search, and the statistical limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stopwise import plots
from stopwise.experiments.conditions import (
    BY_TRUTH,
    CONDITIONS,
    MAIN,
    TITLES,
    compare,
    result_file,
    values,
    worlds,
)
from stopwise.experiments.limits import limits
from stopwise.experiments.models import BASELINES, MODELS, PROPOSED
from stopwise.experiments.presets import preset
from stopwise.experiments.statistics import mean_and_sem, p_of_beating
from stopwise.experiments.sweep import Result
from stopwise.experiments.tables import write_table
from stopwise.validation import check_choice

# Which weights of a run are kept: those with the smallest validation loss, or with the smallest LLR error.
CHOICES = {"": "", "-by-truth": BY_TRUTH}
KEYS = ("llr_error", "slope", "ausat", "oracle_ausat", "fit_seconds")


def reproduce(
    name: str,
    folder: Path,
    *,
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
    world_names: Sequence[str] = ("a2", "a1"),
    export: Path | None = None,
) -> list[Path]:
    """Run the missing jobs, write ``main-<preset>.json`` and draw two pictures per world.

    In the second picture, the weights of every run are those with the smallest LLR error on validation
    series.
    """
    sizes = preset(name)
    for world in world_names:
        check_choice("--world", world, TITLES)
    results = compare(
        name,
        folder,
        CONDITIONS[:1],
        world_names=world_names,
        repeats=repeats,
        workers=workers,
        progress=progress,
        export=export,
    )
    chosen = {world: worlds(sizes)[world] for world in world_names}
    bounds = limits(chosen, sizes, result_file(folder, name), workers=workers, progress=progress)
    table, pictures = {}, []
    for world in world_names:
        runs = {model: {key: values(results, world, model, MAIN, key) for key in KEYS} for model in MODELS}
        runs = {model: columns for model, columns in runs.items() if columns["llr_error"]}
        errors = {model: columns["llr_error"] for model, columns in runs.items()}
        by_truth = {model: values(results, world, model, MAIN, f"{BY_TRUTH}llr_error") for model in runs}
        table[world] = {
            "limit": bounds[world],
            "p": p_of_beating(errors, list(PROPOSED), list(BASELINES)),
            "p_by_truth": p_of_beating(by_truth, list(PROPOSED), list(BASELINES)),
            "models": {
                model: {key: mean_and_sem(columns[key]) for key in KEYS}
                | {
                    "slopes": [round(slope, 3) for slope in columns["slope"]],
                    "runs": len(errors[model]),
                    "by_truth": _by_truth(results, world, model),
                }
                for model, columns in runs.items()
            },
        }
        relative = values(results, world, "accumulator", MAIN, "relative")
        for suffix, prefix in CHOICES.items():
            chosen_by = ", epochs chosen by the true LLRs" if prefix else ""
            shown = {model: values(results, world, model, MAIN, f"{prefix}llr_error") for model in runs}
            if not all(shown.values()):  # stored runs of an earlier version have only one choice
                continue
            figure = plots.llr_error_bars(
                shown,
                limit=bounds[world]["longest"],
                trivial=errors["accumulator"][0] / relative[0],
                title=f"{sizes.train:,} series, {TITLES[world]}{chosen_by}",
            )
            pictures.append(plots.save(figure, folder / f"main-{world}-{name}{suffix}")[0])
    write_table(folder / f"main-{name}.json", table, keep=True)
    return pictures


def _by_truth(results: Mapping[str, Result], world: str, model: str) -> dict[str, Any]:
    """Return error and slope of the weights with the smallest LLR error on validation series, if recorded."""
    columns = {key: values(results, world, model, MAIN, f"{BY_TRUTH}{key}") for key in ("llr_error", "slope")}
    found: dict[str, Any] = {key: mean_and_sem(runs) for key, runs in columns.items() if runs}
    return found | {"slopes": [round(slope, 3) for slope in columns["slope"]]}
