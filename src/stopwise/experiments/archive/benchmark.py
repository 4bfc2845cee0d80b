"""The archive benchmark: which runs are made, in which order, and what is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblib import parallel_config

from stopwise import plots
from stopwise.experiments import nosaic, peers
from stopwise.experiments.archive import data, report
from stopwise.experiments.archive.runs import METHODS, run
from stopwise.experiments.own_process import in_own_process, limit_threads
from stopwise.experiments.ranking import rank
from stopwise.experiments.sweep import Job, Result, runs_nothing, stored_records, sweep
from stopwise.experiments.tables import write_table
from stopwise.validation import check_choice, warn

PREFIX = "prefix"
REPEATED = ("default", PREFIX)
FIRST = ("default", PREFIX, "CALIMERA")  # run before the others
NETWORKS = ("accumulator", "B2Bsqrt-TANDEM")
AEON = ("TEASER", "probability threshold")


@dataclass(frozen=True)
class Sizes:
    """Sizes of one benchmark.

    Parameters
    ----------
    seeds
        Number of seeds of `REPEATED`; all other methods have one.
    largest
        Largest training part, in numbers n·T·d, of the sets that are run.
    network
        Largest training part for the networks.
    most
        Largest number of training series for CALIMERA and the peers, by method.
    """

    seeds: int
    largest: float
    network: float
    most: dict[str, int]


PRESETS = {
    "quick": Sizes(1, 30_000, 30_000, {"CALIMERA": 500, "TEASER": 200, "probability threshold": 500}),
    "medium": Sizes(2, float("inf"), 1e5, {"CALIMERA": 2000, "TEASER": 500, "probability threshold": 1000}),
    "full": Sizes(5, float("inf"), 1e6, {"CALIMERA": 2000, "TEASER": 500, "probability threshold": 1000}),
}


def reproduce(
    name: str,
    folder: Path,
    *,
    sets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    repeats: int | None = None,
    workers: int = -1,
    progress: bool = True,
    isolated: bool = True,
) -> list[Path]:
    """Run the missing jobs, write tables and draw.

    The runs are in ``archive-<preset>.jsonl``, the tables in ``archive-<preset>.json`` and, for readers, in
    ``archive-<preset>.md`` (summary) and ``archive-<preset>-sets.md`` (every set).

    Parameters
    ----------
    name
        A preset.
    folder
        Folder for the results.
    sets
        Names of the datasets; None: those of `data.SETS` that are there.
    methods
        Names of the methods; None: all.
    repeats
        Number of seeds of `REPEATED` on all datasets; None: by preset.
    workers, progress
        As for `sweep`.
    isolated
        Whether each job has a process of its own.
    """
    sizes = PRESETS[check_choice("--preset", name, PRESETS)]
    chosen = (
        list(METHODS) if methods is None else [check_choice("--methods", one, METHODS) for one in methods]
    )
    path = folder / f"archive-{name}.jsonl"
    if runs_nothing():  # needs neither the data nor the environment of the peers
        return _write(name, folder, _all_stored(path), chosen, [])
    skipped = []
    if peers.python() is None and (wanted := [one for one in chosen if one in AEON]):
        chosen = [one for one in chosen if one not in AEON]
        skipped.append(
            f"{' and '.join(wanted)} not run: there is no environment of the peers. Create it with "
            "`make peers`."
        )
    found, missing = _sets(sets, sizes)
    if missing:
        skipped.append(f"Not found, so not run: {', '.join(missing)}.")
    for line in skipped:
        warn(line)
    work = _isolated if isolated else run
    jobs = plan(found, chosen, sizes, repeats)
    if isolated:
        limit_threads(workers if workers > 0 else 2)

    def done(jobs: Sequence[Job], title: str) -> dict[str, Result]:
        first = [job for job in jobs if job.arguments["method"] != PREFIX]
        with parallel_config("threading" if isolated else "sequential"):
            found = sweep(
                work, first, path, title=title, workers=workers, progress=progress, again=_has_failed
            )
            same = same_as_default(jobs, found)
            rest = [job for job in jobs if job.name not in found | same]
            found |= sweep(
                work, rest, path, title=title, workers=workers, progress=progress, again=_has_failed
            )
        return found | same

    others = [job for job in jobs if job.arguments["data"] != data.NOSAIC]
    if len(others) < len(jobs):
        # Several jobs need the features of Nosaic MNIST, which take long: they are computed once, at the end.
        done(others, "archive, all but Nosaic MNIST")
        nosaic.features(progress)
    results = done(jobs, "archive")
    return _write(name, folder, results, chosen, skipped)


def _all_stored(path: Path) -> dict[str, Result]:
    """Return all stored results by name, and those of the prefix model where the default kept it."""
    found = {name: record["result"] for name, record in stored_records(path).items()}
    copies = {
        name.replace("/default/", f"/{PREFIX}/"): result
        for name, result in found.items()
        if "/default/" in name and result.get("kept") == {PREFIX: 1.0}
    }
    return copies | found


def same_as_default(jobs: Sequence[Job], found: Mapping[str, Result]) -> dict[str, Result]:
    """Return the results of the prefix model that are those of the default, which kept it as it is.

    The same seed gives the same model, so it need not be fitted twice.
    """
    same = {}
    for job in jobs:
        default = found.get(job.name.replace(f"/{PREFIX}/", "/default/"), {})
        if job.arguments["method"] == PREFIX and default.get("kept") == {PREFIX: 1.0}:
            same[job.name] = default
    return same


def plan(found: Sequence[str], methods: Sequence[str], sizes: Sizes, repeats: int | None = None) -> list[Job]:
    """Return the jobs: first one seed of the most telling methods, then the other methods, then more seeds.

    Within each of these, small datasets come first.
    """
    numbers = {one: data.numbers(one) for one in found}
    jobs = []
    for one in found:
        for method in methods:
            if method in NETWORKS and numbers[one] > sizes.network:
                continue
            for seed in range((repeats or sizes.seeds) if method in REPEATED else 1):
                stage = 2 if seed else int(method not in FIRST)
                arguments = {"data": one, "method": method, "seed": seed, "most": sizes.most.get(method)}
                jobs.append((stage, numbers[one], Job(f"{one}/{method}/{seed}", arguments)))
    return [job for *_, job in sorted(jobs, key=lambda item: item[:2])]


def _sets(sets: Sequence[str] | None, sizes: Sizes) -> tuple[list[str], list[str]]:
    """Return the datasets to run, and those that were not found."""
    if sets:
        for one in sets:
            data.numbers(one)  # raises an error if there is no such file
        return list(dict.fromkeys(sets)), []
    found = [one for one in data.SETS if data.find(one) is not None]
    if not found:
        data.numbers(data.SETS[0])
    return [one for one in found if data.numbers(one) <= sizes.largest], [
        one for one in data.SETS if one not in found
    ]


def _has_failed(result: Result) -> bool:
    return "failed" in result


def _isolated(**arguments: Any) -> Result:
    return dict(in_own_process(run, **arguments))


def _without_prefix(row: Mapping[str, Any]) -> dict[str, Any]:
    return {method: values for method, values in row.items() if method != PREFIX}


def _write(
    name: str, folder: Path, results: dict[str, Result], methods: Sequence[str], skipped: list[str]
) -> list[Path]:
    """Write the tables and draw; return the pictures."""
    table = report.tabulate(results, methods)
    # The prefix model is a part of the default: nearly always their costs are the same.
    costs = report.complete_costs({data: _without_prefix(row) for data, row in table.items()})
    # Ranks and their test need three methods.
    ranking = rank(costs) if len(costs) > 2 and len(next(iter(costs.values()))) > 1 else None
    summary = report.summarize(table)
    write_table(
        folder / f"archive-{name}.json",
        {
            "sets": table,
            "summary": summary,
            "ranks": None if ranking is None else {"mean": ranking.ranks, "friedman_p": ranking.friedman},
        },
    )
    notes = skipped + report.failures(results)
    report.write_text(folder / f"archive-{name}.md", report.summary_text(table, summary, ranking, notes))
    report.write_text(folder / f"archive-{name}-sets.md", report.sets_text(table))
    pictures = []
    ours = {one: row["default"]["cost"] for one, row in table.items() if "default" in row}
    others = {
        method: {one: row[method]["cost"] for one, row in table.items() if method in row}
        for method in methods
        if method not in (*REPEATED, *NETWORKS)
    }
    if ours and any(set(ours) & set(values) for values in others.values()):
        figure = plots.cost_scatter(ours, others, title="Cost: 1 − accuracy + earliness")
        pictures.append(plots.save(figure, folder / f"archive-cost-{name}")[0])
    if ranking is not None:
        figure = plots.critical_difference(
            ranking.ranks,
            ranking.cliques,
            highlight="default",
            title=f"Mean rank of the cost on {ranking.datasets} datasets",
        )
        pictures.append(plots.save(figure, folder / f"archive-ranks-{name}")[0])
    return pictures
