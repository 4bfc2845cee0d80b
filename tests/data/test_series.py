import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse
import torch

from stopwise.data.series import SeriesSet
from stopwise.datasets import GaussianSeries


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def read(series):
    """Return every series as an array (T_i, D), read one by one."""
    return [series.batch(np.array([i]))[0][0] for i in range(len(series))]


def assert_holds(series, expected):
    """Check that the set holds these arrays (T_i, D), read one by one and in one batch."""
    expected = [np.asarray(x, dtype=np.float64) for x in expected]
    assert len(series) == len(expected)
    assert series.lengths.tolist() == [len(x) for x in expected]
    assert series.shape == (len(expected), max(map(len, expected)), expected[0].shape[1])
    for ours, theirs in zip(read(series), expected):
        np.testing.assert_array_equal(ours, theirs)
    x, lengths = series.batch(np.arange(len(series)))
    assert x.dtype == series.dtype
    assert x.flags.writeable
    assert lengths.tolist() == series.lengths.tolist()
    for row, theirs in zip(x, expected):
        np.testing.assert_array_equal(row[: len(theirs)], theirs)
        assert not row[len(theirs) :].any()


class Counting:
    """An array-like that counts the series read from it and cannot be converted to an array."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.read = array, array.shape, array.dtype, 0

    def __getitem__(self, rows):
        assert isinstance(rows, np.ndarray)
        self.read += len(rows)
        return self.array[rows]

    def __array__(self, *_, **__):
        raise AssertionError("converted to an array")


# Types of X


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int16, np.uint8, bool, object])
def test_three_dimensional_array(kind):
    X = (numbers(4, 5, 2) * 10).astype(np.uint8).astype(kind)
    assert_holds(SeriesSet(X), X.astype(np.float64))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("f2", np.float32), ("f4", np.float32), (">f4", np.float32), ("f8", np.float64), ("i2", np.float32),
        ("i4", np.float64), ("i8", np.float64), ("u1", np.float32), ("?", np.float32), ("O", np.float64),
    ],
)  # fmt: skip
def test_single_precision_is_used_if_it_is_exact(kind, expected):
    x, _ = SeriesSet(np.ones((2, 3), kind)).batch(np.array([0, 1]))
    assert x.dtype == expected
    x, _ = SeriesSet([np.ones(3, kind), np.ones(2, kind)]).batch(np.array([0, 1]))
    assert x.dtype == expected


def test_a_list_of_two_types_uses_the_wider_type():
    x, _ = SeriesSet([np.ones(3, np.float32), np.full(2, 2**25 + 1)]).batch(np.array([0, 1]))
    assert x[1, 0, 0] == 2**25 + 1


def test_large_offsets_keep_their_precision():
    X = 1e9 + numbers(4, 5)
    assert_holds(SeriesSet(X), X[..., None])


def test_two_dimensional_array_is_univariate():
    X = numbers(4, 5)
    assert_holds(SeriesSet(X), X[..., None])


def test_nested_lists():
    X = numbers(4, 5, 2)
    assert_holds(SeriesSet(X.tolist()), X)
    assert_holds(SeriesSet(tuple(map(tuple, X[..., 0].tolist()))), X[..., :1])
    assert_holds(SeriesSet([[1, 2, 3], [4]]), [[[1], [2], [3]], [[4]]])


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_list_of_arrays_of_unequal_length(dtype):
    X = [(10 * numbers(t, 2, seed=t)).astype(dtype) for t in (3, 1, 5)]
    assert_holds(SeriesSet(X), X)
    assert_holds(SeriesSet([x[:, 0] for x in X]), [x[:, :1] for x in X])
    assert_holds(SeriesSet([X[0][:, 0], X[1][:, :1]]), [X[0][:, :1], X[1][:, :1]])  # (T,) and (T, 1)


def test_object_array_of_arrays():
    X = [numbers(t, 2, seed=t) for t in (3, 1, 5)]
    holder = np.empty(3, dtype=object)
    holder[:] = X
    assert_holds(SeriesSet(holder), X)


def test_list_of_arrays_is_not_copied():
    X = [numbers(5, 2, seed=s) for s in range(3)]
    assert all(ours is theirs for ours, theirs in zip(SeriesSet(X)._data, X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_map(tmp_path, dtype):
    X = numbers(6, 5, 2).astype(dtype)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    series = SeriesSet(mapped)
    assert series._data is mapped
    assert_holds(series, X)


def test_only_requested_series_are_read():
    X = Counting(numbers(100, 5, 2))
    series = SeriesSet(SeriesSet(X))[10:90][np.arange(0, 80, 2)]
    assert X.read == 0
    series.batch(np.array([3, 4]))
    assert X.read == 2


def test_series_generated_on_demand():
    X = GaussianSeries(5, 2, 1.0, 3, 4)
    assert_holds(SeriesSet(X), X[:])


def test_padded_array_with_lengths():
    X, lengths = numbers(3, 5, 2), [5, 1, 3]
    garbage = X.copy()
    for row, length in zip(garbage, lengths):
        row[length:] = np.array([np.nan, 1e300])
    for kind in (np.array, Counting):
        assert_holds(SeriesSet(kind(garbage), lengths), [x[:t] for x, t in zip(X, lengths)])


def test_batches_are_truncated_to_their_longest_series():
    x, _ = SeriesSet(numbers(3, 5, 2), [5, 1, 3]).batch(np.array([1, 2]))
    assert x.shape == (2, 3, 2)


def test_a_series_set_of_a_series_set_is_equal():
    X = numbers(3, 5, 2)
    assert_holds(SeriesSet(SeriesSet(X, [5, 1, 3])), [X[0], X[1, :1], X[2, :3]])
    assert_holds(SeriesSet(SeriesSet(X)[1:], [1, 3]), [X[1, :1], X[2, :3]])


@pytest.mark.parametrize(
    "index",
    [slice(1, None), slice(None, None, -2), [3, 0, 0], np.array([True, False, True, True]), -1],
    ids=["slice", "backwards", "integers", "booleans", "integer"],
)
@pytest.mark.parametrize("kind", ["array", "list"])
def test_indexing_selects_series(kind, index):
    X = [numbers(t, 2, seed=t) for t in (3, 1, 5, 2)]
    padded = np.stack([np.pad(x, ((0, 5 - len(x)), (0, 0)), constant_values=9) for x in X])
    series = SeriesSet(padded, [3, 1, 5, 2]) if kind == "array" else SeriesSet(X)
    rows = np.atleast_1d(np.arange(4)[index])
    assert_holds(series[index], [X[i] for i in rows])
    assert_holds(series[::-1][index], [X[::-1][i] for i in rows])


def test_tensors_and_masked_arrays():
    X = numbers(3, 5, 2)
    assert_holds(SeriesSet(torch.from_numpy(X)), X)
    mask = np.zeros(X.shape, dtype=bool)
    mask[1, 2, 1] = True
    masked = SeriesSet(np.ma.array(X, mask=mask))
    np.testing.assert_array_equal(np.isnan(read(masked)), mask)


def test_arguments_are_not_changed():
    X, lengths = numbers(3, 5, 2), np.array([5, 1, 3])
    X[0, 0, 0] = np.nan
    before = X.copy()
    series = SeriesSet(X, lengths)
    x, _ = series.batch(np.arange(3))
    x[:] = 7
    np.testing.assert_array_equal(X, before)
    assert lengths.tolist() == [5, 1, 3]


# Pickling


def opened(tmp_path, mode="r", order="C", dtype=np.float64):
    X = np.asarray(numbers(2000, 5, 4), dtype=dtype, order=order)
    np.save(tmp_path / "X.npy", X)
    return X, np.load(tmp_path / "X.npy", mmap_mode=mode)


@pytest.mark.parametrize(
    ("mode", "order", "dtype"), [("r", "C", "<f8"), ("r+", "F", "<f8"), ("r", "C", ">f4")]
)
def test_memory_map_is_pickled_by_reference(tmp_path, mode, order, dtype):
    X, mapped = opened(tmp_path, mode, order, dtype)
    packed = pickle.dumps(SeriesSet(mapped)[10:])
    assert len(packed) < X.nbytes / 4
    again = pickle.loads(packed)
    assert isinstance(again._data, np.memmap)
    assert not again._data.flags.writeable
    assert_holds(again, X[10:])


def test_list_of_memory_maps_is_pickled_by_reference(tmp_path):
    X = [numbers(t, 4, seed=t) for t in (2000, 1500)]
    for name, x in zip("ab", X):
        np.save(tmp_path / f"{name}.npy", x)
    packed = pickle.dumps(SeriesSet([np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "ab"]))
    assert len(packed) < 2000
    assert_holds(pickle.loads(packed), X)


def test_raw_memory_map_with_an_offset_is_pickled_by_reference(tmp_path):
    X = numbers(500, 5, 4)
    (tmp_path / "raw").write_bytes(b"x" * 100 + X.tobytes())
    mapped = np.memmap(tmp_path / "raw", dtype=np.float64, mode="r", offset=100, shape=X.shape)
    packed = pickle.dumps(SeriesSet(mapped))
    assert len(packed) < X.nbytes / 4
    assert_holds(pickle.loads(packed), X)


@pytest.mark.parametrize("part", [np.s_[10:20], np.s_[:, 1:], np.s_[::-1], np.s_[:, :, [0, 1]]])
def test_part_of_a_memory_map_is_pickled_with_its_data(tmp_path, part):
    X, mapped = opened(tmp_path)
    assert_holds(pickle.loads(pickle.dumps(SeriesSet(mapped[part]))), X[part])


def test_changed_copy_of_a_memory_map_is_pickled_with_its_data(tmp_path):
    X, mapped = opened(tmp_path, mode="c")
    mapped[0] = 7
    assert_holds(pickle.loads(pickle.dumps(SeriesSet(mapped)[:2])), [np.full((5, 4), 7), X[1]])


def test_arrays_and_lists_can_be_pickled():
    X = numbers(3, 5, 2)
    assert_holds(pickle.loads(pickle.dumps(SeriesSet(X, [5, 1, 3])[1:])), [X[1, :1], X[2, :3]])
    assert_holds(pickle.loads(pickle.dumps(SeriesSet([X[0], X[1, :2]]))), [X[0], X[1, :2]])


# Invalid arguments

OK = np.zeros((2, 3))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (scipy.sparse.csr_array(OK), r"must be dense.*X\.toarray\(\)"),
        (OK + 1j, "must be real.*real and imaginary parts as channels"),
        ([OK + 1j, OK[:1] + 1j], "must be real"),
        (np.array([["1", "2"]]), r"must hold numbers; got dtype <U1.*astype\(float\)"),
        ([["a", "b"], ["c"]], "must hold numbers; got dtype <U1"),
        (np.array([[1, "b"]], dtype=object), "must hold numbers.*could not convert string to float: 'b'"),
        (np.array([[{}, 1]], dtype=object), "must hold numbers; got dtype object"),
        (np.zeros((2, 3), dtype="M8[s]"), "must hold numbers; got dtype datetime64"),
        (np.zeros(3), r"shape \(n, T\) or \(n, T, D\).*got shape \(3,\).*X\[None\] for one series"),
        ([1.0, 2.0], r"got shape \(2,\)"),
        (3.0, r"got shape \(\)"),
        (np.zeros((2, 3, 4, 5)), r"got shape \(2, 3, 4, 5\)"),
        ([], r"got shape \(0,\)"),
        (np.zeros((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.zeros((2, 0)), r"0 feature\(s\)"),
        (np.zeros((2, 3, 0)), r"0 channel\(s\)"),
        ([np.zeros(3), np.zeros(0)], r"series with 0 steps \(index 1\); remove it"),
        ([[1.0], []], r"series with 0 steps \(index 1\)"),
        ([np.zeros((3, 2)), np.zeros((3, 1))], r"the same D >= 1.*got shapes such as \(3, 1\), \(3, 2\)"),
        ([np.zeros((3, 2)), np.zeros((4, 5, 2))], r"got shapes such as .*\(4, 5, 2\)"),
        ([np.zeros((3, 0)), np.zeros((4, 0))], "the same D >= 1"),
        ([np.zeros(3), 1.0], r"got shapes such as \(\), \(3,\)"),
        ([[[1.0], [1.0, 2.0]], [[1.0]]], "got a list that cannot be converted to an array"),
    ],
)
def test_invalid_data_raise(X, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((TypeError, ValueError), match=f"(?s)`X`.*{message}"):
            SeriesSet(X)


def test_values_are_read_unchanged():
    """`SeriesSet` does not check values; `Inputs` does."""
    X = np.array([[np.nan, np.inf, 1e300, np.finfo(np.float32).max]])
    np.testing.assert_array_equal(SeriesSet(X).batch(np.array([0]))[0][0, :, 0], X[0])


def test_places_are_indices_in_the_original_data():
    series = SeriesSet(numbers(10, 3))
    assert series.places.tolist() == list(range(10))
    assert series[[8, 2, 5]][1:].places.tolist() == [2, 5]
    assert SeriesSet(series[::-1])[[0]].places.tolist() == [9]


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1], r"must have shape \(2,\), one per series; got shape \(1,\)"),
        ([0, 3], r"must be in \[1, 3\].*from 0 to 3"),
        ([1, 4], r"must be in \[1, 3\].*from 1 to 4"),
        ([1.0, 2.0], "must be .*; got dtype float64"),
    ],
)
def test_invalid_lengths_raise(lengths, message):
    with pytest.raises((TypeError, ValueError), match=f"`lengths` {message}"):
        SeriesSet(OK, lengths)


def test_lengths_with_a_list_raise():
    with pytest.raises(
        ValueError, match=r"`lengths` can only be used with a padded array; a list.*Remove `lengths`"
    ):
        SeriesSet([[1.0, 2.0], [3.0]], [2, 1])


def test_an_index_that_selects_nothing_raises():
    with pytest.raises(ValueError, match=r"selects 0 series"):
        SeriesSet(OK)[5:]


def test_channels_are_reordered_by_name_in_arrays_and_lists():
    X = np.arange(24.0).reshape(2, 4, 3)
    for data in (X, [X[0], X[1, :2]]):
        series = SeriesSet(data, channel_names=["a", "b", "c"])
        view = series.with_channels(["c", "a", "b"])[[1]].with_channels(["b", "c", "a"])
        x, lengths = view.batch(np.array([0]))
        np.testing.assert_array_equal(x[0], X[1, : lengths[0]][:, [1, 2, 0]])
        assert view.channel_names == ("b", "c", "a")
        assert pickle.loads(pickle.dumps(view)).batch(np.array([0]))[0].tolist() == x.tolist()


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", ""], ["a", 3], "ab"])
def test_invalid_channel_names_raise(names):
    with pytest.raises(ValueError, match="`channel_names` must be 2 distinct, non-empty strings"):
        SeriesSet(np.zeros((2, 4, 2)), channel_names=names)
