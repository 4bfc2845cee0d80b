import errno
import hashlib
import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from stopwise.persistence import folder as module
from stopwise.persistence import tensors as files
from stopwise.persistence.digests import digest_json
from stopwise.persistence.folder import ABOUT, ModelFolderError, load_model, save_model, versions
from stopwise.persistence.tensors import TensorFileError

OLD = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.tensor([1.0, 2.0])}
NEW = {"weight": -OLD["weight"], "bias": -OLD["bias"]}


@pytest.fixture
def folder(tmp_path):
    save_model(tmp_path / "model", OLD, {"order": 3})
    return tmp_path / "model"


def weights_of(folder):
    (path,) = folder.glob("weights-*.safetensors")
    return path


def assert_holds(folder, tensors, order=3, others=()):
    """Check that the folder holds this model and no other file."""
    found, about, seen, held_out = load_model(folder)
    assert (about["order"], seen, held_out) == (order, None, None)
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    names = [ABOUT, about["files"]["weights"]["file"], *others]
    assert sorted(file.name for file in folder.iterdir()) == sorted(names)


def test_a_saved_model_can_be_loaded(folder):
    assert_holds(folder, OLD)
    assert load_model(str(folder))[1]["versions"] == versions()


def test_fingerprints_are_a_file_of_their_own(folder):
    save_model(folder, OLD, {"order": 3}, fingerprints="abc")
    assert load_model(folder).fingerprints == "abc"
    (path,) = folder.glob("fingerprints-*.txt")
    assert path.read_text() == "abc"
    assert "abc" not in (folder / ABOUT).read_text()
    save_model(folder, OLD, {"order": 3})
    assert_holds(folder, OLD)


def test_held_out_scores_are_a_file_of_their_own(folder):
    save_model(folder, OLD, {"order": 3}, held_out={"y": np.arange(3)})
    assert load_model(folder).held_out["y"].tolist() == [0, 1, 2]
    (path,) = folder.glob("held_out-*.safetensors")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelFolderError, match=r"held_out-.* is damaged: its checksum differs"):
        load_model(folder)
    save_model(folder, OLD, {"order": 3}, held_out={"y": np.arange(4)})
    assert load_model(folder).held_out["y"].tolist() == [0, 1, 2, 3]
    save_model(folder, OLD, {"order": 3})
    path.unlink()  # not what stopwise wrote, so it was kept
    assert_holds(folder, OLD)


def test_arrays_and_integers_can_be_saved(folder):
    arrays = {"a": np.linspace(0, 1, 5), "b": np.arange(6, dtype=np.int32).reshape(2, 3), "c": np.ones(0)}
    save_model(folder, arrays, {})
    for name, tensor in load_model(folder).tensors.items():
        assert tensor.numpy().dtype == arrays[name].dtype
        np.testing.assert_array_equal(tensor.numpy(), arrays[name])


def test_equal_models_give_equal_bytes(folder, tmp_path):
    save_model(tmp_path / "again", dict(reversed(OLD.items())), {"order": 3})
    assert content(folder) == content(tmp_path / "again")


