"""Several processes on one study."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import optuna
import pytest

import stopwise as sw
from stopwise.tuning import tune

CODE = """
import sys
import stopwise as sw
from stopwise.tuning import tune
X, y, _ = sw.datasets.gaussian(60, offset=1.5, dim=2, length=4, seed=0)
found = tune(X, y, space={"dropout": (0.0, 0.4), "hidden": (2, 64)}, fixed={"order": 0, "polish": False},
             trials=int(sys.argv[2]), max_epochs=2, storage=sys.argv[1], progress=False)
print(len(found.trials))
"""


def run_together(storage, trials, processes=2):
    """Run processes at once; return how many trials each saw at its end."""
    command = [sys.executable, "-c", CODE, storage, str(trials)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    ended = [process.communicate(timeout=300) for process in running]
    for process, (_, error) in zip(running, ended):
        assert process.returncode == 0, error
    return [int(told) for told, _ in ended]


def check_shared(storage, trials, processes=2):
    seen = run_together(storage, trials, processes)
    study = optuna.load_study(study_name="stopwise-accumulator", storage=storage)
    assert min(seen) >= trials
    assert trials <= len(study.trials) <= trials + processes - 1  # each ends the trial it is in
    assert all(trial.state.is_finished() for trial in study.trials)
    assert [trial.number for trial in study.trials if trial.user_attrs.get("defaults")] == [0]
    # Nobody drew what another drew.
    assert len({str(trial.params) for trial in study.trials}) == len(study.trials)


def test_two_processes_share_a_study_in_sqlite(tmp_path):
    check_shared(f"sqlite:///{tmp_path / 'study.db'}", trials=6)


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
    import tempfile

    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.slow
def test_processes_share_a_study_in_postgresql(short_folder):
    with postgres(short_folder) as storage:
        check_shared(storage, trials=10, processes=3)
        X, y, _ = sw.datasets.gaussian(60, offset=1.5, dim=2, length=4, seed=1)
        with pytest.raises(ValueError, match="has another `fixed`"):
            tune(X, y, storage=storage, progress=False)
