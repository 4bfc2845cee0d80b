import os
from pathlib import Path

import numpy as np
import pytest

from stopwise.datasets import load

N, T, D = 6, 5, 2


def arrays(**changes):
    rng = np.random.default_rng(0)
    kept = {
        "X_train": rng.standard_normal((N, T, D)).astype(np.float32),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "X_test": rng.standard_normal((3, T, D)).astype(np.float32),
        "y_test": np.array([0, 1, 2]),
        "class_names": np.array(["sit", "walk", "run"]),
    } | changes
    return {name: array for name, array in kept.items() if array is not None}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("STOPWISE_DATA", str(tmp_path))
    return tmp_path


def test_load_without_optional_arrays(folder):
    stored = arrays()
    np.savez(folder / "toy.npz", **stored)
    split = load("toy")
    for name in ("X_train", "y_train", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(split, name), stored[name])
    assert split.X_train.dtype == np.float32
    assert split.class_names == ("sit", "walk", "run")
    assert split.lengths_train is split.lengths_test is split.groups_train is None
    assert repr(split) == "Split(6 train, 3 test, X (n, 5, 2), 3 classes)"
    assert repr(load("toy.npz")) == repr(split)


@pytest.mark.parametrize("key", ["subject_train", "group_train", "speaker_train"])
def test_load_with_lengths_and_groups(folder, key):
    groups = np.array([1, 1, 2, 2, 3, 3])
    lengths = {"len_train": np.array([5, 4, 3, 2, 1, 5]), "len_test": np.array([1, 2, 3])}
    np.savez(folder / "toy.npz", **arrays(**lengths), **{key: groups})
    split = load("toy")
    assert split.lengths_train.tolist() == [5, 4, 3, 2, 1, 5]
    assert split.lengths_test.tolist() == [1, 2, 3]
    assert split.groups_train.tolist() == groups.tolist()


def test_class_names_default_to_indices(folder):
    np.savez(folder / "toy.npz", **arrays(class_names=None))
    assert load("toy").class_names == ("0", "1", "2")


def test_missing_environment_variable_raises(monkeypatch):
    monkeypatch.delenv("STOPWISE_DATA", raising=False)
    with pytest.raises(
        FileNotFoundError, match=r"toy.npz: the environment variable STOPWISE_DATA is not set"
    ):
        load("toy")


def test_missing_folder_raises(tmp_path, monkeypatch):
    monkeypatch.setenv("STOPWISE_DATA", str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError, match=r"STOPWISE_DATA is .*missing', which is not a folder"):
        load("toy")


def test_missing_dataset_raises_with_suggestions(folder):
    with pytest.raises(FileNotFoundError, match="it holds: no datasets"):
        load("toy")
    for name in ("walking", "hearts"):
        np.savez(folder / f"{name}.npz", **arrays())
    with pytest.raises(
        FileNotFoundError, match=r"no walkin.npz in .*holds: hearts, walking. Did you mean 'walking'\?"
    ):
        load("walkin")


@pytest.mark.parametrize("name", ["../toy", "/toy", "", "a/b", None])
def test_name_that_is_a_path_raises(folder, name):
    with pytest.raises(ValueError, match="`name` must be the name of a dataset without a folder"):
        load(name)


BAD = {
    "no test": ({"X_test": None}, "no array 'X_test'; it holds 'X_train'"),
    "labels": ({"y_test": np.array([0, 1])}, r"`y_test` must have shape \(3,\)"),
    "class": ({"y_test": np.array([0, 1, 3])}, r"class indices in \[0, 2\]"),
    "lengths": ({"len_train": np.full(N, 9)}, r"`lengths` must be in \[1, 5\]"),
    "groups": ({"group_train": np.arange(4)}, "there must be one group per training series"),
    "channels": ({"X_test": np.zeros((3, T, 7))}, "training and test series differ in channels"),
    "flat": ({"X_train": np.zeros(N)}, r"`X_train` must have shape \(n, T, ...\)"),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_inconsistent_dataset_raises(folder, changes, message):
    np.savez(folder / "toy.npz", **arrays(**changes))
    with pytest.raises(ValueError, match=message) as caught:
        load("toy")
    assert "toy.npz" in str(caught.value)


def test_damaged_dataset_raises(folder):
    np.savez(folder / "toy.npz", **arrays())
    content = (folder / "toy.npz").read_bytes()
    (folder / "toy.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"toy.npz cannot be read: it is damaged"):
        load("toy")


@pytest.mark.skipif(not os.environ.get("STOPWISE_DATA"), reason="STOPWISE_DATA is not set")
def test_every_real_dataset_loads():
    names = sorted(path.stem for path in Path(os.environ["STOPWISE_DATA"]).glob("*.npz"))
    assert names
    for name in names:
        split = load(name)
        assert len(split.X_train) == len(split.y_train) > 0
        assert set(split.y_test) <= set(range(len(split.class_names)))
