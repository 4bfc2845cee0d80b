"""Locks between processes."""

import os
import signal
import subprocess
import sys

import pytest

from stopwise.locking import LockedError, locked

HOLD = """
import sys, time
from pathlib import Path
from stopwise.locking import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_is_exclusive_and_released(tmp_path):
    path = tmp_path / "folder" / ".lock"
    with (
        locked(path),
        pytest.raises(LockedError, match="the states is in use by another process"),
        locked(path, "the states"),
    ):
        pass
    with locked(path):
        pass


def test_a_killed_process_releases_its_lock(tmp_path):
    path = tmp_path / ".lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(LockedError), locked(path):
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
        with locked(path):
            pass
