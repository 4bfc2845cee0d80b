"""Figure 1: true and estimated LLRs over time, for large (a = 2) and moderate (a = 1) LLRs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stopwise import plots
from stopwise.experiments.conditions import CONDITIONS, MAIN, compare, name_of, worlds
from stopwise.experiments.models import MODELS
from stopwise.experiments.presets import preset
from stopwise.experiments.runs import truth_shown

TITLES = {"a2": "a = 2: LLRs grow large", "a1": "a = 1: LLRs stay moderate"}


def reproduce(
    name: str,
    folder: Path,
    *,
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
    export: Path | None = None,
) -> list[Path]:
    """Run the missing jobs of the first repeat of the main comparison and draw two pictures per world.

    In the second picture, the weights are those with the smallest LLR error on validation series.

    `repeats` has no effect, because only the first repeat is shown.
    """
    sizes = preset(name)
    results = compare(
        name, folder, CONDITIONS[:1], repeats=1, workers=workers, progress=progress, export=export
    )
    pictures = []
    for world, arguments in worlds(sizes).items():
        truth, y = truth_shown(arguments, sizes.test)
        runs = {model: results[name_of(world, model, MAIN, 0)] for model in MODELS}
        runs = {model: run for model, run in runs.items() if "diverged" not in run}
        for suffix, ending in (("", ""), ("-by-truth", "; epochs chosen by the true LLRs")):
            # Stored runs of an earlier version have only one choice of the epoch.
            chosen = {model: run.get("by_truth") if suffix else run for model, run in runs.items()}
            estimates = {model: np.array(run["shown"]) for model, run in chosen.items() if run is not None}
            if not estimates:
                continue
            figure = plots.llr_trajectories(estimates, truth, y, title=f"{TITLES[world]}{ending}")
            pictures.append(plots.save(figure, folder / f"fig1-{world}-{name}{suffix}")[0])
    return pictures
