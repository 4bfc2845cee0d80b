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
    name: str, folder: Path, *, repeats: int | None = None, workers: int = -1, progress: bool = True
) -> list[Path]:
    """Run the missing jobs of the first repeat of the main comparison and draw one picture per world.

    `repeats` has no effect, because only the first repeat is shown.
    """
    sizes = preset(name)
    results = compare(name, folder, CONDITIONS[:1], repeats=1, workers=workers, progress=progress)
    pictures = []
    for world, arguments in worlds(sizes).items():
        truth, y = truth_shown(arguments, sizes.test)
        shown = {model: results[name_of(world, model, MAIN, 0)].get("shown") for model in MODELS}
        estimates = {model: np.array(scores) for model, scores in shown.items() if scores}
        figure = plots.llr_trajectories(estimates, truth, y, title=TITLES[world])
        pictures.append(plots.save(figure, folder / f"fig1-{world}-{name}")[0])
    return pictures
