import numpy as np
import pytest

from stopwise.splits import split_by_class, split_by_group


def world(n=200, groups=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 3, n), rng.integers(0, groups, n)


def parts(train, held, n):
    assert np.array_equal(np.sort(np.concatenate([train, held])), np.arange(n))


def test_a_share_of_every_class_is_held_out():
    y = np.repeat([0, 1, 2], [100, 50, 2])
    train, held = split_by_class(y, 0.2, seed=3)
    parts(train, held, 152)
    assert np.bincount(y[held]).tolist() == [20, 10, 1]
    again = split_by_class(y, 0.2, seed=3)[1]
    other = split_by_class(y, 0.2, seed=4)[1]
    assert np.array_equal(held, again)
    assert not np.array_equal(held, other)


def test_groups_are_never_cut():
    y, groups = world()
    train, held = split_by_group(y, groups, 0.25, seed=0)
    parts(train, held, 200)
    assert not set(groups[train]) & set(groups[held])
    assert 0.1 < len(held) / 200 < 0.4
    assert set(y[train]) == {0, 1, 2}


def test_a_class_of_one_group_stays_in_training():
    y = np.array([0, 1] * 10 + [2] * 4)
    groups = np.repeat([0, 1, 2, 3, 4, 5], 4)
    for seed in range(5):
        train, held = split_by_group(y, groups, 0.17, seed)
        assert 2 in y[train]
        assert len(held)


def test_groups_that_cannot_be_split_are_told():
    y = np.array([0, 0, 1, 1])
    with pytest.raises(ValueError, match="`groups` must have one entry per series: 4"):
        split_by_group(y, [1, 2], 0.2, 0)
    with pytest.raises(ValueError, match="`groups` must hold at least 2 groups"):
        split_by_group(y, [1, 1, 1, 1], 0.2, 0)
    with pytest.raises(ValueError, match="`groups` leave no class whole"):
        split_by_group(y, [1, 1, 2, 2], 0.5, 0)
