"""The main comparison: all models, each tuned by the same search, and the statistical limit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stopwise import plots
from stopwise.experiments.conditions import CONDITIONS, MAIN, compare, result_file, values, worlds
from stopwise.experiments.limits import limits
from stopwise.experiments.models import BASELINES, MODELS, PROPOSED
from stopwise.experiments.presets import preset
from stopwise.experiments.statistics import mean_and_sem, p_of_beating
from stopwise.experiments.tables import write_table
from stopwise.validation import check_choice

TITLES = {"a2": "a = 2", "a1": "a = 1"}
KEYS = ("llr_error", "slope", "ausat", "oracle_ausat", "fit_seconds")


def reproduce(
    name: str,
    folder: Path,
    *,
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
    world_names: Sequence[str] = ("a2", "a1"),
) -> list[Path]:
    """Run the missing jobs, write ``main-<preset>.json`` and draw one picture per world."""
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
    )
    chosen = {world: worlds(sizes)[world] for world in world_names}
    bounds = limits(chosen, sizes, result_file(folder, name), workers=workers, progress=progress)
    table, pictures = {}, []
    for world in world_names:
        runs = {model: {key: values(results, world, model, MAIN, key) for key in KEYS} for model in MODELS}
        runs = {model: columns for model, columns in runs.items() if columns["llr_error"]}
        errors = {model: columns["llr_error"] for model, columns in runs.items()}
        table[world] = {
            "limit": bounds[world],
            "p": p_of_beating(errors, list(PROPOSED), list(BASELINES)),
            "models": {
                model: {key: dict(zip(("mean", "sem"), mean_and_sem(columns[key]))) for key in KEYS}
                | {"runs": len(errors[model])}
                for model, columns in runs.items()
            },
        }
        relative = values(results, world, "accumulator", MAIN, "relative")
        figure = plots.llr_error_bars(
            errors,
            limit=bounds[world]["longest"],
            trivial=errors["accumulator"][0] / relative[0],
            title=f"{sizes.train:,} series, {TITLES[world]}",
        )
        pictures.append(plots.save(figure, folder / f"main-{world}-{name}")[0])
    write_table(folder / f"main-{name}.json", table, keep=True)
    return pictures
