"""The activation: α of B2Bsqrt, and the logarithm in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stopwise import plots
from stopwise.experiments.conditions import (
    BY_TRUTH,
    MAIN,
    TITLES,
    name_of,
    result_file,
    search_file,
    values,
    worlds,
)
from stopwise.experiments.models import MODELS, Settings, search
from stopwise.experiments.presets import preset
from stopwise.experiments.runs import run
from stopwise.experiments.statistics import mean_and_sem
from stopwise.experiments.sweep import Job, export_to, sweep
from stopwise.experiments.tables import write_table
from stopwise.validation import check_choice

BASE = MODELS["B2Bsqrt-TANDEM"]
# α = 1 is the model of the main comparison and shares its runs.
ACTIVATIONS: dict[str, Settings] = {
    "B2Bsqrt-TANDEM": BASE,
    "b2blog": BASE | {"activation": "b2blog"},
    "alpha-0.1": BASE | {"alpha": 0.1},
    "alpha-10": BASE | {"alpha": 10.0},
    "alpha-0.01": BASE | {"alpha": 0.01},
}
LABELS = {
    "alpha-0.01": "α = 0.01",
    "alpha-0.1": "α = 0.1",
    "B2Bsqrt-TANDEM": "α = 1",
    "alpha-10": "α = 10",
    "b2blog": "log",
}


def reproduce(
    name: str,
    folder: Path,
    *,
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
    world_names: Sequence[str] = tuple(TITLES),
    export: Path | None = None,
) -> list[Path]:
    """Tune each activation, run the missing jobs, write ``alpha-<preset>.json`` and draw one picture.

    Every activation has the same search for its training settings.
    """
    sizes = preset(name)
    chosen = {world: worlds(sizes)[check_choice("--world", world, TITLES)] for world in world_names}
    found = search(
        chosen,
        sizes,
        search_file(folder, sizes),
        models=ACTIVATIONS,
        workers=workers,
        progress=progress,
    )
    jobs = [
        Job(
            name_of(world, model, MAIN, repeat),
            {
                "world": arguments,
                "sizes": sizes.numbers,
                "settings": settings | found[world][model] | sizes.lasting(),
                "repeat": repeat,
            },
        )
        for repeat in range(repeats or sizes.main_repeats)
        for world, arguments in chosen.items()
        for model, settings in ACTIVATIONS.items()
    ]
    jobs = [replace(one, export=export_to(export, one.name)) for one in jobs]
    results = sweep(run, jobs, result_file(folder, name), title="runs", workers=workers, progress=progress)
    table: dict[str, dict[str, object]] = {}
    panels: dict[str, dict[str, dict[str, dict[str, list[float]]]]] = {}
    for world in chosen:
        table[world], cells = {}, {}
        for model, label in LABELS.items():
            runs = [result for one, result in results.items() if one.startswith(f"{world}_{model}_{MAIN}_")]
            errors = values(results, world, model, MAIN, "llr_error")
            by_truth = values(results, world, model, MAIN, f"{BY_TRUTH}llr_error")
            cells[label] = {"chosen by validation loss": errors, "chosen by the true LLRs": by_truth}
            table[world][label] = {
                "runs": len(runs),
                "diverged": sum("diverged" in result for result in runs),
                "settings": found[world][model],
                "llr_errors": errors,
                "slopes": values(results, world, model, MAIN, "slope"),
                "mean_and_sem": mean_and_sem(errors) if errors else None,
                "by_truth": mean_and_sem(by_truth) if by_truth else None,
            }
        panels[TITLES[world]] = {"activation": cells}
    write_table(folder / f"alpha-{name}.json", table, keep=True)
    figure = plots.llr_errors_by_condition(panels, title=f"B2Bsqrt-TANDEM, {sizes.train:,} series")
    return [plots.save(figure, folder / f"alpha-{name}")[0]]
