"""Figure 4: speed–accuracy curves of tuned models, other early classifiers and simple rules on real data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stopwise import plots
from stopwise.experiments import protocols
from stopwise.experiments.models import Settings
from stopwise.experiments.own import is_own
from stopwise.experiments.peers import PEERS, run_peer
from stopwise.experiments.real import plan
from stopwise.experiments.real_runs import run, search
from stopwise.experiments.score_average import NAME, run_average
from stopwise.experiments.statistics import mean_and_sem, p_of_beating
from stopwise.experiments.sweep import Job, Result, export_to, stored, sweep
from stopwise.experiments.tables import write_table
from stopwise.plots.sat_bands import SIGNIFICANT

BASELINES: dict[str, Settings] = {
    "TANDEM-LLLR": {"model": "tanh", "loss": "lllr", "polish": False},
    "Oblivion-LSEL": {"model": "tanh", "formula": "oblivion", "polish": False},
}
PROPOSED: dict[str, Settings] = {
    "B2Bsqrt-TANDEM": {"model": "b2bsqrt", "polish": False},
    "TANDEMformer": {"model": "tandemformer", "polish": False},
    "accumulator": {"model": "accumulator"},
}
MODELS = BASELINES | PROPOSED
DIGITS = 5  # of the means in the table


def reproduce(
    name: str,
    folder: Path,
    *,
    data: str,
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
    protocol: str = "own",
    peers: bool = True,
    export: Path | None = None,
) -> list[Path]:
    """Tune the models, run the missing jobs, test significance and draw.

    The result file is ``<data>-<preset>.jsonl``, the table ``fig4-<data>-<preset>.json``. With the protocol
    "paper" the names end in ``-paper-protocol``. With peers=False, only finished runs of peers are shown.
    """
    sizes = protocols.sizes_of(protocol, name)
    stem = f"{data}-{name}" + ("-paper-protocol" if protocol == "paper" else "")
    path = folder / f"{stem}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    prepared = plan(data)
    shared = {
        "data": {"name": data, "most": sizes.most, "stride": prepared.stride, "prepare": prepared.prepare},
    }
    common = {
        "training.batch_size": prepared.batch_size,
        "training.patience": None,
        "standardize": prepared.standardize,
    }
    epochs = max(1, round(sizes.epochs * prepared.epochs))
    searches = [
        Job(
            f"tune_{model}",
            shared
            | {
                "settings": settings
                | ({} if is_own(settings) else protocols.fixed(protocol, settings["model"], sizes))
                | common,
                "trials": sizes.trials,
                "epochs": epochs,
            }
            | ({} if protocol == "own" else {"protocol": protocol}),
        )
        for model, settings in MODELS.items()
    ]
    work = partial(search, studies=str(folder / f"{stem}.studies.db"))
    found = sweep(work, searches, path, title=f"{data}: tuning", workers=workers, progress=progress)
    jobs = [
        Job(
            f"{model}_{repeat}",
            shared | {"settings": found[f"tune_{model}"]["best"], "epochs": epochs, "repeat": repeat},
        )
        for repeat in range(repeats or sizes.repeats)
        for model in MODELS
    ]
    jobs = [replace(one, export=export_to(export, f"{stem}_{one.name}")) for one in jobs]
    results = sweep(run, jobs, path, title=f"{data}: runs", workers=workers, progress=progress)
    averages = [
        Job(f"{NAME}_{repeat}", shared | {"repeat": repeat}, export_to(export, f"{stem}_{NAME}_{repeat}"))
        for repeat in range(repeats or sizes.repeats)
    ]
    results |= sweep(run_average, averages, path, title=f"{data}: {NAME}", workers=workers, progress=progress)
    others = [
        Job(f"{peer}_{repeat}", shared | {"peer": peer, "repeat": repeat})
        for repeat in range(sizes.peer_repeats)
        for peer in PEERS
    ]
    results |= (
        stored(others, path)
        if not peers
        else sweep(run_peer, others, path, title=f"{data}: peers", workers=workers, progress=progress)
    )
    table = _table(results)
    table["settings"] = {model: found[f"tune_{model}"]["best"] for model in MODELS}
    write_table(folder / f"fig4-{stem}.json", table)
    return [plots.save(_figure(data, table), folder / f"fig4-{stem}")[0]]


def _table(results: Mapping[str, Result]) -> dict[str, Any]:
    """Return curves, p-values and operating points as plain JSON values."""
    runs = {model: _runs(results, model) for model in (*MODELS, NAME)}
    curves = {model: [run["error_at"] for run in own] for model, own in runs.items() if own}
    times = next(own[0]["times"] for own in runs.values() if own)
    p = [
        p_of_beating(
            {model: [errors[i] for errors in own] for model, own in curves.items()},
            list(PROPOSED),
            list(BASELINES),
        )
        for i in range(len(times))
    ]
    areas = {model: [run["ausat"] for run in own] for model, own in runs.items() if own}
    best = min((model for model in PROPOSED if model in areas), key=lambda model: np.mean(areas[model]))
    return {
        "times": times,
        "error_at": curves,
        "largest_rise": {model: round(_largest_rise(own), DIGITS) for model, own in curves.items()},
        "p": {model: [at_time.get(model, 1.0) for at_time in p] for model in PROPOSED},
        "ausat": {model: mean_and_sem(values, DIGITS) for model, values in areas.items()},
        "ausat_p": p_of_beating(areas, list(PROPOSED), list(BASELINES)),
        "best": best,
        "fixed_time": np.mean([run["fixed_time_error_at"] for run in runs[best]], axis=0).round(5).tolist(),
        "points": _points(results, runs),
    }


def _largest_rise(curves: list[list[float]]) -> float:
    """Return by how much the mean curve is at most above its earlier minimum; 0 if it never rises."""
    mean = np.mean(curves, axis=0)
    return float((mean - np.minimum.accumulate(mean)).max())


def _points(results: Mapping[str, Result], runs: Mapping[str, list[Result]]) -> dict[str, Any]:
    """Return, by method, the metrics at its operating point, and the times to fit and to decide."""
    table = {}
    for model, own in runs.items():
        for kind in own[0]["points"] if own else ():
            table[f"{model}, {kind}"] = _row(own, kind)
    for peer in PEERS:
        if own := _runs(results, peer):
            table[peer] = _row(own, "own")
    return table


def _row(runs: list[Result], kind: str) -> dict[str, Any]:
    keys = [key for key in runs[0]["points"][kind] if key != "rule"]
    row = {key: mean_and_sem([run["points"][kind][key] for run in runs], DIGITS) for key in keys}
    clocks = ("fit_seconds", "decision_milliseconds")
    return (
        row | {key: mean_and_sem([run[key] for run in runs], DIGITS) for key in clocks} | {"runs": len(runs)}
    )


def _figure(data: str, table: Mapping[str, Any]) -> Any:
    p = np.min([table["p"][model] for model in PROPOSED], axis=0)
    peers = {
        peer: (row["mean_time"]["mean"], row["error"]["mean"])
        for peer, row in table["points"].items()
        if peer in PEERS
    }
    ahead = "shaded where a proposed model beats both baselines"
    if (p >= SIGNIFICANT).all():
        ahead = f"no proposed model beats both baselines (p ≥ {SIGNIFICANT})"
    return plots.sat_bands(  # the p-value at a time is the largest one of the best model there
        table["times"],
        {model: np.array(runs) for model, runs in table["error_at"].items()},
        p_values=p,
        reference=(f"{table['best']}, fixed time", table["fixed_time"]),
        points=peers,
        error_bars=True,
        title=f"{data}: {ahead}",
    )


def _runs(results: Mapping[str, Result], model: str) -> list[Result]:
    """Return the runs of a model or peer that did not diverge."""
    return [
        result
        for name, result in results.items()
        if name.rpartition("_")[0] == model and "diverged" not in result
    ]
