import numpy as np
import pytest
from scipy.stats import multivariate_normal

from stopwise.datasets import autoregressive, transition_matrices


@pytest.mark.parametrize("order", [1, 3])
def test_scores_equal_log_densities_up_to_a_constant(order):
    X, _, scores = autoregressive(
        n=4, classes=3, channels=3, length=7, radius=0.8, order=order, seed=2, world=5
    )
    matrices = transition_matrices(3, 3, 0.8, 5)
    start = multivariate_normal(cov=np.eye(3) / (1 - 0.8**2))
    for i, series in enumerate(X.astype(float)):
        for k, matrix in enumerate(matrices):
            increments = [start.logpdf(x) for x in series[:order]]
            increments += [
                multivariate_normal(matrix @ series[t - order]).logpdf(series[t]) for t in range(order, 7)
            ]
            constant = np.concatenate([increments[:order], np.full(7 - order, -1.5 * np.log(2 * np.pi))])
            np.testing.assert_allclose(scores[i, :, k], np.cumsum(increments - constant), atol=1e-9)


def test_matrices_are_scaled_orthogonal_and_depend_on_the_world():
    matrices = transition_matrices(classes=3, channels=5, radius=0.7, world=1)
    for matrix in matrices:
        np.testing.assert_allclose(matrix @ matrix.T, 0.49 * np.eye(5), atol=1e-12)
    np.testing.assert_array_equal(matrices, transition_matrices(3, 5, 0.7, 1))
    np.testing.assert_array_equal(matrices[:2], transition_matrices(2, 5, 0.7, 1))
    assert np.abs(matrices - transition_matrices(3, 5, 0.7, 2)).max() > 0.1
    assert np.abs(matrices[0] - matrices[1]).max() > 0.1


def test_matrices_are_uniform_on_the_orthogonal_group():
    first = np.array([transition_matrices(2, 3, 0.5, world)[0] / 0.5 for world in range(800)])
    # Entries of a uniform orthogonal matrix have mean 0 and variance 1 / D. Without the sign correction
    # the mean of the diagonal would not be 0.
    np.testing.assert_allclose(first.mean(axis=0), 0, atol=5 * np.sqrt(1 / 3 / 800))
    np.testing.assert_allclose((first**2).mean(axis=0), 1 / 3, atol=0.06)


@pytest.mark.parametrize("order", [1, 2])
def test_all_classes_have_the_stationary_distribution_at_every_step(order):
    X, y, _ = autoregressive(n=20_000, channels=3, length=6, radius=0.6, order=order, seed=0)
    for k in range(2):
        own = X[y == k].astype(float)
        for t in range(6):
            np.testing.assert_allclose(np.cov(own[:, t].T), np.eye(3) / 0.64, atol=0.1)
            np.testing.assert_allclose(own[:, t].mean(axis=0), 0, atol=0.07)


@pytest.mark.parametrize("order", [1, 2])
def test_only_samples_at_the_lag_are_correlated(order):
    X, y, _ = autoregressive(n=20_000, channels=3, length=5, radius=0.6, order=order, seed=1)
    matrices = transition_matrices(2, 3, 0.6)
    for k in range(2):
        own = X[y == k].astype(float)
        at_lag = np.einsum("ni,nj->ij", own[:, order], own[:, 0]) / len(own)
        np.testing.assert_allclose(at_lag, matrices[k] / 0.64, atol=0.1)
        if order == 2:
            before = np.einsum("ni,nj->ij", own[:, 1], own[:, 0]) / len(own)
            np.testing.assert_allclose(before, 0, atol=0.1)


def test_mean_llr_increment_equals_its_closed_form():
    _, y, scores = autoregressive(n=4000, channels=4, length=10, radius=0.6, seed=3)
    matrices = transition_matrices(2, 4, 0.6)
    gain = np.diff(scores, axis=1)  # (n, T-1, K)
    own = np.take_along_axis(gain, y[:, None, None], axis=2)
    other = np.take_along_axis(gain, 1 - y[:, None, None], axis=2)
    # E[increment of the LLR] = 1/2 E|(A_k - A_l) x|^2 = |A_k - A_l|_F^2 / 2 (1 - radius^2).
    expected = np.sum((matrices[0] - matrices[1]) ** 2) / 2 / 0.64
    assert (own - other).mean() == pytest.approx(expected, rel=0.03)
    assert own.mean() == pytest.approx(-4 / 2, rel=0.03)


def test_shapes_dtypes_label_counts_and_seed():
    X, y, scores = autoregressive(n=11, classes=3, channels=2, length=4, order=3, seed=7)
    assert (X.dtype, y.dtype, scores.dtype) == (np.float32, np.int64, np.float64)
    assert (X.shape, scores.shape) == ((11, 4, 2), (11, 4, 3))
    assert sorted(np.bincount(y)) == [3, 4, 4]
    assert not scores[:, :3].any()
    assert scores[:, 3].all()
    again = autoregressive(n=11, classes=3, channels=2, length=4, order=3, seed=7)
    np.testing.assert_array_equal(X, again[0])
    other = autoregressive(n=11, classes=3, channels=2, length=4, order=3, seed=8)
    assert np.abs(X - other[0]).max() > 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "`n` must be >= 1"),
        ({"n": 5, "classes": 1}, "`classes` must be >= 2"),
        ({"n": 5, "channels": 1}, "`channels` must be >= 2"),
        ({"n": 5, "radius": 1.0}, r"`radius` must be in \[0, 1\); got 1"),
        ({"n": 5, "radius": -0.1}, r"`radius` must be in \[0, 1\)"),
        ({"n": 5, "order": 0}, "`order` must be >= 1"),
        ({"n": 5, "order": 6, "length": 6}, r"`order` must be in \[1, length - 1\].*order=6 for length=6"),
        ({"n": 5, "seed": -1}, "`seed` must be >= 0"),
        ({"n": 5, "world": -1}, "`world` must be >= 0"),
    ],
)
def test_invalid_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        autoregressive(**arguments)
