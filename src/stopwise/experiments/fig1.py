"""Figure 1: true and estimated LLRs over time, where they are large (a = 2) and small (a = 1)."""

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
    """Run what is missing of one repeat of the main comparison; draw a picture a world.

    More `repeats` change nothing: the first is drawn.
    """
    sizes = preset(name)
    results = compare(name, folder, CONDITIONS[:1], repeats=1, workers=workers, progress=progress)
    pictures = []
    for world, arguments in worlds(sizes).items():
        truth, y = truth_shown(arguments, sizes.test)
        told = {model: results[name_of(world, model, MAIN, 0)] for model in MODELS}
        estimates = {model: np.array(one["shown"]) for model, one in told.items() if "shown" in one}
        figure = plots.llr_trajectories(estimates, truth, y, title=TITLES[world])
        pictures.append(plots.save(figure, folder / f"fig1-{world}-{name}")[0])
    return pictures
