"""Tests of convex fits against numerical derivatives, scipy and scikit-learn."""

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime, minimize
from sklearn.linear_model import LogisticRegression

from stopwise.models.networks.training.convex import Remembered, Rows, fit_ridge, solvable


def rows(n=300, features=5, classes=3, seed=0, offset=False, scale=1.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, features)) * scale
    y = (x / scale @ rng.normal(size=(features, classes)) + rng.gumbel(size=(n, classes))).argmax(1)
    given = torch.from_numpy(rng.normal(size=(n, classes))).float() if offset else None
    weight = torch.from_numpy(rng.uniform(0.5, 1.5, n) / n).float()
    return Rows(torch.from_numpy(x).float(), torch.from_numpy(y), weight, classes, given)


@pytest.mark.parametrize("offset", [False, True])
def test_loss_and_gradient_equal_plain_sums(offset):
    problem = rows(offset=offset)
    w = np.random.default_rng(1).normal(size=(5, 3))
    x, y, weight = (one.double().numpy() for one in (problem.features, problem.y, problem.weight))
    given = problem.offset.double().numpy() if offset else 0.0

    def plain(flat):
        logits = x @ flat.reshape(5, 3) + given
        logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        return -(weight * logs[np.arange(len(y)), y.astype(int)]).sum()

    loss, gradient = problem.loss(w)
    assert loss == pytest.approx(plain(w.ravel()), rel=1e-5)
    np.testing.assert_allclose(gradient.ravel(), approx_fprime(w.ravel(), plain, 1e-6), atol=1e-4)
    assert float((problem.weight * problem.losses(w)).sum()) == pytest.approx(loss, rel=1e-5)


def test_curvature_equals_change_of_gradient_for_two_classes():
    problem = rows(classes=2)
    w, v = np.random.default_rng(1).normal(size=(2, 5))
    start, move = np.stack([w, -w], axis=1), 1e-2 * np.stack([v, -v], axis=1)
    change = (problem.loss(start + move)[1] - problem.loss(start - move)[1]) / 2e-2
    np.testing.assert_allclose(problem.curvature(start) @ v, change[:, 0], rtol=1e-2, atol=1e-3)


def test_curvature_of_some_rows_approximates_that_of_all():
    problem = rows(n=20_000)
    w = np.zeros((5, 3))
    full, part = problem.curvature(w), problem.curvature(w, stride=4)
    assert np.abs(full - part).max() < 0.05 * np.abs(full).max()


def fit(problem, ridge, start=None, passes=200, tolerance=1e-10):
    start = np.zeros((problem.features.shape[1], problem.classes)) if start is None else start
    penalties = np.full(len(start), ridge)
    return fit_ridge(
        problem.loss, start, problem.curvature(start), penalties, passes=passes, tolerance=tolerance
    )


@pytest.mark.parametrize("ridge", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e4])
def test_optimum_is_that_of_scipy(ridge, scale):
    problem = rows(scale=scale)
    ridge *= scale**2

    def objective(flat):
        w = flat.reshape(5, 3) / scale
        loss, gradient = problem.loss(w)
        return loss + ridge / 2 * (w**2).sum(), (gradient + ridge * w).ravel() / scale

    expected = minimize(objective, np.zeros(15), jac=True, method="BFGS").fun
    ours = fit(problem, ridge)
    assert objective(scale * ours.ravel())[0] == pytest.approx(expected, rel=1e-5)


def test_optimum_is_that_of_logistic_regression():
    problem = rows(classes=2, n=1000)
    ours = fit(problem, 1e-3)
    reference = LogisticRegression(C=2 / 1e-3, tol=1e-10, fit_intercept=False)
    reference.fit(problem.features.numpy(), problem.y.numpy(), sample_weight=problem.weight.numpy())
    np.testing.assert_allclose(ours[:, 1] - ours[:, 0], reference.coef_[0], rtol=1e-2, atol=1e-3)


def test_number_of_passes_is_limited():
    problem, calls = rows(), []
    start = np.zeros((5, 3))

    def loss(w):
        calls.append(1)
        return problem.loss(w)

    fit_ridge(loss, start, problem.curvature(start), np.zeros(5), passes=4, tolerance=0.0)
    assert len(calls) <= 4


def test_few_passes_reach_the_optimum():
    problem = rows(n=2000)
    few, many = fit(problem, 1e-4, passes=8), fit(problem, 1e-4, passes=200)
    assert problem.loss(few)[0] == pytest.approx(problem.loss(many)[0], rel=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_curvature_that_is_not_finite_returns_start(bad):
    start = np.ones((5, 3))
    found = fit_ridge(rows().loss, start, np.full((5, 5), bad), np.zeros(5), passes=9, tolerance=1e-9)
    np.testing.assert_array_equal(found, start)


def test_indefinite_curvature_still_decreases_the_loss():
    problem, start = rows(), np.zeros((5, 3))
    curvature = problem.curvature(start) - 0.05 * np.eye(5)
    found = fit_ridge(problem.loss, start, curvature, np.zeros(5), passes=50, tolerance=1e-9)
    assert problem.loss(found)[0] < problem.loss(start)[0]


def test_directions_without_curvature_become_solvable():
    np.linalg.cholesky(solvable(np.outer([1.0, 2.0], [1.0, 2.0])))


def test_remembered_loss_is_not_computed_again():
    calls = []
    loss = Remembered(lambda w: calls.append(1) or (float(w.sum()), w))
    one, two = np.ones((1, 1)), np.zeros((1, 1))
    assert [loss(w)[0] for w in (one, one.copy(), two, one)] == [1, 1, 0, 1]
    assert len(calls) == 3
