"""Variants of the compared models, each with its own search for the training settings.

The runs are named like those of the main comparison and are in the same file, so that a variant that equals a
model of the main comparison shares its runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stopwise.experiments.conditions import (
    BY_TRUTH,
    MAIN,
    name_of,
    result_file,
    search_file,
    values,
    worlds,
)
from stopwise.experiments.models import Settings, search
from stopwise.experiments.presets import preset
from stopwise.experiments.runs import run
from stopwise.experiments.statistics import mean_and_sem
from stopwise.experiments.sweep import Job, Result, export_to, sweep
from stopwise.validation import check_choice

TITLES = {"a2": "a = 2", "a1": "a = 1"}


@dataclass(frozen=True)
class Compared:
    """Runs of variants, and the training settings that were found for them.

    Parameters
    ----------
    results
        Results by name of the run.
    found
        By world and variant, the training settings.
    """

    results: Mapping[str, Result]
    found: Mapping[str, Mapping[str, Settings]]

    def errors(self, world: str, variant: str, prefix: str = "") -> list[float]:
        """Return the LLR errors of all runs; with the prefix `BY_TRUTH`, of the epochs of least error."""
        return values(self.results, world, variant, MAIN, f"{prefix}llr_error")

    def row(self, world: str, variant: str) -> dict[str, Any]:
        """Return errors, slopes and settings of a variant, for a table."""
        start = f"{world}_{variant}_{MAIN}_"
        runs = [result for name, result in self.results.items() if name.startswith(start)]
        errors, by_truth = self.errors(world, variant), self.errors(world, variant, BY_TRUTH)
        return {
            "runs": len(runs),
            "diverged": sum("diverged" in result for result in runs),
            "settings": self.found[world][variant],
            "llr_errors": errors,
            "slopes": values(self.results, world, variant, MAIN, "slope"),
            "mean_and_sem": mean_and_sem(errors) if errors else None,
            "by_truth": mean_and_sem(by_truth) if by_truth else None,
        }


def compare(
    preset_name: str,
    folder: Path,
    variants: Mapping[str, Settings],
    *,
    world_names: Sequence[str],
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
    export: Path | None = None,
) -> Compared:
    """Search the training settings of each variant and run the missing jobs.

    Parameters
    ----------
    preset_name, folder, world_names, workers, progress, export
        As for `stopwise.experiments.conditions.compare`.
    variants
        Settings by name.
    repeats
        Number of repeats. If None, that of the main comparison.
    """
    sizes = preset(preset_name)
    chosen = {world: worlds(sizes)[check_choice("--world", world, TITLES)] for world in world_names}
    path = search_file(folder, sizes)
    found = search(chosen, sizes, path, models=variants, workers=workers, progress=progress)
    jobs = [
        Job(
            name_of(world, variant, MAIN, repeat),
            {
                "world": arguments,
                "sizes": sizes.numbers,
                "settings": settings | found[world][variant] | sizes.lasting(),
                "repeat": repeat,
            },
        )
        for repeat in range(repeats or sizes.main_repeats)
        for world, arguments in chosen.items()
        for variant, settings in variants.items()
    ]
    jobs = [replace(one, export=export_to(export, one.name)) for one in jobs]
    path = result_file(folder, preset_name)
    return Compared(sweep(run, jobs, path, title="runs", workers=workers, progress=progress), found)
