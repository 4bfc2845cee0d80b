"""Several processes on one study."""

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
    """Take part in a study; return how many trials it had at the end, and how many were run here.

    After its first trial a process waits for the others' first, so that a fast one does not do it all.
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
    """Let processes, this one among them, join a study at the same moment; return what each saw."""
    command = [sys.executable, __file__, storage, str(trials), str(processes)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    others = [subprocess.Popen(command, text=True, **pipes) for _ in range(processes - 1)]
    join(None, 1)  # what is compiled on first use is ready, here as there
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
    assert trials <= len(study.trials) <= trials + processes - 1  # each ends the trial it is in
    assert all(trial.state.is_finished() for trial in study.trials)
    assert [trial.number for trial in study.trials if trial.user_attrs.get("defaults")] == [0]
    # Nobody drew what another drew.
    assert len({str(trial.params) for trial in study.trials}) == len(study.trials)


@pytest.mark.slow
def test_two_processes_share_a_study_in_sqlite(tmp_path):
    check_shared(f"sqlite:///{tmp_path / 'study.db'}", trials=8)


@contextmanager
def postgres(folder: Path):
    """Start a PostgreSQL server on a socket of its own; yield the address of its data base."""
    found = shutil.which("pg_ctl") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")), None)
    if found is None:
        pytest.skip("no PostgreSQL server here")
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
    """A folder with a short name: that of a socket is limited. All may enter, the server's user too."""
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.slow
def test_processes_share_a_study_in_postgresql(short_folder):
    with postgres(short_folder) as storage:
        check_shared(storage, trials=15, processes=3)
        X, y, _ = sw.datasets.gaussian(60, offset=1.5, channels=2, length=4, seed=1)
        with pytest.raises(ValueError, match="has another `fixed`"):
            tune(X, y, storage=storage, progress=False)


if __name__ == "__main__":
    join(None, 1)
    print("ready", flush=True)
    sys.stdin.readline()
    print(*join(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
