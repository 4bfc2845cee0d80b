"""Conversion of samples to model inputs: moments, batches, single steps and invalid values."""

import json
import pickle

import numpy as np
import pytest
import torch

from stopwise.data import inputs as module
from stopwise.data.inputs import InputReader, Inputs, check_standardize
from stopwise.data.series import SeriesSet

STANDARDIZE = [True, "together", False]
MISSING = ["error", "mask"]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def gaps(X, seed=9):
    """Return X with a third of its values missing."""
    return np.where(numbers(*X.shape, seed=seed) > 0.4, np.nan, X)


def read_all(inputs, X, lengths=None):
    series = SeriesSet(X, lengths)
    return inputs.read(series, np.arange(len(series)))[0]


# Moments


def by_numpy(arrays):
    """Return mean and standard deviation of all observed values of a list of arrays (T_i, D)."""
    values = np.concatenate(arrays).astype(np.float64)
    return np.nanmean(values, axis=0), np.nanstd(values, axis=0)


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_moments_equal_those_of_numpy(offset, missing):
    X = [numbers(t, 3, seed=t) * [1, 2, 3] + [offset, 0, -offset] for t in range(1, 600)]
    if missing == "mask":
        X = [gaps(x) for x in X]
        X[0][:] = np.nan  # including the very first value
    inputs = Inputs.learn(SeriesSet(X), missing=missing)
    mean, deviation = by_numpy([x - [offset, 0, -offset] for x in X])
    np.testing.assert_allclose(inputs.center - [offset, 0, -offset], mean, atol=1e-12 + 1e-15 * offset)
    np.testing.assert_allclose(inputs.scale, deviation, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int16, np.int64, bool])
def test_moments_of_every_type(dtype):
    X = np.maximum(10 * numbers(40, 7, 2), 0).astype(dtype)
    inputs = Inputs.learn(SeriesSet(X))
    mean, deviation = by_numpy(X)
    np.testing.assert_allclose(inputs.center, mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(inputs.scale, deviation, rtol=1e-12)
    seen = read_all(inputs, X)
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen, (X.astype(np.float64) - mean) / deviation, rtol=1e-6, atol=1e-6)


