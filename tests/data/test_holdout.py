import os

import numpy as np
import pytest

from stopwise.datasets import hold_out, load
from stopwise.datasets.registry import Split


def check(y, train, held):
    np.testing.assert_array_equal(np.sort(np.concatenate([train, held])), np.arange(len(y)))
    assert len(held)
    assert set(y[train]) == set(y)


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5, 0.8])
def test_without_groups_a_share_of_every_class_is_held_out(fraction):
    y = np.repeat(["a", "b", "c"], [100, 50, 10])
    train, held = hold_out(y, fraction=fraction)
    check(y, train, held)
    assert [(y[held] == k).sum() for k in "abc"] == [round(fraction * n) for n in (100, 50, 10)]
    assert (np.diff(held) > 0).all()


def test_every_class_stays_in_training():
    y = np.array([0] * 20 + [1] + [2, 2])
    for seed in range(10):
        train, held = hold_out(y, fraction=0.9, seed=seed)
        check(y, train, held)
        assert (y[held] == 1).sum() == 0
        assert (y[held] == 2).sum() == 1


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.6])
@pytest.mark.parametrize("seed", range(5))
def test_no_group_is_in_both_parts(fraction, seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 30, 600)
    y = rng.integers(0, 4, 600)
    train, held = hold_out(y, groups, fraction=fraction, seed=seed)
    check(y, train, held)
    assert not set(groups[train]) & set(groups[held])
    for k in range(4):
        assert (y[held] == k).sum() / (y == k).sum() == pytest.approx(fraction, abs=0.07)


def test_the_only_group_of_a_class_stays_in_training():
    groups = np.array(["x", "x", "y", "y", "z", "z"])
    y = np.array([0, 1, 0, 1, 0, 2])  # class 2 is only in z
    for seed in range(10):
        train, held = hold_out(y, groups, fraction=0.3, seed=seed)
        check(y, train, held)
        assert set(groups[held]) < {"x", "y"}
        assert len(held) == 2


def test_the_split_depends_on_the_seed():
    y = np.arange(100) % 2
    groups = np.arange(100) // 5
    for names in (None, groups):
        splits = [hold_out(y, names, seed=seed)[1].tolist() for seed in (0, 0, 1)]
        assert splits[0] == splits[1] != splits[2]


def test_validation_of_a_data_set_uses_its_groups():
    y, groups = np.arange(40) % 2, np.arange(40) // 4
    split = Split(np.zeros((40, 3)), y, np.zeros((1, 3)), y[:1], ("a", "b"), None, None, groups)
    train, held = split.validation(0.2, seed=3)
    np.testing.assert_array_equal(held, hold_out(y, groups, fraction=0.2, seed=3)[1])
    assert len(held) == 8
    assert not set(groups[train]) & set(groups[held])


BAD = {
    "fraction": (([0, 1, 0, 1],), {"fraction": 1.0}, r"`fraction` must be in \(0, 1\)"),
    "one each": (([0, 1, 2],), {}, "only one series of each class: none can be held out"),
    "one group": (([0, 1, 0], ["a"] * 3), {}, r"`groups` cannot be split: whichever of the 1 group\(s\)"),
    "class by group": (([0, 0, 1, 1], ["a", "a", "b", "b"]), {}, "a class is missing from the rest"),
    "shape": (
        ([0, 1, 0], ["a", "b"]),
        {},
        r"`groups` must have shape \(3,\), one per series; got shape \(2,\)",
    ),
    "y": (([[0, 1]],), {}, r"`y` must have shape \(n,\)"),
}


@pytest.mark.parametrize(("arguments", "options", "message"), BAD.values(), ids=BAD)
def test_invalid_arguments_raise(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        hold_out(*arguments, **options)


@pytest.mark.skipif(not os.environ.get("STOPWISE_DATA"), reason="STOPWISE_DATA is not set")
@pytest.mark.parametrize("name", ["uci_hapt", "utd_mhad_skeleton", "ucf101_14_vgg16", "ucr_ecg5000"])
def test_real_data_sets(name):
    try:
        split = load(name)
    except FileNotFoundError:
        pytest.skip(f"{name} is not in the folder")
    train, held = split.validation()
    check(split.y_train, train, held)
    if split.groups_train is not None:
        assert not set(split.groups_train[train]) & set(split.groups_train[held])
    assert len(held) / len(split.y_train) == pytest.approx(0.2, abs=0.07)
