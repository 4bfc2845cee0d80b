"""Sweeps: resuming, running changed jobs again, and keeping finished results."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from stopwise.experiments.result_file import read_records
from stopwise.experiments.sweep import Job, stored_only, sweep


def square(x, log):
    with Path(log).open("a") as file:
        file.write(f"{x}\n")
    if x < 0:
        raise ValueError("no negative numbers")
    return {"square": x * x}


@pytest.fixture
def log(tmp_path):
    return str(tmp_path / "log")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new folder" / "squares.jsonl"


def jobs(numbers, log):
    return [Job(f"n{x}", {"x": x, "log": log}) for x in numbers]


def warn_as_joblib(x, log):
    warnings.warn("A worker stopped while some jobs were given to the executor. ...", stacklevel=2)
    warnings.warn(f"job {x} has something to say", stacklevel=2)
    return square(x, log)


def run(jobs, path):
    return sweep(square, jobs, path, title="squares", workers=1, progress=False)


def test_each_job_runs_once_and_is_then_read_from_the_file(path, log):
    first = run(jobs([1, 2], log), path)
    again = run(jobs([1, 2, 3], log), path)
    assert first == {"n1": {"square": 1}, "n2": {"square": 4}}
    assert again == first | {"n3": {"square": 9}}
    assert Path(log).read_text().split() == ["1", "2", "3"]


def test_finished_sweep_does_not_change_its_file(path, log):
    run(jobs([1, 2], log), path)
    before = path.read_bytes(), path.stat().st_mtime_ns
    run(jobs([2, 1], log), path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_results_are_in_the_order_of_the_jobs(path, log):
    run(jobs([2], log), path)
    assert list(run(jobs([1, 2, 3], log), path)) == ["n1", "n2", "n3"]


def test_job_with_changed_arguments_runs_again_and_replaces_the_result(path, log):
    run(jobs([1, 2], log), path)
    changed = [Job("n1", {"x": 1, "log": log}), Job("n2", {"x": 5, "log": log})]
    assert run(changed, path) == {"n1": {"square": 1}, "n2": {"square": 25}}
    assert run(changed, path)["n2"] == {"square": 25}
    assert Path(log).read_text().split() == ["1", "2", "5"]
    assert len(path.read_bytes().splitlines()) == 3


def test_arguments_are_compared_as_json(path):
    sized = [Job("one", {"sizes": (3, 4)})]
    first = sweep(count, sized, path, title="", workers=1, progress=False)
    assert first == {"one": {"count": 2}}
    assert sweep(None, sized, path, title="", workers=1, progress=False) == first


def count(sizes):
    return {"count": len(sizes)}


def test_job_with_a_truncated_line_runs_again_and_later_lines_are_intact(path, log):
    run(jobs([1, 2], log), path)
    path.write_bytes(path.read_bytes()[:-20])
    assert run(jobs([1, 2, 3], log), path)["n2"] == {"square": 4}
    assert run(jobs([1, 2, 3], log), path) == {f"n{x}": {"square": x * x} for x in (1, 2, 3)}
    assert Path(log).read_text().split() == ["1", "2", "2", "3"]


def test_finished_jobs_are_kept_if_a_later_job_fails(path, log):
    with pytest.raises(ValueError, match="no negative"):
        run(jobs([1, -1], log), path)
    assert list(read_records(path)) == ["n1"]


def test_killed_sweep_loses_only_the_running_job(tmp_path, log):
    path = tmp_path / "squares.jsonl"
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path; from test_sweep import jobs, run, slow\n"
        "from stopwise.experiments.sweep import Job\n"
        f"run([*jobs([1, 2], {log!r})], Path({str(path)!r}))\n"
        "from stopwise.experiments.sweep import sweep\n"
        f"sweep(slow, [Job('n3', {{}})], Path({str(path)!r}), title='', workers=1, progress=False)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while len(read_records(path)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert list(read_records(path)) == ["n1", "n2"]
    assert run(jobs([1, 2, 3], log), path)["n3"] == {"square": 9}
    assert Path(log).read_text().split() == ["1", "2", "3"]


def slow():
    time.sleep(60)
    return {}


def test_record_has_arguments_seconds_and_versions(path, log):
    run(jobs([3], log), path)
    record = read_records(path)["n3"]
    assert record["arguments"]["x"] == 3
    assert record["seconds"] >= 0
    assert {"python", "stopwise", "torch", "numpy"} <= record["versions"].keys()


def test_results_do_not_depend_on_the_number_of_processes(path, log):
    result = sweep(square, jobs([1, 2, 3], log), path, title="squares", workers=2, progress=False)
    assert result == {f"n{x}": {"square": x * x} for x in (1, 2, 3)}
    assert run(jobs([1, 2, 3], log), path) == result


def test_replaced_workers_are_not_reported(path, log):
    with pytest.warns(UserWarning, match="job 2 has something to say") as caught:
        sweep(warn_as_joblib, jobs([2], log), path, title="squares", workers=1, progress=False)
    assert len(caught) == 1


def test_jobs_with_the_same_name_run_once(path, log):
    run(jobs([2, 2], log), path)
    assert Path(log).read_text().split() == ["2"]


def test_stored_results_are_returned_without_a_run_and_whatever_their_settings(path, log):
    run(jobs([2, 3], log), path)
    changed = [
        Job("n2", {"x": 2, "log": log}),
        Job("n3", {"x": 30, "log": log}),
        Job("n4", {"x": 4, "log": log}),
    ]
    with stored_only(), pytest.warns(UserWarning, match="1 runs with other settings.*'n3'"):
        found = run(changed, path)
    assert found == {"n2": {"square": 4}, "n3": {"square": 9}}
    assert Path(log).read_text() == "2\n3\n"


def test_stored_results_must_exist(path, log):
    with stored_only(), pytest.raises(FileNotFoundError, match=r"no stored runs to draw.*leave out --stored"):
        run(jobs([2], log), path.parent / "none" / "runs.jsonl")
    assert not (path.parent / "none").exists()
