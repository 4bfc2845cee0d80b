"""Samples of labelled series."""

import numpy as np
import pytest

from stopwise.data.examples import Examples


def read(rows):
    return rows[:, None, None].astype(np.float32), np.ones(len(rows), int)


@pytest.mark.parametrize("n", [3, 40, 999])
def test_a_sample_has_every_class_at_its_share(n):
    y = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [800, 199, 1]))
    sample = Examples(read, y, 3).sample(n, seed=0)
    shares = np.bincount(sample.y) / n
    assert len(sample) == n
    assert (sample.y == 2).sum() == 1
    if n > 3:
        np.testing.assert_allclose(shares, [0.8, 0.199, 0.001], atol=1.5 / n)


def test_a_sample_keeps_series_with_their_labels_and_differs_by_seed():
    y = np.arange(100) % 2
    examples = Examples(read, y, 2)
    sample, other = examples.sample(10, seed=0), examples.sample(10, seed=1)
    x, _ = sample.read(np.arange(10))
    drawn = x.ravel().astype(int)
    assert len(set(drawn)) == 10
    np.testing.assert_array_equal(y[drawn], sample.y)
    assert not np.array_equal(drawn, other.read(np.arange(10))[0].ravel())


def test_all_series_are_their_own_sample():
    examples = Examples(read, np.arange(5) % 2, 2)
    assert examples.sample(5, seed=0) is examples
