"""Sweeps of independent jobs: one result file each, resumable, spread by joblib.

A sweep that is stopped loses the jobs under way and nothing else; a finished one only reads its files. Any
joblib backend will do: inside ``joblib.parallel_config("dask")`` the jobs go to a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from time import perf_counter
from typing import Any

from joblib import Parallel, delayed

from stopwise.atomic import written_aside
from stopwise.progress import Reporter

Result = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A name, which is that of the result file, and what `work` is called with: plain JSON values."""

    name: str
    arguments: dict[str, Any]


def sweep(
    work: Callable[..., Result],
    jobs: Iterable[Job],
    folder: Path,
    *,
    title: str,
    workers: int = -1,
    progress: bool | str = True,
) -> dict[str, Result]:
    """Run the jobs whose results are not there yet; return all results by name.

    Parameters
    ----------
    work
        A function of a module, called with a job's arguments; returns plain JSON values.
    jobs
        What to do; several of one name are one job.
    folder
        Where the results lie, ``<name>.json``. A result of other arguments is made anew.
    title
        What the progress is called.
    workers
        Processes at a time; -1 for one a core.
    progress
        As for `Reporter`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = list({job.name: job for job in jobs}.values())
    found = {job.name: _read(folder, job) for job in wanted}
    todo = [job for job in wanted if found[job.name] is None]
    with Reporter(title, len(wanted), progress) as reporter:
        reporter.skip(len(wanted) - len(todo))
        parallel = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="1*n_jobs")
        for name, result in parallel(delayed(_do)(work, job, folder) for job in todo):
            found[name] = result
            reporter.advance(name)
    return {name: result for name, result in found.items() if result is not None}


def _do(work: Callable[..., Result], job: Job, folder: Path) -> tuple[str, Result]:
    start = perf_counter()
    result = work(**job.arguments)
    told = {
        "name": job.name,
        "arguments": job.arguments,
        "result": result,
        "seconds": round(perf_counter() - start, 2),
        "versions": {"python": python_version()}
        | {one: version(one) for one in ("stopwise", "torch", "numpy")},
    }
    with written_aside(folder / f"{job.name}.json") as [aside]:
        aside.write_text(json.dumps(told, allow_nan=False) + "\n")
    return job.name, result


def _read(folder: Path, job: Job) -> Result | None:
    """Return the stored result of a job; None if there is none, it is damaged, or of other arguments."""
    try:
        told = json.loads((folder / f"{job.name}.json").read_text())
        same = told["arguments"] == json.loads(json.dumps(job.arguments))
        return told["result"] if same else None
    except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
        return None
