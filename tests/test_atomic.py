import os

import pytest

from stopwise.atomic import atomic_write, write_durably


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
    (tmp_path / ".a[1].txt.77.part").write_text("left behind by a killed process")
    write_durably(path, b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a[1].txt": b"new"}


def test_a_failing_durable_write_keeps_the_file(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        write_durably(path, b"new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
