import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse
import torch

from stopwise.data.series import Series, hold
from stopwise.datasets import GaussianSeries


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def read(series, missing="error"):
    """Every series as a float32 array (T_i, D), read one by one."""
    return [series.batch(np.array([i]), missing)[0][0] for i in range(len(series))]


def assert_holds(series, expected):
    """Alone and in one batch, a Series gives these arrays (T_i, D), zero past each end."""
    expected = [np.asarray(x, dtype=np.float32) for x in expected]
    assert len(series) == len(expected)
    assert series.lengths.tolist() == [len(x) for x in expected]
    assert series.shape == (len(expected), max(map(len, expected)), expected[0].shape[1])
    for ours, theirs in zip(read(series), expected):
        np.testing.assert_array_equal(ours, theirs)
    x, lengths = series.batch(np.arange(len(series)))
    assert x.dtype == np.float32
    assert x.flags.writeable
    assert lengths.tolist() == series.lengths.tolist()
    for row, theirs in zip(x, expected):
        np.testing.assert_array_equal(row[: len(theirs)], theirs)
        assert not row[len(theirs) :].any()


class Counting:
    """An array-like that counts the series read from it, and is no array itself."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.read = array, array.shape, array.dtype, 0

    def __getitem__(self, rows):
        assert isinstance(rows, np.ndarray)
        self.read += len(rows)
        return self.array[rows]

    def __array__(self, *_, **__):
        raise AssertionError("read whole")


# What users hand in


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int16, np.uint8, bool, object])
def test_array_of_three_axes(kind):
    X = (numbers(4, 5, 2) * 10).astype(np.uint8).astype(kind)
    assert_holds(Series(X), X.astype(np.float32))


def test_array_of_two_axes_is_univariate():
    X = numbers(4, 5)
    assert_holds(Series(X), X[..., None])


def test_nested_lists():
    X = numbers(4, 5, 2)
    assert_holds(Series(X.tolist()), X)
    assert_holds(Series(tuple(map(tuple, X[..., 0].tolist()))), X[..., :1])
    assert_holds(Series([[1, 2, 3], [4]]), [[[1], [2], [3]], [[4]]])


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_unequal_lists_of_arrays(dtype):
    X = [(10 * numbers(t, 2, seed=t)).astype(dtype) for t in (3, 1, 5)]
    assert_holds(Series(X), X)
    assert_holds(Series([x[:, 0] for x in X]), [x[:, :1] for x in X])
    assert_holds(Series([X[0][:, 0], X[1][:, :1]]), [X[0][:, :1], X[1][:, :1]])  # (T,) and (T, 1)


def test_object_array_of_arrays():
    X = [numbers(t, 2, seed=t) for t in (3, 1, 5)]
    holder = np.empty(3, dtype=object)
    holder[:] = X
    assert_holds(Series(holder), X)


def test_list_of_arrays_is_not_copied():
    X = [numbers(5, 2, seed=s) for s in range(3)]
    assert all(ours is theirs for ours, theirs in zip(Series(X)._data, X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_map(tmp_path, dtype):
    X = numbers(6, 5, 2).astype(dtype)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    series = Series(mapped)
    assert series._data is mapped
    assert_holds(series, X)


def test_only_what_is_asked_for_is_read():
    X = Counting(numbers(100, 5, 2))
    series = Series(Series(X))[10:90][np.arange(0, 80, 2)]
    assert X.read == 0
    series.batch(np.array([3, 4]))
    assert X.read == 2
    series.moments(most=7, missing="error", seed=0)
    assert X.read == 2 + 7


def test_series_made_on_the_fly():
    X = GaussianSeries(5, channels=3, length=4)
    assert_holds(Series(X), X[:])


def test_padded_array_with_lengths():
    X, lengths = numbers(3, 5, 2), [5, 1, 3]
    garbage = X.copy()
    for row, length in zip(garbage, lengths):
        row[length:] = np.array([np.nan, 1e300])
    for kind in (np.array, Counting):
        assert_holds(Series(kind(garbage), lengths), [x[:t] for x, t in zip(X, lengths)])


def test_shorter_batches_are_cut_to_their_longest_series():
    x, _ = Series(numbers(3, 5, 2), [5, 1, 3]).batch(np.array([1, 2]))
    assert x.shape == (2, 3, 2)


def test_series_of_a_series_is_the_same():
    X = numbers(3, 5, 2)
    assert_holds(Series(Series(X, [5, 1, 3])), [X[0], X[1, :1], X[2, :3]])
    assert_holds(Series(Series(X)[1:], [1, 3]), [X[1, :1], X[2, :3]])


@pytest.mark.parametrize(
    "index",
    [slice(1, None), slice(None, None, -2), [3, 0, 0], np.array([True, False, True, True]), -1],
    ids=["slice", "backwards", "integers", "booleans", "integer"],
)
@pytest.mark.parametrize("kind", ["array", "list"])
def test_indexing_gives_some_of_the_series(kind, index):
    X = [numbers(t, 2, seed=t) for t in (3, 1, 5, 2)]
    padded = np.stack([np.pad(x, ((0, 5 - len(x)), (0, 0)), constant_values=9) for x in X])
    series = Series(padded, [3, 1, 5, 2]) if kind == "array" else Series(X)
    rows = np.atleast_1d(np.arange(4)[index])
    assert_holds(series[index], [X[i] for i in rows])
    assert_holds(series[::-1][index], [X[::-1][i] for i in rows])


def test_tensors_and_masked_arrays():
    X = numbers(3, 5, 2)
    assert_holds(Series(torch.from_numpy(X)), X)
    mask = np.zeros(X.shape, dtype=bool)
    mask[1, 2, 1] = True
    masked = Series(np.ma.array(X, mask=mask))
    np.testing.assert_array_equal(np.isnan(read(masked, "mask")), mask)


def test_inputs_stay_as_they_are():
    X, lengths = numbers(3, 5, 2), np.array([5, 1, 3])
    X[0, 0, 0] = np.nan
    before = X.copy()
    series = Series(X, lengths)
    x, _ = series.batch(np.arange(3), "mask")
    series.moments(10, "mask", 0)
    x[:] = 7
    hold(X, np.zeros(2))
    np.testing.assert_array_equal(X, before)
    assert lengths.tolist() == [5, 1, 3]


# Moments


def moments_by_numpy(arrays):
    """Mean and deviation over all observed values of a list of (T_i, D)."""
    values = np.concatenate(arrays).astype(np.float32).astype(np.float64)
    return np.nanmean(values, axis=0), np.nanstd(values, axis=0)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_moments_are_those_of_numpy(offset):
    X = [numbers(t, 3, seed=t) * [1, 2, 3] + [offset, 0, -offset] for t in range(1, 600)]
    mean, deviation = Series(X).moments(10_000, "error", 0)
    np.testing.assert_allclose(mean, moments_by_numpy(X)[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(deviation, moments_by_numpy(X)[1], rtol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_moments_leave_out_what_is_missing(offset):
    X = [numbers(t, 2, seed=t) + offset for t in range(1, 300)]
    for x in X:
        x[numbers(*x.shape, seed=9) > 0.5] = np.nan
    X[0][:] = np.nan  # the very first value too
    mean, deviation = Series(X).moments(10_000, "mask", 0)
    np.testing.assert_allclose(mean, moments_by_numpy(X)[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(deviation, moments_by_numpy(X)[1], rtol=1e-9)


def test_constant_and_never_observed_channels_have_deviation_0():
    noise = numbers(50, 7)
    rounding = 1e6 + 0.0625 * (noise > 0)  # what float32 makes of a constant near 1e6
    X = np.stack(np.broadcast_arrays(0.1, 1e6 / 3, 0.0, np.nan, rounding, noise), axis=-1)
    mean, deviation = Series(X).moments(10_000, "mask", 0)
    assert deviation[:5].tolist() == [0, 0, 0, 0, 0]
    np.testing.assert_allclose(mean[:5], [0.1, 1e6 / 3, 0, 0, 1e6], rtol=1e-6)
    assert deviation[5] == pytest.approx(noise.std(), rel=1e-6)


def test_moments_of_a_part_are_drawn_by_the_seed():
    series = Series(numbers(1000, 3, 1))
    few = [series.moments(50, "error", seed)[0][0] for seed in (0, 0, 1)]
    assert few[0] == few[1] != few[2]
    assert few[0] == pytest.approx(0, abs=0.5)


# Missing values


def test_hold_is_a_loop_over_steps():
    x = numbers(20, 9, 3).astype(np.float32)
    x[numbers(20, 9, 3, seed=1) > 0] = np.nan
    fill = np.array([1.0, 2.0, 3.0], dtype=np.float32)
    held = hold(x, fill)
    assert held.dtype == np.float32
    for i in range(20):
        for d in range(3):
            last = fill[d]
            for t in range(9):
                seen = not np.isnan(x[i, t, d])
                last = x[i, t, d] if seen else last
                assert held[i, t, d] == last
                assert held[i, t, 3 + d] == seen


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
    packed = pickle.dumps(Series(mapped)[10:])
    assert len(packed) < X.nbytes / 4
    again = pickle.loads(packed)
    assert isinstance(again._data, np.memmap)
    assert not again._data.flags.writeable
    assert_holds(again, X[10:])


def test_list_of_memory_maps_is_pickled_by_reference(tmp_path):
    X = [numbers(t, 4, seed=t) for t in (2000, 1500)]
    for name, x in zip("ab", X):
        np.save(tmp_path / f"{name}.npy", x)
    packed = pickle.dumps(Series([np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "ab"]))
    assert len(packed) < 2000
    assert_holds(pickle.loads(packed), X)


def test_raw_memory_map_with_an_offset_is_pickled_by_reference(tmp_path):
    X = numbers(500, 5, 4)
    (tmp_path / "raw").write_bytes(b"x" * 100 + X.tobytes())
    mapped = np.memmap(tmp_path / "raw", dtype=np.float64, mode="r", offset=100, shape=X.shape)
    packed = pickle.dumps(Series(mapped))
    assert len(packed) < X.nbytes / 4
    assert_holds(pickle.loads(packed), X)


@pytest.mark.parametrize("part", [np.s_[10:20], np.s_[:, 1:], np.s_[::-1], np.s_[:, :, [0, 1]]])
def test_part_of_a_memory_map_is_pickled_with_its_data(tmp_path, part):
    X, mapped = opened(tmp_path)
    assert_holds(pickle.loads(pickle.dumps(Series(mapped[part]))), X[part])


def test_changed_copy_of_a_memory_map_is_pickled_with_its_data(tmp_path):
    X, mapped = opened(tmp_path, mode="c")
    mapped[0] = 7
    assert_holds(pickle.loads(pickle.dumps(Series(mapped)[:2])), [np.full((5, 4), 7), X[1]])


def test_arrays_and_lists_survive_pickling():
    X = numbers(3, 5, 2)
    assert_holds(pickle.loads(pickle.dumps(Series(X, [5, 1, 3])[1:])), [X[1, :1], X[2, :3]])
    assert_holds(pickle.loads(pickle.dumps(Series([X[0], X[1, :2]]))), [X[0], X[1, :2]])


# What does not fit

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
        ([np.zeros(3), np.zeros(0)], r"series with 0 steps \(number 1\); drop it"),
        ([[1.0], []], r"series with 0 steps \(number 1\)"),
        ([np.zeros((3, 2)), np.zeros((3, 1))], r"one D >= 1 for all.*got shapes such as \(3, 1\), \(3, 2\)"),
        ([np.zeros((3, 2)), np.zeros((4, 5, 2))], r"got shapes such as .*\(4, 5, 2\)"),
        ([np.zeros((3, 0)), np.zeros((4, 0))], "one D >= 1 for all"),
        ([np.zeros(3), 1.0], r"got shapes such as \(\), \(3,\)"),
        ([[[1.0], [1.0, 2.0]], [[1.0]]], "got a list that makes no array"),
    ],
)
def test_wrong_input_is_told(X, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((TypeError, ValueError), match=f"(?s)`X`.*{message}"):
            Series(X)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"series 2 has NaN at step 4, channel 1\. .*set missing='mask'"),
        (np.inf, r"series 2 has infinity \(or a value too large for float32\) at step 4, channel 1\. Clip"),
        (-np.inf, "series 2 has infinity"),
        (1e300, "series 2 has infinity"),
    ],
)
@pytest.mark.parametrize("kind", [np.array, list, Counting])
def test_bad_values_are_told_with_their_place(kind, value, message):
    X = numbers(4, 5, 2)
    X[2, 3, 1] = value
    series = Series(kind(X))
    series.batch(np.array([0, 1, 3]))
    for part in (series, series[1:]):  # the place in what the user handed in
        with pytest.raises(ValueError, match=f"`X` must be finite; {message}"):
            part.batch(np.arange(len(part)))


def test_infinity_is_no_missing_value():
    with pytest.raises(ValueError, match=r"infinity"):
        Series([[np.nan, np.inf]]).batch(np.array([0]), "mask")


def test_largest_floats_are_fine():
    largest = np.finfo(np.float32).max
    assert Series([[largest] * 4]).batch(np.array([0]))[0].max() == largest


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1], r"must have shape \(2,\), one per series; got shape \(1,\)"),
        ([0, 3], r"must be in \[1, 3\].*from 0 to 3"),
        ([1, 4], r"must be in \[1, 3\].*from 1 to 4"),
        ([1.0, 2.0], "must be whole numbers; got dtype float64"),
    ],
)
def test_bad_lengths_are_told(lengths, message):
    with pytest.raises((TypeError, ValueError), match=f"`lengths` {message}"):
        Series(OK, lengths)


def test_lengths_of_a_list_are_told():
    with pytest.raises(ValueError, match=r"`lengths` goes with a padded array; a list.*Leave it out"):
        Series([[1.0, 2.0], [3.0]], [2, 1])


def test_empty_choice_is_told():
    with pytest.raises(ValueError, match=r"0 series under the index"):
        Series(OK)[5:]


def test_unknown_way_with_missing_values_is_told():
    with pytest.raises(
        ValueError, match=r"`missing` must be one of 'error', 'mask'; got 'msk'. Did you mean"
    ):
        Series(OK).batch(np.array([0]), "msk")