def test_together_scales_all_channels_by_one_deviation():
    X = numbers(50, 8, 3) * [3.0, 0.1, 1.0] + [5.0, -1.0, 0.0]
    inputs = Inputs.learn(SeriesSet(X), standardize="together")
    np.testing.assert_allclose(inputs.center, X.mean((0, 1)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(inputs.scale, (X - X.mean((0, 1))).std(), rtol=1e-12)


def test_constant_and_never_observed_channels_are_not_scaled():
    noise = numbers(50, 7)
    X = np.stack(np.broadcast_arrays(0.1, 1e9 / 3, 0.0, np.nan, noise), axis=-1)
    inputs = Inputs.learn(SeriesSet(X), missing="mask")
    assert inputs.scale[:4].tolist() == [1, 1, 1, 1]
    np.testing.assert_allclose(inputs.center[:4], [0.1, 1e9 / 3, 0, 0], rtol=1e-15)
    assert inputs.scale[4] == pytest.approx(noise.std(), rel=1e-12)
    seen = read_all(inputs, X)
    assert not seen[..., :4].any()
    assert seen[0, 0, 5:].tolist() == [1, 1, 1, 0, 1]


@pytest.mark.parametrize("standardize", [True, "together"])
def test_constant_data_are_not_divided_by_zero(standardize):
    constant = np.full((4, 5, 2), 7.0)
    constant[..., 1] = np.nan
    inputs = Inputs.learn(SeriesSet(constant), standardize=standardize, missing="mask")
    np.testing.assert_array_equal(inputs.center, [7, 0])
    np.testing.assert_array_equal(inputs.scale, 1)


def test_a_constant_channel_counts_in_the_common_deviation():
    X = numbers(50, 8, 3)
    X[..., 1] = -2.5
    assert Inputs.learn(SeriesSet(X)).scale[1] == 1
    together = Inputs.learn(SeriesSet(X), standardize="together").scale
    np.testing.assert_allclose(together, np.sqrt((X.std((0, 1)) ** 2).mean()), rtol=1e-12)


def test_a_small_deviation_from_a_large_offset_is_not_treated_as_rounding():
    X = 1e12 + 0.3 * numbers(2000, 30)
    assert Inputs.learn(SeriesSet(X)).scale[0] == pytest.approx(0.3, rel=0.02)


@pytest.mark.parametrize("size", [1e-50, 1e-30, 1e30])
def test_very_small_and_large_units_are_scaled(size):
    X = numbers(20, 5, 2)
    seen = read_all(Inputs.learn(SeriesSet(X * size)), X * size)
    np.testing.assert_allclose(seen, read_all(Inputs.learn(SeriesSet(X)), X), rtol=1e-5, atol=1e-6)


def test_only_a_random_sample_of_a_large_set_is_read(monkeypatch):
    monkeypatch.setattr(module, "MOMENT_SERIES", 50)
    X = numbers(1000, 3, 1)
    read = []

    class Counting(SeriesSet):
        def batch(self, rows):
            read.extend(rows)
            return super().batch(rows)

    centers = [Inputs.learn(Counting(X), random_state=seed).center[0] for seed in (0, 0, 1)]
    assert len(read) == 3 * 50
    assert len(set(read[:50])) == 50
    assert read[:50] == read[50:100] == sorted(read[:50])
    assert centers[0] == centers[1] != centers[2]
    assert centers[0] == pytest.approx(0, abs=0.5)


def test_no_data_are_read_without_standardizing():
    class Unread(SeriesSet):
        def batch(self, rows):
            raise AssertionError

    inputs = Inputs.learn(Unread(numbers(5, 3, 2)), standardize=False)
    np.testing.assert_array_equal(inputs.center, 0)
    np.testing.assert_array_equal(inputs.scale, 1)


def test_missing_values_before_the_first_observation_are_filled_with_the_mean():
    X = gaps(numbers(50, 4, 2) + np.array([3, -1]))
    inputs = Inputs.learn(SeriesSet(X), standardize=False, missing="mask")
    np.testing.assert_allclose(inputs.fill, np.nanmean(X, axis=(0, 1)), rtol=1e-6)
    assert not Inputs.learn(SeriesSet(X), missing="mask").fill.any()


# Batches and single steps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e9])
@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("standardize", STANDARDIZE)
def test_batches_and_steps_give_identical_inputs(standardize, missing, offset, dtype):
    X = (numbers(7, 9, 3) * [1, 20, 0.1] + [0, 5, offset]).astype(dtype)
    if missing == "mask":
        X = gaps(X).astype(dtype)
        X[2] = np.nan  # a series without any observation
    lengths = np.array([9, 1, 4, 9, 2, 7, 8])
    inputs = Inputs.learn(SeriesSet(X, lengths), standardize=standardize, missing=missing)
    seen = read_all(inputs, X, lengths)
    assert seen.shape == (7, 9, inputs.model_channels)
    assert inputs.model_channels == (6 if missing == "mask" else 3)
    for xp, array in ((np, np.asarray), (torch, torch.from_numpy)):
        step = inputs.step(xp)
        state = step.start(7)
        for t in range(9):
            one, state = step(array(X[:, t]), state)
            there = lengths > t
            one = np.asarray(one)
            assert one.dtype == np.float32
            np.testing.assert_array_equal(one[there], seen[there, t])
    assert all(not seen[i, length:].any() for i, length in enumerate(lengths))


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("standardize", [True, "together"])
def test_an_offset_does_not_change_the_inputs(standardize, missing):
    X = numbers(30, 8, 2) * [1.0, 3.0]
    X = gaps(X) if missing == "mask" else X
    settings = {"standardize": standardize, "missing": missing}
    plain, far = (Inputs.learn(SeriesSet(data), **settings) for data in (X, X + 1e9))
    expected = read_all(plain, X)
    np.testing.assert_allclose(read_all(far, X + 1e9), expected, atol=1e-6)
    step = far.step()
    state = step.start(30)
    for t in range(8):
        one, state = step(X[:, t] + 1e9, state)
        np.testing.assert_allclose(one, expected[:, t], atol=1e-6)


def test_missing_values_are_filled_with_the_last_observation():
    X = np.where(numbers(20, 9, 3, seed=1) > 0, np.nan, numbers(20, 9, 3)).astype(np.float32)
    fill = np.array([1.0, 2.0, 3.0], dtype=np.float32)
    held = read_all(Inputs(np.zeros(3), np.ones(3), fill, True), X)
    assert held.dtype == np.float32
    for i in range(20):
        for d in range(3):
            last = fill[d]
            for t in range(9):
                seen = not np.isnan(X[i, t, d])
                last = X[i, t, d] if seen else last
                assert held[i, t, d] == last
                assert held[i, t, 3 + d] == seen


def test_arguments_are_not_changed():
    X = gaps(numbers(5, 4, 2))
    before = X.copy()
    inputs = Inputs.learn(SeriesSet(X), missing="mask")
    read_all(inputs, X)[:] = 7
    step = inputs.step()
    state = step.start(5)
    step(X[:, 0], state)
    np.testing.assert_array_equal(X, before)
    assert not state["held"].any()


def test_rows_are_read_in_any_order_and_truncated_to_the_longest():
    X = numbers(4, 6, 2)
    series = SeriesSet(X, [6, 2, 4, 3])
    inputs = Inputs.learn(series)
    seen, lengths = inputs.read(series, np.array([3, 1]))
    assert seen.shape == (2, 3, 2)
    assert lengths.tolist() == [3, 2]
    np.testing.assert_array_equal(seen[0], read_all(inputs, X)[3, :3])


def test_a_reader_can_be_pickled():
    series = SeriesSet(numbers(4, 6, 2))
    reader = InputReader(series, Inputs.learn(series))
    again = pickle.loads(pickle.dumps(reader))
    np.testing.assert_array_equal(again(np.arange(4))[0], reader(np.arange(4))[0])


# Conversion to JSON


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("standardize", STANDARDIZE)
def test_inputs_can_be_converted_to_json_and_back(standardize, missing):
    X = gaps(numbers(9, 5, 2) + 1e6) if missing == "mask" else numbers(9, 5, 2) + 1e6
    inputs = Inputs.learn(SeriesSet(X), standardize=standardize, missing=missing)
    again = Inputs.from_dict(json.loads(json.dumps(inputs.to_dict())))
    np.testing.assert_array_equal(read_all(again, X), read_all(inputs, X))
    assert again.fill.dtype == np.float32


@pytest.mark.parametrize(
    "changes",
    [
        {"center": [0.0]},
        {"center": []},
        {"center": [0.0, float("nan")]},
        {"scale": [1.0, 0.0]},
        {"scale": [1.0, -1.0]},
        {"fill": [[0.0], [0.0]]},
        {"mask": 1},
    ],
)
def test_an_invalid_description_raises(changes):
    about = Inputs.learn(SeriesSet(numbers(9, 5, 2))).to_dict()
    with pytest.raises(ValueError, match="`center`, `scale`"):
        Inputs.from_dict(about | changes)


# Invalid values


class InParts:
    """An array-like that can only be indexed by rows."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, rows):
        return self.array[rows]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"series 2 has NaN at step 4, channel 1\. .*set missing='mask'"),
        (np.inf, r"series 2 has infinity \(or a value too large for float32\) at step 4, channel 1\. Clip"),
        (-np.inf, "series 2 has infinity .* at step 4, channel 1"),
        (1e300, "series 2 has infinity .* at step 4, channel 1"),
        (-1e39, "series 2 has infinity .* at step 4, channel 1"),
    ],
)
@pytest.mark.parametrize("standardize", STANDARDIZE)
@pytest.mark.parametrize("kind", [np.array, list, InParts])
def test_invalid_values_are_reported_with_their_position_in_the_original_data(
    kind, standardize, value, message
):
    good = Inputs.learn(SeriesSet(numbers(4, 5, 2)), standardize=standardize)
    X = numbers(4, 5, 2)
    X[2, 3, 1] = value
    series = SeriesSet(kind(X))
    good.read(series, np.array([0, 1, 3]))
    for part in (series, series[1:], series[[3, 2]]):
        with pytest.raises(ValueError, match=f"`X` must be finite; {message}"):
            good.read(part, np.arange(len(part)))
        if standardize:
            with pytest.raises(ValueError, match=f"`X` must be finite; {message}"):
                Inputs.learn(part, standardize=standardize)


@pytest.mark.parametrize("value", [np.inf, 1e300])
def test_infinity_is_not_a_missing_value(value):
    X = np.array([[np.nan, value, 1.0]])
    with pytest.raises(ValueError, match=r"series 0 has infinity .* at step 2, channel 0\. Clip.*by NaN"):
        Inputs.learn(SeriesSet(X), missing="mask")
    good = Inputs.learn(SeriesSet([[np.nan, 1.0, 2.0]]), missing="mask")
    with pytest.raises(ValueError, match="infinity"):
        read_all(good, X)


def test_padding_is_ignored():
    X = numbers(3, 5, 2)
    spoiled = X.copy()
    spoiled[1, 2:], spoiled[2, 4:] = np.nan, np.inf
    lengths = [5, 2, 4]
    learned = [Inputs.learn(SeriesSet(data, lengths)) for data in (X, spoiled)]
    np.testing.assert_array_equal(learned[0].scale, learned[1].scale)
    np.testing.assert_array_equal(read_all(learned[0], X, lengths), read_all(learned[1], spoiled, lengths))


def test_the_largest_float32_values_are_accepted():
    largest = np.finfo(np.float32).max
    inputs = Inputs.learn(SeriesSet([[largest] * 4, [-largest] * 4]), standardize=False)
    assert read_all(inputs, [[largest] * 4]).max() == largest
    scaled = Inputs.learn(SeriesSet([[largest] * 4, [-largest] * 4]))
    np.testing.assert_allclose(read_all(scaled, [[largest] * 4]), 1, rtol=1e-6)


@pytest.mark.parametrize("wrong", ["channel", None, 2])
def test_invalid_standardize_raises(wrong):
    for check in (check_standardize, lambda word: Inputs.learn(SeriesSet(numbers(3, 4)), standardize=word)):
        with pytest.raises(ValueError, match=r"`standardize` must be True .*'together'.* or False; got"):
            check(wrong)


def test_invalid_missing_raises():
    with pytest.raises(ValueError, match=r"`missing` must be one of 'error', 'mask'; got 'msk'. Did you"):
        Inputs.learn(SeriesSet(numbers(3, 4)), missing="msk")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing", ["error", "mask"])
def test_the_kernel_for_large_batches_equals_numpy(dtype, missing, monkeypatch):
    rng = np.random.default_rng(0)
    X = (1e3 + rng.normal(size=(20, 9, 3))).astype(dtype)
    if missing == "mask":
        X[rng.random(X.shape) < 0.2] = np.nan
    series = SeriesSet(X, lengths=rng.integers(1, 10, 20))
    inputs = Inputs.learn(series, missing=missing)
    plain = inputs.read(series, np.arange(20))[0]
    monkeypatch.setattr("stopwise.data.inputs.LARGE", 0)
    np.testing.assert_array_equal(inputs.read(series, np.arange(20))[0], plain)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_the_kernel_for_large_batches_reports_values_that_are_not_finite(value, monkeypatch):
    X = np.random.default_rng(0).normal(size=(6, 5, 2))
    inputs = Inputs.learn(SeriesSet(X))
    X[3, 1, 1] = value
    monkeypatch.setattr("stopwise.data.inputs.LARGE", 0)
    with pytest.raises(ValueError, match=r"series 3 has .* at step 2, channel 1"):
        inputs.read(SeriesSet(X), np.arange(6))


def test_moments_do_not_depend_on_the_parts_that_are_read(monkeypatch):
    X = gaps(numbers(40, 7, 3) * [1, 1e-3, 1e3] + 1e5)
    whole = Inputs.learn(SeriesSet(X), missing="mask")
    monkeypatch.setattr(module, "MOMENT_NUMBERS", 50)
    parts = Inputs.learn(SeriesSet(X), missing="mask")
    np.testing.assert_allclose(parts.center, whole.center, rtol=1e-14)
    np.testing.assert_allclose(parts.scale, whole.scale, rtol=1e-12)
    np.testing.assert_allclose(whole.scale, np.nanstd(X - X[0, 0].round(), axis=(0, 1)), rtol=1e-9)
