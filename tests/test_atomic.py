import errno
import fcntl
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from stopwise.atomic import _new_part, atomic_write, remove_leftovers, write_durably


def test_targets_appear_when_the_block_ends(tmp_path):
    targets = tmp_path / "a.txt", tmp_path / "b.npz"
    with atomic_write(*targets) as temporaries:
        for temporary, target in zip(temporaries, targets):
            assert temporary.suffix == target.suffix
            temporary.write_text(target.name)
        assert not any(target.exists() for target in targets)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a.txt": "a.txt",
        "b.npz": "b.npz",
    }


def test_a_failing_block_keeps_the_target(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), atomic_write(target) as [temporary]:  # noqa: PT012
        temporary.write_text("partial")
        raise RuntimeError
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_missing_folder_raises(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"there is no folder .*missing. Create it first"),
        atomic_write(tmp_path / "missing" / "a.txt"),
    ):
        pass


def test_a_durable_write_replaces_the_file_and_removes_leftovers(tmp_path):
    path = tmp_path / "a[1].txt"
    path.write_text("old")
    (tmp_path / ".a[1].txt.0123456789abcdef.part").write_text("left behind by a killed process")
    foreign = [".a[1].txt.77.part", ".a1.txt.0123456789abcdef.part", ".download.part"]
    for name in foreign:
        (tmp_path / name).write_text("not ours")
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a[1].txt", *foreign])


def test_the_temporary_file_of_a_running_writer_is_kept(tmp_path):
    part, file = _new_part(tmp_path / "a.txt")
    with file:
        remove_leftovers(tmp_path, "a.txt")
        assert part.exists()
    remove_leftovers(tmp_path, "a.txt")
    assert not part.exists()


def test_a_temporary_file_that_was_deleted_before_it_was_locked_is_created_again(tmp_path, monkeypatch):
    real, calls = fcntl.flock, []

    def late(file, how):
        calls.append(file.name)
        if len(calls) == 1:  # another process has locked the file to delete it
            raise BlockingIOError
        if len(calls) == 2:  # another process has deleted the file
            os.unlink(file.name)
        return real(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    write_durably(tmp_path / "a.txt", b"new")
    assert len(set(calls)) == 3
    assert (tmp_path / "a.txt").read_bytes() == b"new"


def test_a_file_system_without_locks_is_accepted(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    write_durably(tmp_path / "a.txt", b"new")
    assert (tmp_path / "a.txt").read_bytes() == b"new"


def test_many_threads_can_write_to_one_path(tmp_path):
    path = tmp_path / "a.txt"
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(write_durably, path, str(i).encode() * 1000) for i in range(200)]:
            done.result()
    assert len(set(path.read_text())) <= 3  # one of the numbers, complete
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_a_failing_durable_write_keeps_the_file(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        write_durably(path, b"new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
