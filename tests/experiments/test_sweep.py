"""Sweeps: resumed, redone where arguments changed, nothing lost."""

import json
from pathlib import Path

import pytest

from stopwise.experiments.sweep import Job, sweep


def square(x, log):
    with Path(log).open("a") as file:
        file.write(f"{x}\n")
    if x < 0:
        raise ValueError("no negative numbers")
    return {"square": x * x}


@pytest.fixture
def log(tmp_path):
    return str(tmp_path / "log")


def jobs(numbers, log):
    return [Job(f"n{x}", {"x": x, "log": log}) for x in numbers]


def run(jobs, folder, **more):
    return sweep(square, jobs, folder, title="squares", workers=1, progress=False, **more)


def test_each_job_runs_once_and_is_read_afterwards(tmp_path, log):
    first = run(jobs([1, 2], log), tmp_path / "out")
    again = run(jobs([1, 2, 3], log), tmp_path / "out")
    assert first == {"n1": {"square": 1}, "n2": {"square": 4}}
    assert again == first | {"n3": {"square": 9}}
    assert Path(log).read_text().split() == ["1", "2", "3"]


def test_other_arguments_and_damaged_files_are_run_anew(tmp_path, log):
    out = tmp_path / "out"
    run(jobs([1, 2], log), out)
    (out / "n1.json").write_text('{"arguments": {"x"')
    changed = [Job("n1", {"x": 1, "log": log}), Job("n2", {"x": 5, "log": log})]
    assert run(changed, out) == {"n1": {"square": 1}, "n2": {"square": 25}}


def test_a_failure_keeps_what_was_done(tmp_path, log):
    out = tmp_path / "out"
    with pytest.raises(ValueError, match="no negative"):
        run(jobs([1, -1], log), out)
    assert [path.name for path in out.iterdir()] == ["n1.json"]


def test_a_result_tells_how_it_was_made(tmp_path, log):
    run(jobs([3], log), tmp_path)
    told = json.loads((tmp_path / "n3.json").read_text())
    assert told["arguments"]["x"] == 3
    assert {"python", "stopwise", "torch", "numpy"} <= told["versions"].keys()


def test_processes_give_the_same(tmp_path, log):
    result = sweep(square, jobs([1, 2, 3], log), tmp_path, title="squares", workers=2, progress=False)
    assert result == {f"n{x}": {"square": x * x} for x in (1, 2, 3)}


def test_one_name_is_one_job(tmp_path, log):
    run(jobs([2, 2], log), tmp_path)
    assert Path(log).read_text().split() == ["2"]
