"""Sweeps of independent jobs: resumable, with one result file, distributed by joblib.

An interrupted sweep loses only the jobs that were running, and a finished sweep is only read from its file.
Any joblib backend works: inside ``joblib.parallel_config("dask")`` the jobs run on a cluster.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from time import perf_counter
from typing import Any

from joblib import Parallel, delayed

from stopwise.experiments.result_file import append_record, read_records
from stopwise.progress import Reporter
from stopwise.validation import warn

Result = dict[str, Any]
_stored_only: ContextVar[bool] = ContextVar("stored_only", default=False)


@dataclass(frozen=True)
class Job:
    """One call of the function of a sweep.

    Parameters
    ----------
    name
        Name of the job, unique in its sweep.
    arguments
        Keyword arguments of the function: plain JSON values.
    export
        File that the function writes in addition, passed as keyword argument `export`. A finished job whose
        file is missing runs again.
    """

    name: str
    arguments: dict[str, Any]
    export: str | None = None


def sweep(
    work: Callable[..., Result],
    jobs: Iterable[Job],
    path: Path,
    *,
    title: str,
    workers: int = -1,
    progress: bool | str = True,
    again: Callable[[Result], bool] | None = None,
) -> dict[str, Result]:
    """Run the jobs that have no stored result; return all results by name.

    Parameters
    ----------
    work
        A module-level function, called with the arguments of a job; it returns plain JSON values.
    jobs
        The jobs. Jobs with the same name run once.
    path
        The result file in JSON lines; see `read_records`. A job whose arguments differ from the stored ones
        runs again. Each result is appended as soon as its job is finished.
    title
        Title of the progress report.
    workers
        Number of processes; -1 for one per core.
    progress
        As for `Reporter`.
    again
        Function that tells whether a stored result does not count, so that its job runs again; None: all
        count.

    Returns
    -------
    results
        The results by name of the job, in the order of the jobs.
    """
    wanted = {job.name: job for job in jobs}
    if runs_nothing():
        return _as_stored(wanted, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    records = read_records(path)
    found = {name: records[name]["result"] for name, job in wanted.items() if _is_done(records, job)}
    if again is not None:
        found = {name: result for name, result in found.items() if not again(result)}
    missing = [job for name, job in wanted.items() if name not in found]
    with Reporter(title, len(wanted), progress) as reporter, _workers_may_be_replaced():
        reporter.skip(len(found))
        parallel = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="1*n_jobs")
        for record in parallel(delayed(_do)(work, job) for job in missing):
            append_record(path, record)
            found[record["name"]] = record["result"]
            reporter.advance(record["name"])
    return {name: found[name] for name in wanted}


@contextmanager
def _workers_may_be_replaced() -> Iterator[None]:
    """Hide joblib's warning that it starts a new process for one that held much memory: no job is lost."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
        yield


@contextmanager
def stored_only() -> Iterator[None]:
    """Let `sweep` return the stored results in a block, whatever their settings, and run nothing."""
    token = _stored_only.set(True)
    try:
        yield
    finally:
        _stored_only.reset(token)


def runs_nothing() -> bool:
    """Whether this is a block of `stored_only`."""
    return _stored_only.get()


def stored_records(path: Path) -> dict[str, dict[str, Any]]:
    """Return the records of a result file that must exist."""
    if not path.exists():
        raise FileNotFoundError(
            f"there are no stored runs to draw: {path} does not exist. Check --out and --preset, or leave "
            "out --stored to run the experiment."
        )
    return read_records(path)


def _as_stored(wanted: Mapping[str, Job], path: Path) -> dict[str, Result]:
    """Return the stored results of the wanted jobs; warn about those of other settings."""
    records = stored_records(path)
    found = {name: records[name]["result"] for name in wanted if "result" in records.get(name, {})}
    other = [name for name in found if not _is_done(records, wanted[name])]
    if other:
        warn(
            f"{path} has {len(other)} runs with other settings than the current code would use, such as "
            f"{other[0]!r}. They are drawn as they are."
        )
    return found


def stored(jobs: Iterable[Job], path: Path) -> dict[str, Result]:
    """Return the stored results of those jobs that are finished, by name, without running any."""
    records = read_records(path)
    return {job.name: records[job.name]["result"] for job in jobs if _is_done(records, job)}


def export_to(folder: Path | None, name: str) -> str | None:
    """Return the file in `folder` to which a job exports its scores; None without a folder."""
    return None if folder is None else str(folder / f"{name}.npz")


def _do(work: Callable[..., Result], job: Job) -> dict[str, Any]:
    """Run a job; return the record to store."""
    start = perf_counter()
    result = work(**job.arguments) if job.export is None else work(**job.arguments, export=job.export)
    return {
        "name": job.name,
        "arguments": job.arguments,
        "result": result,
        "seconds": round(perf_counter() - start, 2),
        "versions": {"python": python_version()}
        | {package: version(package) for package in ("stopwise", "torch", "numpy")},
    }


def _is_done(records: Mapping[str, dict[str, Any]], job: Job) -> bool:
    """Return whether there is a stored result with the same arguments, and the exported file if any."""
    record = records.get(job.name, {})
    if "result" not in record or record.get("arguments") != json.loads(json.dumps(job.arguments)):
        return False
    return job.export is None or "diverged" in record["result"] or Path(job.export).exists()
