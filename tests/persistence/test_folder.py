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

from stopwise.persistence import tensors as files
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


def assert_holds(folder, tensors, order=3):
    """Check that the folder holds this model and no other file."""
    found, about = load_model(folder)
    assert about["order"] == order
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    assert sorted(file.name for file in folder.iterdir()) == [ABOUT, about["weights"]["file"]]


def test_a_saved_model_can_be_loaded(folder):
    assert_holds(folder, OLD)
    assert load_model(str(folder))[1]["versions"] == versions()


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
    [("os.replace", 1), ("os.replace", 2), ("os.replace", 3), ("os.fsync", 1), ("os.fsync", 2)],
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


def test_a_failed_write_of_weights_keeps_the_old_model(folder, monkeypatch):
    monkeypatch.setattr(files, "save", Failing(None, 1))
    with pytest.raises(OSError, match=r"disk full"):
        save_model(folder, NEW, {"order": 9})
    assert_holds(folder, OLD)


def test_a_save_after_a_failed_first_save_succeeds(tmp_path, monkeypatch):
    monkeypatch.setattr("os.replace", Failing(os.replace, 3))
    with pytest.raises(OSError, match=r"disk full"):
        save_model(tmp_path / "model", OLD, {"order": 9})
    monkeypatch.undo()
    assert list((tmp_path / "model").iterdir()) == []
    save_model(tmp_path / "model", OLD, {"order": 3})
    assert_holds(tmp_path / "model", OLD)


def test_leftover_files_of_a_killed_save_are_removed(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in (
        ".weights.77.part",
        "..weights.77.part.77.part",
        ".model.json.77.part",
        "weights-0.safetensors",
    ):
        (folder / name).write_text("half")
    save_model(folder, OLD, {"order": 3})
    assert_holds(folder, OLD)


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
        tensors, about = load_model(folder)
        assert (tensors["weight"] == about["order"]).all()
    save_model(folder, OLD, {"order": 3})
    assert_holds(folder, OLD)


# Damage


def edit(folder, **changes):
    about = json.loads((folder / ABOUT).read_text())
    (folder / ABOUT).write_text(json.dumps(about | changes))


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
        (
            lambda f: edit(f, format_version=1),
            "has format version 1; this stopwise reads version 2. Train the",
        ),
        (lambda f: edit(f, weights=None), "does not name the weights file"),
        (lambda f: edit(f, weights={}), "does not name the weights file"),
        (lambda f: edit(f, weights={"file": 3}), "does not name the weights file"),
        (lambda f: edit(f, weights={"file": ""}), "does not name the weights file"),
        (lambda f: edit(f, weights={"file": ".."}), "does not name the weights file"),
        (lambda f: edit(f, weights={"file": "a\0b"}), "does not name the weights file"),
        (lambda f: edit(f, weights={"file": "../secret.safetensors"}), "does not name the weights file"),
        (lambda f: edit(f, weights={"file": "/etc/passwd"}), "does not name the weights file"),
        (lambda f: edit(f, weights={"file": "weights-0.safetensors"}), "incomplete: weights-0.*is missing"),
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


@pytest.mark.parametrize(
    "write", [lambda path: path.write_bytes(pickle.dumps(OLD)), lambda path: save_file(OLD, path)]
)
def test_weights_not_written_by_stopwise_raise(folder, write):
    weights = weights_of(folder)
    write(weights)
    edit(folder, weights={"file": weights.name, "sha256": digest(weights)})
    with pytest.raises(ModelFolderError, match=r"not a safetensors file|not written by stopwise"):
        load_model(folder)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