def content(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_the_description_is_readable_json(folder):
    text = (folder / ABOUT).read_text()
    assert text.count("\n") > 5
    assert json.loads(text)["format"] == "stopwise-model"


def test_saving_again_replaces_the_model_and_removes_old_files(folder):
    save_model(folder, NEW, {"order": 5})
    assert_holds(folder, NEW, order=5)
    save_model(folder, NEW, {"order": 6})  # the same weights
    assert_holds(folder, NEW, order=6)


def test_numpy_scalars_are_written_as_numbers(folder):
    save_model(folder, OLD, {"order": np.int64(3), "rate": np.float32(0.5), "skip": np.bool_(True)})
    about = load_model(folder)[1]
    assert (about["order"], about["rate"], about["skip"]) == (3, 0.5, True)


@pytest.mark.parametrize("about", [{"order": object()}, {"order": float("nan")}])
def test_an_unsupported_description_raises_and_keeps_the_old_model(folder, about):
    with pytest.raises((TypeError, ValueError), match=r"JSON"):
        save_model(folder, NEW, about)
    assert_holds(folder, OLD)


def test_a_description_that_is_too_long_raises_and_keeps_the_old_model(folder, monkeypatch):
    monkeypatch.setitem(module.MOST_BYTES, ABOUT, 1000)
    with pytest.raises(
        ModelFolderError, match=r"at most 1000 bytes; it has \d+. Use a smaller stopping rule"
    ):
        save_model(folder, NEW, {"rule": list(range(1000))})
    assert_holds(folder, OLD)
    (folder / ABOUT).write_bytes(b" " * 1001)
    with pytest.raises(ModelFolderError, match=r"model.json must have at most 1000 bytes; it has 1001"):
        load_model(folder)


# Failures during a save


class Failing:
    """A function that fails at one call and otherwise calls the real function."""

    def __init__(self, real, fatal):
        self.real, self.fatal, self.calls = real, fatal, 0

    def __call__(self, *args):
        self.calls += 1
        if self.calls == self.fatal:
            raise OSError("disk full")
        return self.real(*args)


@pytest.mark.parametrize(
    ("target", "fatal"),
    [("os.replace", 1), ("os.replace", 2), ("os.fsync", 1), ("os.fsync", 2), ("os.fsync", 3)],
)
@pytest.mark.parametrize("tensors", [OLD, NEW], ids=["same weights", "new weights"])
def test_a_failed_save_keeps_the_old_model_and_no_other_file(folder, monkeypatch, target, fatal, tensors):
    failing = Failing(getattr(os, target.split(".")[1]), fatal)
    monkeypatch.setattr(target, failing)
    with pytest.raises(OSError, match=r"disk full"):
        save_model(folder, tensors, {"order": 9})
    assert failing.calls == fatal
    monkeypatch.undo()
    assert_holds(folder, OLD)


def test_a_failed_flush_at_the_end_leaves_the_new_model(folder, monkeypatch):
    monkeypatch.setattr("os.fsync", Failing(os.fsync, 4))
    with pytest.raises(OSError, match=r"disk full"):
        save_model(folder, NEW, {"order": 9})
    assert_holds(folder, NEW, order=9)


def test_a_file_system_that_cannot_flush_folders_is_accepted(folder, monkeypatch):
    real = os.fsync

    def refuse(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr("os.fsync", refuse)
    save_model(folder, NEW, {"order": 9})
    assert_holds(folder, NEW, order=9)


def test_a_failed_write_of_weights_keeps_the_old_model(folder, monkeypatch):
    monkeypatch.setattr(files, "save", Failing(None, 1))
    with pytest.raises(OSError, match=r"disk full"):
        save_model(folder, NEW, {"order": 9})
    assert_holds(folder, OLD)


def test_a_save_after_a_failed_first_save_succeeds(tmp_path, monkeypatch):
    monkeypatch.setattr("os.replace", Failing(os.replace, 2))
    with pytest.raises(OSError, match=r"disk full"):
        save_model(tmp_path / "model", OLD, {"order": 9})
    monkeypatch.undo()
    assert list((tmp_path / "model").iterdir()) == []
    save_model(tmp_path / "model", OLD, {"order": 3})
    assert_holds(tmp_path / "model", OLD)


def test_leftover_files_of_a_killed_save_are_removed(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    whole = b"complete, but model.json was not written"
    names = (
        ".stopwise-lock",
        f"weights-{sha256(whole)[:16]}.safetensors",
        f"fingerprints-{sha256(whole)[:16]}.txt",
        ".weights-0123456789abcdef.safetensors.0123456789abcdef.part",
        ".model.json.0123456789abcdef.part",
    )
    for name in names:
        (folder / name).write_bytes(whole)
    save_model(folder, OLD, {"order": 3})
    assert_holds(folder, OLD)


FOREIGN = (
    "weights-mine.safetensors",
    "weights-0123456789abcdef.safetensors",  # the name of ours, but not the hash of its content
    "weights-best-of-2025.safetensors",
    ".download.part",
    ".model.json.77.part",
    "fingerprints-0123456789abcdef.txt",
    "notes.txt",
    ".lock",
)


@pytest.mark.parametrize("fail", [False, True])
def test_files_of_others_are_never_touched(folder, monkeypatch, fail):
    for name in FOREIGN:
        (folder / name).write_text(name)
    if fail:
        monkeypatch.setattr("os.replace", Failing(os.replace, 2))
        with pytest.raises(OSError, match=r"disk full"):
            save_model(folder, NEW, {"order": 9})
        monkeypatch.undo()
        assert_holds(folder, OLD, others=FOREIGN)
    save_model(folder, NEW, {"order": 9})
    assert_holds(folder, NEW, order=9, others=FOREIGN)
    assert all((folder / name).read_text() == name for name in FOREIGN)


def test_nothing_is_deleted_if_the_description_is_damaged(folder, monkeypatch):
    weights = weights_of(folder)
    (folder / ABOUT).write_text("{")
    monkeypatch.setattr("os.replace", Failing(os.replace, 2))
    with pytest.raises(OSError, match=r"disk full"):
        save_model(folder, NEW, {"order": 9})
    assert weights.exists()
    monkeypatch.undo()
    save_model(folder, NEW, {"order": 9})
    assert_holds(folder, NEW, order=9)


SAVING = """
import sys
import torch
from stopwise.persistence.folder import save_model
i = 0
while True:
    save_model(sys.argv[1], {"weight": torch.full((200_000,), float(i))}, {"order": i})
    if i == 0:
        print("ready", flush=True)
    i += 1
"""


def test_a_killed_save_leaves_a_complete_model(tmp_path):
    folder, rng = tmp_path / "model", random.Random(0)
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", SAVING, str(folder)], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0.01, 0.1))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        tensors, about, *_ = load_model(folder)
        assert (tensors["weight"] == about["order"]).all()
    save_model(folder, OLD, {"order": 3})
    assert_holds(folder, OLD)


# Damage


def edit(folder, **changes):
    """Change the description, with a correct checksum."""
    about = json.loads((folder / ABOUT).read_text()) | changes
    about["sha256"] = digest_json({name: value for name, value in about.items() if name != "sha256"})
    (folder / ABOUT).write_text(json.dumps(about))


def refer(**entry):
    return lambda folder: edit(folder, files={"weights": entry})


def put(text):
    return lambda folder: (folder / ABOUT).write_bytes(text)


def cut(share):
    def damage(folder):
        data = weights_of(folder).read_bytes()
        weights_of(folder).write_bytes(data[: int(share * len(data))])

    return damage


def flip(share):
    def damage(folder):
        data = bytearray(weights_of(folder).read_bytes())
        data[int(share * len(data))] ^= 1
        weights_of(folder).write_bytes(data)

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (put(b""), "model.json is damaged"),
        (put(b'{"format": "stopwise-model", '), "model.json is damaged"),
        (put(b"\xff\xfe\x00"), "model.json is damaged"),
        (put(b"[" * 100_000), "model.json is damaged"),
        (put(b"[]"), "was not written by stopwise"),
        (put(b'"stopwise-model"'), "was not written by stopwise"),
        (put(b'{"model_type": "bert", "weights": 3}'), "was not written by stopwise"),
        (put(b'{"format": "stopwise-model", "order": NaN}'), "NaN is not JSON"),
        (put(b'{"format": "stopwise-model", "order": ' + b"1" * 5000 + b"}"), "model.json is damaged"),
        (
            lambda f: edit(f, format_version=1),
            "has format version 1; this stopwise reads version 3. Train the",
        ),
        (lambda f: edit(f, files=None), "does not name the weights file"),
        (lambda f: edit(f, files={}), "does not name the weights file"),
        (lambda f: edit(f, files={"weights": 3}), "does not name the weights file"),
        (lambda f: edit(f, files={"weights": {}, "code": {}}), "does not name the weights file"),
        (refer(), "does not name the weights file"),
        (refer(file=3, sha256=3), "does not name the weights file"),
        (refer(file="", sha256=""), "does not name the weights file"),
        (refer(file="..", sha256=".."), "does not name the weights file"),
        (refer(file="weights-a\0b.safetensors", sha256="a\0b"), "does not name the weights file"),
        (refer(file="../secret.safetensors", sha256="0" * 64), "does not name the weights file"),
        (refer(file="weights-../secret.safetensors", sha256="../secret"), "does not name the weights file"),
        (refer(file="/etc/passwd", sha256="0" * 64), "does not name the weights file"),
        (
            refer(file="weights-0000000000000000.safetensors", sha256="0" * 64),
            "incomplete: weights-0000000000000000.safetensors is missing",
        ),
        (lambda f: weights_of(f).unlink(), "incomplete: weights-.*is missing"),
        *[(cut(share), "checksum differs") for share in (0.0, 0.1, 0.5, 0.99)],
        *[(flip(share), "checksum differs") for share in (0.0, 0.1, 0.5, 0.99)],
        (lambda f: weights_of(f).write_bytes(pickle.dumps(OLD)), "checksum differs"),
    ],
)
def test_a_damaged_folder_raises(folder, tmp_path, damage, message):
    (tmp_path / "secret.safetensors").write_bytes(weights_of(folder).read_bytes())
    damage(folder)
    with pytest.raises(ModelFolderError, match=f"{re.escape(str(folder))}.*{message}"):
        load_model(folder)


def test_a_changed_description_raises(folder):
    text = (folder / ABOUT).read_text()
    (folder / ABOUT).write_text(text.replace('"order": 3', '"order": 4'))
    with pytest.raises(
        ModelFolderError, match=r"damaged or was edited: its checksum differs.*load it, change"
    ):
        load_model(folder)
    (folder / ABOUT).write_text(text.replace("\n", "\r\n"))  # the same values
    assert_holds(folder, OLD)


@pytest.mark.parametrize("name", [ABOUT, "weights"])
def test_a_file_that_cannot_be_read_raises(folder, monkeypatch, name):
    real = open

    def refuse(path, *args, **kwargs):
        if name in str(path):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, *args, **kwargs)

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ModelFolderError, match=rf"{name}.* cannot be read: Permission denied"):
        load_model(folder)


