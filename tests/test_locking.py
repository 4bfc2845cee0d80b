import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading

import pytest

from stopwise.locking import LOCK, LockedError, exclusive

HOLDING = """
import sys, time
from pathlib import Path
from stopwise.locking import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(1000)
"""


def test_the_lock_excludes_and_leaves_no_file(tmp_path):
    with exclusive(tmp_path):
        assert [file.name for file in tmp_path.iterdir()] == [LOCK]
        with pytest.raises(LockedError, match=r"in use by another process \(waited 0.05 s\)"):
            exclusive(tmp_path, patience=0.05).__enter__()
    assert list(tmp_path.iterdir()) == []
    with exclusive(tmp_path, patience=0):
        pass


def test_a_failing_block_releases_the_lock(tmp_path):
    with pytest.raises(RuntimeError), exclusive(tmp_path):
        raise RuntimeError
    with exclusive(tmp_path, patience=0):
        pass


def test_the_lock_of_a_killed_process_is_released(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", HOLDING, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(LockedError):
        exclusive(tmp_path, patience=0.05).__enter__()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    with exclusive(tmp_path, patience=0):
        pass
    assert list(tmp_path.iterdir()) == []


def test_one_thread_at_a_time_holds_the_lock(tmp_path):
    inside, most, failures = [], [], []

    def work():
        try:
            for _ in range(20):
                with exclusive(tmp_path):
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert most == [1] * 120


def test_a_lock_file_that_was_deleted_while_waiting_is_not_used(tmp_path, monkeypatch):
    real, calls = fcntl.flock, []

    def late(file, how):
        calls.append(how)
        if len(calls) <= 2:  # the holder has released the lock, and maybe another process has taken it
            os.unlink(file.name)
            if len(calls) == 2:
                (tmp_path / LOCK).touch()
        return real(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with exclusive(tmp_path):
        assert len(calls) == 3


def test_a_file_system_without_locks_is_warned_about(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(
        UserWarning, match=r"file system without locks \(ENOLCK\): save to it from one process"
    ):
        exclusive(tmp_path).__enter__()
