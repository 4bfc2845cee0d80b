"""Several processes that share one study."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import optuna
import pytest

import stopwise as sw
from stopwise.tuning import tune


def join(storage, trials, processes=1):
    """Join a study; return its number of trials at the end, and the number of trials run here.

    After its first trial, a process waits for the first trial of the others, so that every process runs some.
    """
    X, y, _ = sw.datasets.gaussian(60, offset=1.5, channels=2, length=4, seed=0)
    own = []

    def after(found):
        own.append(found)
        for _ in range(600 if len(own) == 1 and storage else 0):
            study = optuna.load_study(study_name="stopwise-accumulator", storage=storage)
            if sum(trial.state.is_finished() for trial in study.trials) >= processes:
                break
            time.sleep(0.1)

    found = tune(
        X,
        y,
        space={"dropout": (0.0, 0.4), "hidden": (2, 64)},
        fixed={"order": 0, "polish": False},
        trials=trials,
        max_epochs=2,
        storage=storage,
        progress=False,
        on_trial=after,
    )
    return len(found.trials), len(own)


def run_together(storage, trials, processes):
    """Start several processes, including this one, on the same study; return the result of each."""
    command = [sys.executable, __file__, storage, str(trials), str(processes)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    others = [subprocess.Popen(command, text=True, **pipes) for _ in range(processes - 1)]
    join(None, 1)  # compile kernels before the start, as the other processes do
    for process in others:
        assert process.stdout.readline() == "ready\n"
    for process in others:
        process.stdin.write("go\n")
        process.stdin.flush()
    seen = [join(storage, trials, processes)]
    for process in others:
        reported, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
        seen.append(tuple(map(int, reported.split())))
    return seen


def check_shared(storage, trials, processes=2):
    seen = run_together(storage, trials, processes)
    study = optuna.load_study(study_name="stopwise-accumulator", storage=storage)
    assert min(total for total, _ in seen) >= trials
    assert all(own for _, own in seen)
    assert trials <= len(study.trials) <= trials + processes - 1  # each process finishes its current trial
    assert all(trial.state.is_finished() for trial in study.trials)
    assert [trial.number for trial in study.trials if trial.user_attrs.get("defaults")] == [0]
    # No two trials have the same settings.
    assert len({str(trial.params) for trial in study.trials}) == len(study.trials)


@pytest.mark.slow
def test_two_processes_share_a_study_in_sqlite(tmp_path):
    check_shared(f"sqlite:///{tmp_path / 'study.db'}", trials=8)


@contextmanager
def postgres(folder: Path):
    """Start a PostgreSQL server on a separate socket; yield the URL of its database."""
    found = shutil.which("pg_ctl") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")), None)
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg2")
    programs = Path(found).resolve().parent
    # PostgreSQL refuses to run as root.
    other = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if other:
        shutil.chown(folder, "postgres")
    data, options = folder / "data", f"-k {folder} -c listen_addresses="
    control = [*other, programs / "pg_ctl", "-D", data, "-w"]
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": folder}
    subprocess.run(
        [*other, programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust"],
        **quiet,
    )
    subprocess.run([*control, "-l", folder / "log", "-o", options, "start"], **quiet)
    try:
        yield f"postgresql+psycopg2://postgres@/postgres?host={folder}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **quiet)


@pytest.fixture
def short_folder():
    """Yield a folder with a short path, for the socket, that the user of the server can read."""
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.slow
def test_processes_share_a_study_in_postgresql(short_folder):
    with postgres(short_folder) as storage:
        check_shared(storage, trials=15, processes=3)
        X, y, _ = sw.datasets.gaussian(60, offset=1.5, channels=2, length=4, seed=1)
        with pytest.raises(ValueError, match="has a different `fixed`"):
            tune(X, y, storage=storage, progress=False)


if __name__ == "__main__":
    join(None, 1)
    print("ready", flush=True)
    sys.stdin.readline()
    print(*join(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
