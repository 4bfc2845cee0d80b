"""Figure 4: speed–accuracy curves on real series, every model tuned alike, beside peers and plain rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stopwise import plots
from stopwise.experiments.models import Settings
from stopwise.experiments.peers import PEERS, run_peer
from stopwise.experiments.real import plan
from stopwise.experiments.real_runs import run, search
from stopwise.experiments.statistics import mean_and_sem, p_of_beating
from stopwise.experiments.sweep import Job, Result, sweep
from stopwise.experiments.tables import write_table
from stopwise.validation import check_choice

BASELINES: dict[str, Settings] = {
    "TANDEM-LLLR": {"model": "lstm", "loss": "lllr", "polish": False},
    "Oblivion-LSEL": {"model": "lstm", "formula": "oblivion", "polish": False},
}
PROPOSED: dict[str, Settings] = {
    "B2Bsqrt-TANDEM": {"model": "b2bsqrt", "polish": False},
    "TANDEMformer": {"model": "tandemformer", "polish": False},
    "accumulator": {"model": "accumulator"},
}
MODELS = BASELINES | PROPOSED


@dataclass(frozen=True)
class Sizes:
    """How much is tried.

    Parameters
    ----------
    trials
        Of tuning, for every model.
    repeats, peer_repeats
        Runs of every model, and of every peer.
    epochs
        Times those of the set's plan.
    most
        Series at most.
    cheap
        Whether to search no dropout, and one block only: both keep the TANDEMformer from its fast forms, and
        cost several times the time.
    """

    trials: int
    repeats: int
    peer_repeats: int
    epochs: float
    most: int | None
    cheap: bool


PRESETS = {
    "quick": Sizes(trials=2, repeats=2, peer_repeats=0, epochs=0.1, most=300, cheap=True),
    "medium": Sizes(trials=8, repeats=10, peer_repeats=1, epochs=1.0, most=None, cheap=True),
    "paper": Sizes(trials=100, repeats=50, peer_repeats=10, epochs=3.0, most=None, cheap=False),
}


def reproduce(
    name: str,
    folder: Path,
    *,
    data: str,
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
) -> list[Path]:
    """Tune, run what is missing, test and draw; results lie in ``folder/<data>-<preset>``.

    The table goes to ``fig4-<data>-<preset>.json``.
    """
    sizes = PRESETS[check_choice("preset", name, PRESETS)]
    place = folder / f"{data}-{name}"
    made = plan(data)
    shared = {
        "data": {"name": data, "most": sizes.most, "stride": made.stride, "prepare": made.prepare},
    }
    alike = {"batch_size": made.batch_size, "standardize": made.standardize, "patience": None}
    epochs = max(1, round(sizes.epochs * made.epochs))
    searches = [
        Job(
            f"tune_{model}",
            shared
            | {
                "settings": settings | _kept(model, sizes) | alike,
                "trials": sizes.trials,
                "epochs": epochs,
            },
        )
        for model, settings in MODELS.items()
    ]
    found = sweep(search, searches, place, title=f"{data}: tuning", workers=workers, progress=progress)
    jobs = [
        Job(
            f"{model}_{repeat}",
            shared | {"settings": found[f"tune_{model}"]["best"], "epochs": epochs, "repeat": repeat},
        )
        for repeat in range(repeats or sizes.repeats)
        for model in MODELS
    ]
    results = sweep(run, jobs, place, title=f"{data}: runs", workers=workers, progress=progress)
    peers = [
        Job(f"{peer}_{repeat}", shared | {"peer": peer, "repeat": repeat})
        for repeat in range(sizes.peer_repeats)
        for peer in PEERS
    ]
    results |= sweep(run_peer, peers, place, title=f"{data}: peers", workers=workers, progress=progress)
    told = _told(results)
    told["settings"] = {model: found[f"tune_{model}"]["best"] for model in MODELS}
    write_table(folder / f"fig4-{data}-{name}.json", told)
    return [plots.save(_figure(data, told), folder / f"fig4-{data}-{name}")[0]]


def _kept(model: str, sizes: Sizes) -> Settings:
    """Return what is not searched."""
    if not sizes.cheap:
        return {}
    return {"dropout": 0.0} | ({"blocks": 1} if model == "TANDEMformer" else {})


def _told(results: Mapping[str, Result]) -> dict[str, Any]:
    """Return curves, tests and tables as plain JSON values."""
    runs = {model: _runs(results, model) for model in MODELS}
    curves = {model: [one["error_at"] for one in mine] for model, mine in runs.items() if mine}
    times = next(mine[0]["times"] for mine in runs.values() if mine)
    p = [
        p_of_beating(
            {model: [run[i] for run in mine] for model, mine in curves.items()},
            list(PROPOSED),
            list(BASELINES),
        )
        for i in range(len(times))
    ]
    areas = {model: [one["ausat"] for one in mine] for model, mine in runs.items() if mine}
    best = min((model for model in PROPOSED if model in areas), key=lambda model: np.mean(areas[model]))
    return {
        "times": times,
        "error_at": curves,
        "p": {model: [one.get(model, 1.0) for one in p] for model in PROPOSED},
        "ausat": {model: _mean(values) for model, values in areas.items()},
        "ausat_p": p_of_beating(areas, list(PROPOSED), list(BASELINES)),
        "best": best,
        "fixed_time": np.mean([one["fixed_time_error_at"] for one in runs[best]], axis=0).round(5).tolist(),
        "points": _points(results, runs),
    }


def _points(results: Mapping[str, Result], runs: Mapping[str, list[Result]]) -> dict[str, Any]:
    """Return, by method, the figures at the points it chose, and its times of fitting and deciding."""
    table = {}
    for model, mine in runs.items():
        for kind in mine[0]["points"] if mine else ():
            table[f"{model}, {kind}"] = _row(mine, kind)
    for peer in PEERS:
        if mine := _runs(results, peer):
            table[peer] = _row(mine, "own")
    return table


def _row(mine: list[Result], kind: str) -> dict[str, Any]:
    keys = [key for key in mine[0]["points"][kind] if key != "rule"]
    row = {key: _mean([one["points"][kind][key] for one in mine]) for key in keys}
    clocks = ("fit_seconds", "decision_milliseconds")
    return row | {key: _mean([one[key] for one in mine]) for key in clocks} | {"runs": len(mine)}


def _figure(data: str, told: Mapping[str, Any]) -> Any:
    p = np.min([told["p"][model] for model in PROPOSED], axis=0)
    peers = {
        peer: (row["mean_time"]["mean"], row["error"]["mean"])
        for peer, row in told["points"].items()
        if peer in PEERS
    }
    return plots.sat_bands(
        told["times"],
        {model: np.array(runs) for model, runs in told["error_at"].items()},
        p_values=p,
        reference=(f"{told['best']}, fixed time", told["fixed_time"]),
        points=peers,
        title=f"{data}: shaded where a proposed model beats both baselines",
    )


def _runs(results: Mapping[str, Result], model: str) -> list[Result]:
    """Return the runs of one model that did not diverge."""
    return [
        result
        for name, result in results.items()
        if name.rpartition("_")[0] == model and "diverged" not in result
    ]


def _mean(values: list[float]) -> dict[str, float | None]:
    mean, sem = mean_and_sem(values)
    return {"mean": round(mean, 5), "sem": None if np.isnan(sem) else round(sem, 5)}
