"""Whole series from Arrow batches that end anywhere."""

import numpy as np
import pytest

from stopwise.spark.partitions import each_series

pytestmark = pytest.mark.spark
pa = pytest.importorskip("pyarrow", reason="pip install 'stopwise[spark]'")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_series_do_not_depend_on_where_batches_end(size):
    names, times = ["a"] * 3 + ["b"] + ["c"] * 5, [0, 1, 2, 4, 0, 1, 2, 3, 5]
    values = np.arange(18.0).reshape(9, 2)
    table = pa.table({"series": names, "time": times, "x": values.tolist()})
    found = list(each_series(table.to_batches(max_chunksize=size)))
    assert [name for name, _, _ in found] == ["a", "b", "c"]
    assert [times.tolist() for _, times, _ in found] == [[0, 1, 2], [4], [0, 1, 2, 3, 5]]
    np.testing.assert_array_equal(np.concatenate([x for _, _, x in found]), values)


def test_names_that_are_nan_are_one_series():
    nan = float("nan")
    batches = [pa.record_batch({"series": [nan, float("nan")], "time": [0, 1]})] * 2
    assert [len(times) for _, times, _ in each_series(batches)] == [4]


def test_no_batches_give_no_series():
    assert list(each_series([])) == []
