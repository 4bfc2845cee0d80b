"""The ε of the optimizer: does it stop the drift of the scale of the LLRs?

Adam divides each gradient by its root mean square plus ε. When all series are decided, gradients are tiny.
With a tiny ε the weights then move as fast as before; with a larger one they stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stopwise import plots
from stopwise.experiments.conditions import BY_TRUTH
from stopwise.experiments.models import BASELINES, MODELS, PROPOSED, Settings
from stopwise.experiments.presets import preset
from stopwise.experiments.statistics import p_of_beating
from stopwise.experiments.tables import write_table
from stopwise.experiments.variants import TITLES, compare

SHOWN = (*BASELINES, "B2Bsqrt-TANDEM", "TANDEMformer")  # the polish of the accumulator fixes its scale
LARGER = 1e-3
# A model with the usual ε is that of the main comparison and shares its runs.
SUFFIXES = {"ε = 1e-8": "", f"ε = {LARGER:g}": f"-epsilon-{LARGER:g}"}
VARIANTS: dict[str, Settings] = {
    f"{model}{suffix}": MODELS[model] | ({"training.epsilon": LARGER} if suffix else {})
    for suffix in SUFFIXES.values()
    for model in SHOWN
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
    """Run the missing jobs, write ``epsilon-<preset>.json`` and draw one picture.

    Every model has the same search for its training settings, with each ε.
    """
    found = compare(
        name,
        folder,
        VARIANTS,
        world_names=world_names,
        repeats=repeats,
        workers=workers,
        progress=progress,
        export=export,
    )
    proposed = [model for model in SHOWN if model in PROPOSED]
    rows, panels = {}, {}
    for world in world_names:
        rows[world] = {
            label: {model: found.row(world, f"{model}{suffix}") for model in SHOWN}
            for label, suffix in SUFFIXES.items()
        }
        for label, suffix in SUFFIXES.items():
            errors = {model: found.errors(world, f"{model}{suffix}") for model in SHOWN}
            rows[world][label]["p"] = p_of_beating(errors, proposed, list(BASELINES))
        panels[TITLES[world]] = {
            f"chosen by {chosen}": {
                label: {model: found.errors(world, f"{model}{suffix}", prefix) for model in SHOWN}
                for label, suffix in SUFFIXES.items()
            }
            for chosen, prefix in (("validation loss", ""), ("the true LLRs", BY_TRUTH))
        }
    write_table(folder / f"epsilon-{name}.json", rows, keep=True)
    title = f"LLR error by the ε of the optimizer, {preset(name).train:,} series"
    return [plots.save(plots.llr_errors_by_condition(panels, title=title), folder / f"epsilon-{name}")[0]]
