"""The conditions of the Gaussian comparison: changed settings, models, and numbers of repeats.

The name of a run consists of its world, model, condition and repeat. There is one result file per preset, so
that figures share the runs they have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stopwise.experiments.models import MODELS, Settings, search, tuned
from stopwise.experiments.own import is_own
from stopwise.experiments.presets import Preset, preset
from stopwise.experiments.runs import run
from stopwise.experiments.sweep import Job, Result, export_to, stored, sweep
from stopwise.validation import check_choice

BY_TRUTH = "by_truth."  # prefix of the metrics of the weights that are best by the exact LLRs
WEIGHT_DECAYS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
# No weight decay, no LayerNorm, the usual number of series, and the default loss and pooling of each model.
MAIN = "main"
TITLES = {"a2": "a = 2", "a1": "a = 1"}  # of the two-class worlds, by name


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
        Names of the models to run; None for all.
    large
        Whether to train on the large number of series of the preset.
    data_steps
        Whether to train for the number of steps with which numbers of series are compared.
    """

    name: str
    changes: Settings = field(default_factory=dict)
    models: tuple[str, ...] | None = None
    large: bool = False
    data_steps: bool = False

    @property
    def for_any_model(self) -> bool:
        """Whether the condition changes only how a model is trained, not an option of some models."""
        return all(name.startswith("training.") or name == "polish" for name in self.changes)

    @property
    def model_names(self) -> tuple[str, ...]:
        """Names of the models to run."""
        return tuple(MODELS) if self.models is None else self.models


CONDITIONS = (
    Condition(MAIN),
    *(Condition(f"decay-{decay:g}", {"training.weight_decay": decay}) for decay in WEIGHT_DECAYS[1:]),
    # The tanh LSTM has both losses in the main comparison. LLLR is not convex, so it cannot be polished.
    Condition("lllr", {"loss": "lllr", "polish": False}, ("B2Bsqrt-TANDEM", "TANDEMformer", "accumulator")),
    # Polishing would need hundreds of passes over the large number of series. Equal for both numbers.
    Condition("large", {"polish": False}, large=True, data_steps=True),
    Condition("few", {"polish": False}, data_steps=True),
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
    export: Path | None = None,
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
        Number of repeats. If None, those of the preset.
    workers, progress
        As for `sweep`.
    export
        Folder for the scores of every run; see `write_scores`. If None, they are not written.

    Returns
    -------
    results
        The results by name of the run; see `name_of`. Finished runs with a higher repeat are included.
    """
    sizes = preset(preset_name)
    chosen = {name: worlds(sizes)[name] for name in world_names}
    found = search(chosen, sizes, search_file(folder, sizes), workers=workers, progress=progress)
    conditions = list(conditions)
    jobs: list[Job] = []
    further: list[Job] = []
    seen: dict[str, Any] = {}
    same: dict[str, str] = {}  # names of runs that equal a run of the main comparison, by their own name
    for repeat in range(max(repeats or 0, sizes.main_repeats)):
        for condition in conditions:
            for world in chosen:
                for model in condition.model_names:
                    if is_own(MODELS[model]) and not condition.for_any_model:
                        continue
                    one = job(world, chosen[world], model, condition, repeat, found[world][model], sizes)
                    one = replace(one, export=export_to(export, one.name))
                    wanted = repeats or _repeats(sizes, world, condition)
                    main = name_of(world, model, MAIN, repeat)
                    if main in seen and seen[main] == one.arguments:
                        same[one.name] = main
                        continue
                    seen[one.name] = one.arguments
                    (jobs if repeat < wanted else further).append(one)
    path = result_file(folder, preset_name)
    results = sweep(run, jobs, path, title="runs", workers=workers, progress=progress)
    results |= stored(further, path)
    return results | {name: results[main] for name, main in same.items() if main in results}


def _repeats(sizes: Preset, world: str, condition: Condition) -> int:
    """Return the number of repeats of a condition on a world."""
    if condition.name == MAIN:
        return sizes.main_repeats
    return sizes.repeats if world == "a2" else sizes.small_repeats


def chosen_conditions(names: Iterable[str] | None) -> list[Condition]:
    """Return the main condition and those with these names; all if None."""
    known = {condition.name: condition for condition in CONDITIONS}
    if not names:
        return list(CONDITIONS)
    wanted = [check_choice("--condition", name, known) for name in names]
    return [known[name] for name in dict.fromkeys([MAIN, *wanted])]


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
    numbers = sizes.numbers | ({"train": sizes.large} if condition.large else {})
    lasting = sizes.lasting(sizes.data_steps if condition.data_steps else None)
    settings = tuned(model, found, lasting, condition.changes)
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
    """Return the values of `key` in all repeats of a model under a condition, without diverged runs.

    A key that starts with `BY_TRUTH` is that of the weights with the smallest LLR error on validation series.
    """
    prefix = f"{world}_{model}_{condition}_"
    runs = [
        result
        for name, result in results.items()
        if name.startswith(prefix) and name.removeprefix(prefix).isdigit()
    ]
    if key.startswith(BY_TRUTH):
        runs, key = [run["by_truth"] for run in runs if "by_truth" in run], key.removeprefix(BY_TRUTH)
    return [run[key] for run in runs if key in run]
