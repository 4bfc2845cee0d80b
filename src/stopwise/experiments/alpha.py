"""The activation: α of B2Bsqrt, and the logarithm in its place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stopwise import plots
from stopwise.experiments.conditions import BY_TRUTH
from stopwise.experiments.models import MODELS, Settings
from stopwise.experiments.presets import preset
from stopwise.experiments.tables import write_table
from stopwise.experiments.variants import TITLES, compare

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
    """Run the missing jobs, write ``alpha-<preset>.json`` and draw one picture.

    Every activation has the same search for its training settings.
    """
    found = compare(
        name,
        folder,
        ACTIVATIONS,
        world_names=world_names,
        repeats=repeats,
        workers=workers,
        progress=progress,
        export=export,
    )
    rows = {
        world: {label: found.row(world, model) for model, label in LABELS.items()} for world in world_names
    }
    write_table(folder / f"alpha-{name}.json", rows, keep=True)
    choices = {"chosen by validation loss": "", "chosen by the true LLRs": BY_TRUTH}
    panels = {
        TITLES[world]: {
            "activation": {
                label: {shown: found.errors(world, model, prefix) for shown, prefix in choices.items()}
                for model, label in LABELS.items()
            }
        }
        for world in world_names
    }
    title = f"B2Bsqrt-TANDEM, {preset(name).train:,} series"
    return [plots.save(plots.llr_errors_by_condition(panels, title=title), folder / f"alpha-{name}")[0]]