@pytest.mark.parametrize("path", ["a" * 300, "a\0b"])
def test_an_impossible_path_raises(path):
    with pytest.raises((ModelFolderError, FileNotFoundError), match=r"`path` must be a folder|No stopwise"):
        load_model(path)


@pytest.mark.parametrize(
    "write", [lambda path: path.write_bytes(pickle.dumps(OLD)), lambda path: save_file(OLD, path)]
)
def test_weights_not_written_by_stopwise_raise(folder, write):
    weights = weights_of(folder)
    write(weights)
    digest = sha256(weights.read_bytes())
    weights = weights.rename(folder / f"weights-{digest[:16]}.safetensors")
    edit(folder, files={"weights": {"file": weights.name, "sha256": digest}})
    with pytest.raises(ModelFolderError, match=r"not a safetensors file|not written by stopwise"):
        load_model(folder)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def test_a_missing_model_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No stopwise model at .*: model\.json is missing"):
        load_model(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"No stopwise model at"):
        load_model(tmp_path / "nothing")


def test_save_never_overwrites_other_files(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ModelFolderError, match=r"`path` must be a folder; .*file is a file"):
        save_model(tmp_path / "file", OLD, {})
    with pytest.raises(ModelFolderError, match=r"`path` must be a new or empty folder.*holds other files"):
        save_model(tmp_path, OLD, {})
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


def test_errors_are_value_errors():
    assert issubclass(ModelFolderError, ValueError)
    assert issubclass(TensorFileError, ValueError)
