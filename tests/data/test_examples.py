"""Labeled series: weights, subsets, splits and digest."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

from stopwise.data.examples import Examples
from stopwise.data.inputs import InputReader, Inputs
from stopwise.data.series import SeriesSet


def read(rows):
    return rows[:, None, None].astype(np.float32), np.ones(len(rows), int)


def made(y, classes=None, groups=None):
    y = np.asarray(y)
    return Examples(read, y, classes or int(y.max()) + 1, 1, np.ones(len(y), int), groups)


def rows_of(part):
    """Return the original indices of the series of a part, which are their values."""
    return part.read(np.arange(len(part)))[0].ravel().astype(int)


def test_number_of_series_steps_and_channels():
    examples = replace(made([0, 1, 0]), lengths=np.array([2, 7, 3]))
    assert (len(examples), examples.steps, examples.channels) == (3, 7, 1)


# Weights


@pytest.mark.parametrize("seed", range(3))
def test_weights_equal_those_of_scikit_learn(seed):
    y = np.random.default_rng(seed).choice(5, 200, p=[0.6, 0.2, 0.1, 0.05, 0.05])
    weights = made(y).weights
    np.testing.assert_array_equal(weights, compute_sample_weight("balanced", y))
    assert weights.mean() == pytest.approx(1)
    np.testing.assert_allclose(np.bincount(y, weights), 200 / 5)


def test_weights_give_each_class_that_occurs_the_same_total():
    assert made([0, 0, 0, 2], classes=4).weights.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])


# Subsets and samples


def test_a_subset_has_the_labels_groups_and_lengths_of_its_series():
    y, groups, lengths = np.arange(6) % 3, np.array(list("aabbcc")), np.arange(6) + 1
    examples = replace(made(y, groups=groups), lengths=lengths)
    part = examples.subset(np.array([5, 1, 3])).subset(np.array([2, 0]))
    assert rows_of(part).tolist() == [3, 5]
    assert part.y.tolist() == [0, 2]
    assert part.groups.tolist() == ["b", "c"]
    assert part.lengths.tolist() == [4, 6]
    assert part.classes == 3


def test_a_subset_can_be_pickled():
    series = SeriesSet(np.random.default_rng(0).normal(size=(6, 4, 2)))
    reader = InputReader(series, Inputs.learn(series))
    examples = Examples(reader, np.arange(6) % 2, 2, 2, series.lengths)
    part = examples.subset(np.array([4, 2]))
    again = pickle.loads(pickle.dumps(part))
    np.testing.assert_array_equal(again.read(np.arange(2))[0], examples.read(np.array([4, 2]))[0])


@pytest.mark.parametrize("n", [3, 40, 999])
def test_a_sample_is_stratified(n):
    y = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [800, 199, 1]))
    sample = made(y).sample(n, seed=0)
    shares = np.bincount(sample.y) / n
    assert len(sample) == n
    assert (sample.y == 2).sum() == 1
    if n > 3:
        np.testing.assert_allclose(shares, [0.8, 0.199, 0.001], atol=1.5 / n)


def test_a_sample_keeps_labels_and_depends_on_the_seed():
    y = np.arange(100) % 2
    sample, other = (made(y).sample(10, seed=seed) for seed in (0, 1))
    drawn = rows_of(sample)
    assert len(set(drawn)) == 10
    np.testing.assert_array_equal(y[drawn], sample.y)
    assert not np.array_equal(drawn, rows_of(other))


def test_a_sample_of_all_series_is_the_set_itself():
    examples = made(np.arange(5) % 2)
    assert examples.sample(5, seed=0) is examples


# Splits


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.6])
def test_a_group_is_never_split(fraction, seed):
    rng = np.random.default_rng(seed)
    y, groups = rng.integers(0, 3, 300), rng.integers(0, 25, 300).astype(str)
    train, held = made(y, groups=groups).split(fraction, seed)
    assert not set(train.groups) & set(held.groups)
    assert sorted([*rows_of(train), *rows_of(held)]) == list(range(300))
    for part in (train, held):
        np.testing.assert_array_equal(part.y, y[rows_of(part)])
        np.testing.assert_array_equal(part.groups, groups[rows_of(part)])
    assert set(train.y) == {0, 1, 2}
    assert len(held) / 300 == pytest.approx(fraction, abs=0.1)


def test_without_groups_a_share_of_each_class_is_held_out():
    y = np.repeat([0, 1, 2], [50, 20, 3])
    train, held = made(y).split(0.1, 0)
    assert np.bincount(held.y).tolist() == [5, 2, 1]
    assert np.bincount(train.y).tolist() == [45, 18, 2]
    assert train.groups is None
    assert not np.array_equal(rows_of(held), rows_of(made(y).split(0.1, 1)[1]))
    np.testing.assert_array_equal(rows_of(held), rows_of(made(y).split(0.1, 0)[1]))


def test_nothing_is_held_out_if_it_is_impossible():
    for y, fraction in (([0, 1, 0, 1], 0), ([0, 1, 2], 0.2)):
        examples = made(y)
        assert examples.split(fraction, 0) == (examples, None)


def test_groups_that_cannot_be_split_raise():
    with pytest.raises(ValueError, match="`groups` cannot be split"):
        made([0, 0, 1, 1], groups=np.array(["a", "a", "b", "b"])).split(0.5, 0)


# The digest


def digest(X, y, lengths=None):
    series = SeriesSet(X, lengths)
    return Examples(series.batch, np.asarray(y), 2, series.channels, series.lengths).digest()


def test_different_data_sets_have_different_digests():
    X, y = np.random.default_rng(0).normal(size=(20, 5, 2)), np.arange(20) % 2
    plain = digest(X, y)
    assert plain.startswith("20 series, ")
    assert digest(X.copy(), y.astype(np.int32)) == plain
    changed = X.copy()
    changed[0, 0, 0] += 1e-9
    others = [
        digest(changed, y),
        digest(X, 1 - y),
        digest(X, np.sort(y)),
        digest(X, y, np.full(20, 4)),
        digest(X[:19], y[:19]),
        digest(X[:, ::-1], y),
    ]
    assert len({plain, *others}) == 7


def test_the_digest_reads_only_a_few_series():
    read = []

    def reader(rows):
        read.extend(rows)
        return np.zeros((len(rows), 1, 1), np.float32), np.ones(len(rows), int)

    Examples(reader, np.zeros(1000, int), 2, 1, np.ones(1000, int)).digest()
    assert len(read) == 8
    assert {0, 999} <= set(read)
