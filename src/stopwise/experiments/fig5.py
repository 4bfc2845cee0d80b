"""Figure 5: three classes, a = 2: the LLRs of all pairs of classes."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from stopwise import plots
from stopwise.experiments.conditions import (
    CONDITIONS,
    MAIN,
    job,
    name_of,
    result_file,
    search_file,
    worlds,
)
from stopwise.experiments.models import MODELS, search
from stopwise.experiments.presets import preset
from stopwise.experiments.runs import run, truth_shown
from stopwise.experiments.sweep import export_to, sweep

WORLD = "a2-3classes"


def reproduce(
    name: str,
    folder: Path,
    *,
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
    export: Path | None = None,
) -> list[Path]:
    """Run each model once and draw one picture per pair of classes.

    The training settings of a model are those that the search found for two classes with the same offset.
    `repeats` has no effect, because only one run is shown.
    """
    sizes = preset(name)
    two = {"a2": worlds(sizes)["a2"]}
    found = search(two, sizes, search_file(folder, sizes), workers=workers, progress=progress)["a2"]
    arguments = two["a2"] | {"classes": 3}
    jobs = [job(WORLD, arguments, model, CONDITIONS[0], 0, found[model], sizes) for model in MODELS]
    jobs = [replace(one, export=export_to(export, one.name)) for one in jobs]
    results = sweep(run, jobs, result_file(folder, name), title="runs", workers=workers, progress=progress)
    truth, y = truth_shown(arguments, sizes.test)
    shown = {model: results[name_of(WORLD, model, MAIN, 0)].get("shown") for model in MODELS}
    estimates = {model: np.array(scores) for model, scores in shown.items() if scores}
    pictures = []
    for l, k in combinations(range(3), 2):  # noqa: E741
        figure = plots.llr_trajectories(
            estimates, truth, y, pair=(k, l), title=f"Three classes: class {k} against class {l}"
        )
        pictures.append(plots.save(figure, folder / f"fig5-{l}{k}-{name}")[0])
    return pictures
