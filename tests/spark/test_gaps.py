import numpy as np
import pytest

from stopwise.spark.gaps import Gaps, is_whole, on_grid


def test_parts_that_are_merged_equal_the_whole():
    rng = np.random.default_rng(0)
    series = [np.sort(rng.choice(40, 6, replace=False)) * 6 + int(rng.integers(100)) for _ in range(9)]
    whole, merged = Gaps(), Gaps()
    for times in series:
        whole.add(times)
    for start in range(0, 9, 4):
        part = Gaps()
        for times in series[start : start + 4]:
            part.add(times)
        merged.merge(part)
    assert merged == whole
    assert whole.divisor % 6 == 0
    assert whole.rows == 54


def test_irregular_times_have_no_grid():
    gaps = Gaps()
    gaps.add(np.array([0, 1, 1000]))
    with pytest.warns(UserWarning, match="3 samples on a grid of 1001 steps"):
        assert gaps.step() is None


def test_single_samples_have_no_grid():
    gaps = Gaps()
    gaps.add(np.array([7]))
    assert gaps.step() is None


def test_values_are_placed_on_the_grid():
    x = on_grid(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 16.0]), 3)
    np.testing.assert_array_equal(x, [[1, 2], [np.nan, np.nan], [3, 4]])


def test_times_with_fractions_or_gaps_are_not_whole():
    assert is_whole(np.array([1, 2]))
    assert not is_whole(np.array([1.5]))
    assert not is_whole(np.array([1.0, np.nan]))
    assert not is_whole(np.array([1, None], dtype=object))
