import pickle
import time

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal, norm

from stopwise.datasets import GaussianSeries, gaussian


def test_scores_equal_log_densities_up_to_a_constant():
    X, _, scores = gaussian(n=5, classes=3, offset=1.5, channels=4, length=6, seed=3)
    means = 1.5 * np.eye(4)[:3]
    log_density = np.stack([multivariate_normal(mean).logpdf(X.astype(float)) for mean in means], axis=-1)
    true = log_density.cumsum(axis=1)
    np.testing.assert_allclose(scores - scores[..., :1], true - true[..., :1], atol=1e-9)


def test_samples_are_normal_around_the_class_mean():
    X, y, _ = gaussian(n=3000, classes=3, offset=2.0, channels=5, length=20, seed=0)
    for k in range(3):
        flat = X[y == k].reshape(-1, 5).astype(float)  # 20000 samples
        np.testing.assert_allclose(flat.mean(axis=0), 2.0 * np.eye(5)[k], atol=5 / np.sqrt(len(flat)))
        np.testing.assert_allclose(np.cov(flat.T), np.eye(5), atol=6 / np.sqrt(len(flat)))
    noise = (X - 2.0 * np.eye(5, dtype=np.float32)[y][:, None]).ravel()
    assert kstest(noise, "norm").pvalue > 1e-3
    assert (np.abs(noise) > 4).mean() == pytest.approx(2 * norm.sf(4), rel=0.5)


@pytest.mark.parametrize("lag", [1, 2, 7, 10, 35])
def test_noise_is_uncorrelated_within_and_between_series(lag):
    X = GaussianSeries(2000, offset=0.0, channels=7, length=10, seed=2)[:].astype(float)
    tolerance = 5 / np.sqrt(X.size)
    within = X.reshape(2000, 70)
    assert abs((within[:, lag:] * within[:, :-lag]).mean()) < tolerance
    # All pairs of samples of two series: overlapping random streams would give a high correlation.
    between = within[lag:].T @ within[:-lag] / len(within[lag:])
    assert np.abs(between).max() < 6 / np.sqrt(2000 - lag)
    # Box-Muller uses each radius for two samples of a series; their squares must still be uncorrelated.
    squares = within**2 - 1
    assert abs((squares[:, lag:] * squares[:, :-lag]).mean()) < 3 * tolerance


def test_labels_are_balanced_shuffled_and_reproducible():
    y = GaussianSeries(1001, classes=3, seed=5).y
    assert y.dtype == np.int64
    assert sorted(np.bincount(y)) == [333, 334, 334]
    assert (np.diff(y) != 0).mean() == pytest.approx(2 / 3, abs=0.06)
    np.testing.assert_array_equal(y, GaussianSeries(1001, classes=3, seed=5).y)
    assert (y != GaussianSeries(1001, classes=3, seed=6).y).any()


@pytest.mark.parametrize(("length", "channels"), [(50, 128), (3, 5), (1, 2)])
def test_lazy_series_equal_the_array_for_any_index(length, channels):
    arguments = {"n": 40, "offset": 1.0, "channels": channels, "length": length, "seed": 11}
    lazy = GaussianSeries(**arguments)
    X, y, scores = gaussian(**arguments)
    permutation = np.random.default_rng(0).permutation(40)
    assert lazy.shape == X.shape
    assert (len(lazy), lazy.ndim, lazy.dtype) == (40, 3, X.dtype)
    np.testing.assert_array_equal(lazy[permutation], X[permutation])
    np.testing.assert_array_equal(lazy[17], X[17])
    np.testing.assert_array_equal(lazy[-1], X[-1])
    np.testing.assert_array_equal(lazy[30:4:-3], X[30:4:-3])
    np.testing.assert_array_equal(lazy[y == 1], X[y == 1])
    np.testing.assert_array_equal(lazy[[5, -3, 5]], X[[5, -3, 5]])
    np.testing.assert_array_equal(np.asarray(lazy), X)
    assert np.asarray(lazy, dtype=np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.stack(list(lazy)), X)
    np.testing.assert_array_equal(lazy.y, y)
    np.testing.assert_array_equal(lazy.scores(), scores)
    np.testing.assert_array_equal(lazy.scores(permutation), scores[permutation])
    np.testing.assert_array_equal(lazy.scores(3), scores[[3]])
    assert lazy[[]].shape == (0, length, channels)
    assert lazy[:0].shape == (0, length, channels)


