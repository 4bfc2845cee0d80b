"""The LLR error, compared with plain loops over all pairs."""

import itertools

import numpy as np
import pytest

from stopwise.metrics import llr, llr_error


def slow_llr_error(scores, truth, lengths):
    """Return mean |error|, mean |truth| and the slope through the origin, over all ordered pairs."""
    errors, sizes, products, squares = [], [], [], []
    for i, length in enumerate(lengths):
        for t in range(length):
            for k, other in itertools.permutations(range(scores.shape[-1]), 2):
                estimate = scores[i, t, k] - scores[i, t, other]
                true = truth[i, t, k] - truth[i, t, other]
                errors.append(abs(estimate - true))
                sizes.append(abs(true))
                products.append(estimate * true)
                squares.append(true * true)
    return np.mean(errors), np.mean(errors) / np.mean(sizes), sum(products) / sum(squares)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_error_equals_plain_loops_over_all_pairs(classes, monkeypatch):
    rng = np.random.default_rng(classes)
    truth = rng.normal(size=(12, 7, classes)).cumsum(1) * 3 + 100
    scores = 0.6 * truth + rng.normal(size=truth.shape) + rng.normal(size=(12, 7, 1))
    lengths = rng.integers(1, 8, size=12)
    expected = slow_llr_error(scores, truth, lengths)
    monkeypatch.setattr(llr, "CHUNK_NUMBERS", 50)
    np.testing.assert_allclose(llr_error(scores, truth, lengths), expected, rtol=1e-10)
    scores[np.arange(7) >= lengths[:, None]] = np.nan
    np.testing.assert_allclose(llr_error(scores, truth, lengths), expected, rtol=1e-10)


def test_slope_equals_the_least_squares_line_over_ordered_pairs():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(30, 4, 2)) * 5
    scores = np.tanh(truth)
    x = (truth[..., 1] - truth[..., 0]).ravel()
    z = (scores[..., 1] - scores[..., 0]).ravel()
    slope, intercept = np.polyfit(np.append(x, -x), np.append(z, -z), 1)
    assert intercept == pytest.approx(0, abs=1e-12)
    assert llr_error(scores, truth).slope == pytest.approx(slope)
    assert slope < 0.5


def test_error_of_zero_estimates_is_the_mean_absolute_llr():
    """For Gaussian data with offset 1, the mean of |LLR| over t = 1..50 is 25.5."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 50, 2))
    x[..., 0] += 1.0
    truth = x.cumsum(1)
    error = llr_error(np.zeros_like(truth), truth)
    assert error.mean_abs == pytest.approx(25.5, abs=0.4)
    assert error.relative == pytest.approx(1.0)
    assert error.slope == 0.0


def test_adding_a_constant_to_the_scores_gives_no_error():
    truth = np.random.default_rng(2).normal(size=(5, 6, 4))
    mean_abs, relative, slope = llr_error(truth + 7.0, truth)
    assert mean_abs == pytest.approx(0, abs=1e-13)
    assert relative == pytest.approx(0, abs=1e-13)
    assert slope == pytest.approx(1)


def test_relative_error_and_slope_are_nan_if_all_true_llrs_are_zero():
    error = llr_error([[[1.0, 0.0, 0.0]]], np.zeros((1, 1, 3)))
    assert error.mean_abs == pytest.approx(2 / 3)
    assert np.isnan(error.relative)
    assert np.isnan(error.slope)


@pytest.mark.parametrize(
    ("scores", "truth", "lengths", "message"),
    [
        (np.zeros((2, 3, 4)), np.zeros((2, 3, 5)), None, r"same shape .*got \(2, 3, 4\) and \(2, 3, 5\)"),
        (np.zeros((2, 3, 4)), np.zeros((2, 4, 4)), None, "must have the same shape"),
        (np.zeros((2, 3, 4)), np.zeros((3, 3, 4)), None, "must have the same shape"),
        (np.zeros((2, 3, 4)), np.zeros((2, 1, 4)), [3, 3], "must have the same shape"),
        (np.zeros((0, 3, 4)), np.zeros((0, 3, 4)), None, "`scores` holds no series"),
        (np.zeros((2, 3)), np.zeros((2, 3)), None, r"`scores` must have shape \(n, T, K\)"),
        (np.zeros((2, 3, 2)), np.zeros((2, 3)), None, r"got \(2, 3, 2\) and \(2, 3\)"),
        (np.zeros((1, 1, 2)), np.full((1, 1, 2), np.inf), None, "`true_scores` must be finite"),
        (np.zeros((1, 2, 2)), np.zeros((1, 2, 2)), [5], r"`lengths` must be in \[1, 2\]"),
    ],
)
def test_invalid_arguments_raise(scores, truth, lengths, message):
    with pytest.raises(ValueError, match=message):
        llr_error(scores, truth, lengths)
