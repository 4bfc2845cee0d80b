"""The conditions of the Gaussian comparison: changed settings, models, and numbers of repeats.

The name of a run consists of its world, model, condition and repeat. There is one result file per preset, so
that figures share the runs they have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stopwise.experiments.models import MODELS, Settings, search, tuned
from stopwise.experiments.presets import Preset, preset
from stopwise.experiments.runs import run
from stopwise.experiments.sweep import Job, Result, sweep

WEIGHT_DECAYS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
# No weight decay, no LayerNorm, the usual number of series, and the default loss and pooling of each model.
MAIN = "main"


@dataclass(frozen=True)
class Condition:
    """A change of the settings of some models, or of the number of training series.

    Parameters
    ----------
    name
        Name of the condition, part of the names of its runs.
    changes
        Settings that differ from those of the main comparison.
    models
        Names of the models to run.
    large
        Whether to train on the large number of series of the preset.
    """

    name: str
    changes: Settings = field(default_factory=dict)
    models: tuple[str, ...] = tuple(MODELS)
    large: bool = False


CONDITIONS = (
    Condition(MAIN),
    *(Condition(f"decay-{decay:g}", {"training.weight_decay": decay}) for decay in WEIGHT_DECAYS[1:]),
    # The tanh LSTM has both losses in the main comparison. LLLR is not convex, so it cannot be polished.
    Condition("lllr", {"loss": "lllr", "polish": False}, ("B2Bsqrt-TANDEM", "TANDEMformer", "accumulator")),
    Condition("large", large=True),
    Condition("gap", {"pooling": "gap"}, ("TANDEMformer",)),
    Condition("one-token", {"pooling": "one-token"}, ("TANDEMformer",)),
    Condition("norm", {"layer_norm": True}),
)


def worlds(sizes: Preset) -> dict[str, dict[str, Any]]:
    """Return the worlds of the two-class comparison by name: offset 2, with large LLRs, and offset 1."""
    common = {"kind": "gaussian", "channels": sizes.channels, "length": sizes.length}
    return {"a2": common | {"offset": 2.0}, "a1": common | {"offset": 1.0}}


def compare(
    preset_name: str,
    folder: Path,
    conditions: Iterable[Condition],
    *,
    world_names: Iterable[str] = ("a2", "a1"),
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
) -> dict[str, Result]:
    """Search the settings of each model, run conditions, and return the results by name of the run.

    Parameters
    ----------
    preset_name
        "quick", "medium" or "paper".
    folder
        Folder of the result files ``<preset>.jsonl`` and ``search-<sizes>.jsonl``.
    conditions
        The conditions to run, from `CONDITIONS`.
    world_names
        Names of the worlds to run; see `worlds`.
    repeats
        Number of repeats. If None, that of the preset.
    workers, progress
        As for `sweep`.

    Returns
    -------
    results
        The results by name of the run; see `name_of`.
    """
    sizes = preset(preset_name)
    chosen = {name: worlds(sizes)[name] for name in world_names}
    found = search(chosen, sizes, search_file(folder, sizes), workers=workers, progress=progress)
    jobs = [
        job(world, chosen[world], model, condition, repeat, found[world][model], sizes)
        for repeat in range(repeats or sizes.main_repeats)
        for condition in conditions
        for world in chosen
        for model in condition.models
        if repeats or repeat < sizes.repeats or condition.name == MAIN
    ]
    return sweep(
        run, jobs, result_file(folder, preset_name), title="runs", workers=workers, progress=progress
    )


def result_file(folder: Path, preset_name: str) -> Path:
    """Return the result file of the runs of a preset."""
    return folder / f"{preset_name}.jsonl"


def search_file(folder: Path, sizes: Preset) -> Path:
    """Return the result file of the search; presets with the same search sizes share it."""
    return folder / f"search-{sizes.channels}x{sizes.length}-{sizes.search_train}-{sizes.search_epochs}.jsonl"


def job(
    world: str,
    arguments: Mapping[str, Any],
    model: str,
    condition: Condition,
    repeat: int,
    found: Settings,
    sizes: Preset,
) -> Job:
    """Return one run as a job."""
    numbers = {
        "train": sizes.large if condition.large else sizes.train,
        "validation": sizes.validation,
        "test": sizes.test,
    }
    epochs = sizes.large_epochs if condition.large else sizes.epochs
    settings = tuned(model, found, {"training.max_epochs": epochs}, condition.changes)
    return Job(
        name_of(world, model, condition.name, repeat),
        {"world": dict(arguments), "sizes": numbers, "settings": settings, "repeat": repeat},
    )


def name_of(world: str, model: str, condition: str, repeat: int) -> str:
    """Return the name of a run.

    Examples
    --------
    >>> name_of("a2", "TANDEMformer", "main", 0)
    'a2_TANDEMformer_main_0'
    """
    return f"{world}_{model}_{condition}_{repeat}"


def values(results: Mapping[str, Result], world: str, model: str, condition: str, key: str) -> list[float]:
    """Return the values of `key` in all repeats of a model under a condition, without diverged runs."""
    prefix = f"{world}_{model}_{condition}_"
    return [
        result[key]
        for name, result in results.items()
        if name.startswith(prefix) and name.removeprefix(prefix).isdigit() and key in result
    ]