def test_scores_are_correct_for_more_than_one_block():
    lazy = GaussianSeries(600, channels=2, length=2, seed=1)
    np.testing.assert_array_equal(lazy.scores(), 2.0 * lazy[:].astype(float).cumsum(axis=1))


def test_another_seed_gives_independent_noise():
    first, second = (GaussianSeries(4, offset=0.0, seed=seed)[:] for seed in (0, 1))
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.05


def test_changing_the_returned_labels_does_not_change_the_series():
    lazy = GaussianSeries(4, channels=2, length=2)
    before = lazy[:]
    lazy.y[:] = 1 - lazy.y
    np.testing.assert_array_equal(lazy[:], before)


def test_pickle_is_small_and_restores_the_same_series():
    lazy = GaussianSeries(1_000_000, classes=3, offset=0.5, seed=9)
    data = pickle.dumps(lazy)
    assert len(data) < 300
    copy = pickle.loads(data)
    np.testing.assert_array_equal(copy[[0, 777_777]], lazy[[0, 777_777]])
    np.testing.assert_array_equal(copy.y, lazy.y)


@pytest.mark.parametrize(("offset", "expected"), [(2.0, 102.0), (1.0, 25.5)])
def test_mean_absolute_llr_equals_its_closed_form(offset, expected):
    _, _, scores = gaussian(n=2000, offset=offset, channels=2, seed=0)
    assert np.abs(scores[..., 1] - scores[..., 0]).mean() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("step", [1, 3, 10])
def test_error_at_a_step_is_the_bayes_error(step):
    n = 20_000
    _, y, scores = gaussian(n=n, offset=1.0, channels=2, length=step, seed=4)
    bayes = norm.cdf(-np.sqrt(step / 2))
    error = (scores[:, -1].argmax(axis=1) != y).mean()
    assert error == pytest.approx(bayes, abs=4 * np.sqrt(bayes * (1 - bayes) / n))


def test_generating_a_series_is_fast():
    lazy = GaussianSeries(10_000)
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        lazy[:200]
        best = min(best, (time.perf_counter() - start) / 200)
    # About 50 microseconds on an idle core; the margin allows for a busy one.
    assert best < 300e-6


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n": 0}, ValueError, "`n` must be >= 1; got 0"),
        ({"n": 2.5}, TypeError, "`n` must be an integer; got 2.5"),
        ({"n": 5, "classes": 1}, ValueError, "`classes` must be >= 2; got 1"),
        (
            {"n": 5, "classes": 4, "channels": 3},
            ValueError,
            "`channels` must be >= classes.*Raise `channels` to 4",
        ),
        ({"n": 5, "length": 0}, ValueError, "`length` must be >= 1"),
        ({"n": 5, "offset": np.inf}, ValueError, "`offset` must be in"),
        ({"n": 5, "seed": -1}, ValueError, "`seed` must be >= 0"),
    ],
)
def test_invalid_arguments_raise(arguments, error, message):
    with pytest.raises(error, match=message):
        GaussianSeries(**arguments)
    with pytest.raises(error, match=message):
        gaussian(**arguments)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (10, "index 10 is out of bounds for 10 series"),
        (-11, "index -11 is out of bounds"),
        ([0, 99], "index 99 is out of bounds"),
        (np.ones(9, bool), "one entry per series, 10; got 9"),
        (1.0, "takes an integer, a slice"),
        (True, "takes an integer, a slice"),
        ((0, 1), "for the first axis only"),
        (np.zeros((2, 2), int), "a 1-d array"),
    ],
)
def test_invalid_indices_raise(key, message):
    lazy = GaussianSeries(10, channels=2, length=2)
    with pytest.raises(IndexError, match=message):
        lazy[key]
    with pytest.raises(IndexError, match=message):
        lazy.scores(key)


def test_conversion_to_an_array_without_copy_raises():
    with pytest.raises(ValueError, match="always copies"):
        GaussianSeries(2, channels=2, length=2).__array__(copy=False)
