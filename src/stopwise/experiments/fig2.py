"""Figure 2: LLR error over weight decay, loss, LayerNorm, data size and pooling, with Tukey–Kramer tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stopwise import plots
from stopwise.experiments.conditions import (
    BY_TRUTH,
    MAIN,
    TITLES,
    WEIGHT_DECAYS,
    chosen_conditions,
    compare,
    name_of,
    result_file,
    values,
    worlds,
)
from stopwise.experiments.limits import limits
from stopwise.experiments.models import BASELINES, MODELS, PROPOSED
from stopwise.experiments.presets import Preset, preset
from stopwise.experiments.statistics import SIGNIFICANT, mean_and_sem, p_of_beating
from stopwise.experiments.sweep import Result
from stopwise.experiments.tables import write_table
from stopwise.validation import check_choice

# panel → condition → model → errors of the runs
Panels = dict[str, dict[str, dict[str, list[float]]]]
TANH = "tanh LSTM"
OF_THE_PAPER = ("B2Bsqrt-TANDEM", "TANDEMformer")


def reproduce(
    name: str,
    folder: Path,
    *,
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
    world_names: Sequence[str] = tuple(TITLES),
    conditions: Sequence[str] | None = None,
    export: Path | None = None,
) -> list[Path]:
    """Run the missing jobs, test significance, write ``fig2-<preset>.json`` and draw two pictures.

    In the second picture, and in the table ``fig2-<preset>-by-truth.json``, the weights of every run are
    those with the smallest LLR error on validation series. Worlds and conditions can be left out; the panels
    show what there is.
    """
    sizes = preset(name)
    for world in world_names:
        check_choice("--world", world, TITLES)
    rows = {world: TITLES[world] for world in world_names}
    results = compare(
        name,
        folder,
        chosen_conditions(conditions),
        world_names=rows,
        repeats=repeats,
        workers=workers,
        progress=progress,
        export=export,
    )
    shown = {world: worlds(sizes)[world] for world in rows}
    found = limits(shown, sizes, result_file(folder, name), workers=workers, progress=progress)
    longest = {world: found[world]["longest"] for world in rows}
    pictures = []
    for suffix, key in (("", "llr_error"), ("-by-truth", f"{BY_TRUTH}llr_error")):
        # Stored runs of an earlier version have only one choice of the epoch.
        drawn = {world: row for world, row in rows.items() if not suffix or has_second_choice(results, world)}
        if not drawn:
            continue
        cells = {world: _cells(results, world, sizes, key) for world in drawn}
        tests = {world: _tests(cells[world]) for world in drawn}
        _write(folder / f"fig2-{name}{suffix}.json", cells, tests, longest)
        ending = "; epochs chosen by the true LLRs" if suffix else ""
        figure = plots.llr_errors_by_condition(
            {drawn[world]: panels for world, panels in _with_runs(cells).items()},
            starred={row: _starred(tests[world]) for world, row in drawn.items()},
            limits={row: longest[world] for world, row in drawn.items()},
            trivial={row: _trivial(results, world) for world, row in drawn.items()},
            title="LLR error: shaded where B2Bsqrt-TANDEM, TANDEMformer or NSP beats every baseline, "
            f"p < 0.001{ending}",
        )
        pictures.append(plots.save(figure, folder / f"fig2-{name}{suffix}")[0])
    return pictures


def has_second_choice(results: Mapping[str, Result], world: str) -> bool:
    """Whether all runs of a world have the choice of the epoch by the true LLRs."""
    runs = [one for name, one in results.items() if name.startswith(f"{world}_") and "llr_error" in one]
    return all("by_truth" in one for one in runs)


def _cells(results: Mapping[str, Result], world: str, sizes: Preset, key: str = "llr_error") -> Panels:
    """Return panel → condition → model → errors."""

    def errors(condition: str, models: Any = MODELS) -> dict[str, list[float]]:
        return {model: values(results, world, model, condition, key) for model in models}

    main = errors(MAIN)
    proposed = {model: main[model] for model in PROPOSED}
    decays = {f"{decay:g}": errors(f"decay-{decay:g}") if decay else main for decay in WEIGHT_DECAYS}
    return {
        "weight decay": decays,
        "loss": {
            "LSEL": {TANH: main["Oblivion-LSEL"]} | proposed,
            "LLLR": {TANH: main["TANDEM-LLLR"]} | errors("lllr", PROPOSED),
        },
        "LayerNorm": {"off": main, "on": errors("norm")},
        "training series": {f"{sizes.train:,}": errors("few"), f"{sizes.large:,}": errors("large")},
        "pooling": {
            "NSP": {"TANDEMformer": main["TANDEMformer"]},
            "GAP": errors("gap", ["TANDEMformer"]),
            "token": errors("one-token", ["TANDEMformer"]),
        },
    }


def _with_runs(cells: Mapping[str, Panels]) -> dict[str, Panels]:
    """Return the panels of each world without the conditions that have no runs in any world."""

    def exists(panel: str, condition: str) -> bool:
        return any(any(panels[panel][condition].values()) for panels in cells.values())

    return {
        world: {
            panel: {condition: cell for condition, cell in conditions.items() if exists(panel, condition)}
            for panel, conditions in panels.items()
        }
        for world, panels in cells.items()
    }


def _tests(
    panels: Mapping[str, Mapping[str, Mapping[str, list[float]]]],
) -> dict[str, dict[str, dict[str, float]]]:
    """Return panel → condition → proposed model → largest p-value against the baselines."""
    tests = {
        panel: {
            condition: p_of_beating(cell, list(PROPOSED), [*BASELINES, TANH])
            for condition, cell in cells.items()
        }
        for panel, cells in panels.items()
        if panel != "pooling"
    }
    pooling = {condition: cell["TANDEMformer"] for condition, cell in panels["pooling"].items()}
    p = p_of_beating(pooling, ["NSP"], ["GAP", "token"])
    return tests | {"pooling": {"NSP": {"TANDEMformer": p["NSP"]} if p else {}}}


def _starred(tests: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, list[str]]:
    """Return, by panel, the conditions where a model of the paper is significantly better."""
    return {
        panel: [
            condition
            for condition, p in conditions.items()
            if min((p[model] for model in OF_THE_PAPER if model in p), default=1.0) < SIGNIFICANT
        ]
        for panel, conditions in tests.items()
    }


def _trivial(results: Mapping[str, Result], world: str) -> float:
    """Return the mean absolute true LLR: the error of always predicting 0."""
    result = results[name_of(world, "accumulator", MAIN, 0)]
    return float(result["llr_error"] / result["relative"])


def _write(path: Path, cells: Mapping[str, Panels], tests: Any, longest: Mapping[str, float]) -> None:
    """Write means, standard errors, numbers of runs and p-values as a table."""
    table = {
        world: {
            "limit": longest[world],
            "panels": {
                panel: {
                    condition: {
                        model: _summary(runs, tests[world][panel].get(condition, {}).get(model))
                        for model, runs in cell.items()
                        if runs
                    }
                    for condition, cell in conditions.items()
                }
                for panel, conditions in panels.items()
            },
        }
        for world, panels in cells.items()
    }
    write_table(path, table)


def _summary(runs: list[float], p: float | None) -> dict[str, Any]:
    summary = mean_and_sem(runs, digits=4) | {"runs": len(runs)}
    return summary if p is None else summary | {"p": p}
