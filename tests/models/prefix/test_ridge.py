import numpy as np
import pytest

from stopwise.models.prefix.calibration import fit_matrix, fit_scale, left_out_logits, log_loss
from stopwise.models.prefix.folds import make_folds
from stopwise.models.prefix.ridge import PENALTIES, DualRidge, PrimalRidge, centered


def problem(n=40, features=60, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    phi = rng.standard_normal((n, features)) + 0.5 * np.eye(classes, features)[y] + 3.0
    return phi, np.eye(classes)[y], [np.arange(n)[i::5] for i in range(5)]


def refitted(phi, targets, penalty, train, rows):
    """Ridge with a free intercept, solved as one linear system."""
    own = np.column_stack([phi[train], np.ones(len(train))])
    size = np.append(np.full(phi.shape[1], penalty), 0.0)
    weights = np.linalg.solve(own.T @ own + np.diag(size), own.T @ targets[train])
    return np.column_stack([phi[rows], np.ones(len(rows))]) @ weights


@pytest.mark.parametrize("penalty", [1e-3, 1.0, 30.0])
def test_left_out_predictions_equal_refitting_without_the_fold(penalty):
    phi, targets, folds = problem()
    found = DualRidge(centered(phi @ phi.T), targets).left_out(penalty, folds)
    for rows in folds:
        train = np.setdiff1d(np.arange(len(phi)), rows)
        assert np.abs(found[rows] - refitted(phi, targets, penalty, train, rows)).max() < 1e-8


def test_leaving_one_out_does_not_leak_through_the_centering():
    # With more features than series and hardly any penalty, labels that are noise must not be predicted.
    rng = np.random.default_rng(0)
    phi, y = rng.standard_normal((60, 300)), rng.integers(2, size=60)
    found = DualRidge(centered(phi @ phi.T), np.eye(2)[y]).left_out(1e-3, [np.array([i]) for i in range(60)])
    assert (found.argmax(1) == y).mean() < 0.7


@pytest.mark.parametrize("penalty", [0.01, 1.0])
def test_primal_and_dual_ridge_agree(penalty):
    phi, targets, folds = problem(features=10)
    dual = DualRidge(centered(phi @ phi.T), targets)
    primal = PrimalRidge(phi, targets, folds)
    assert np.allclose(primal.left_out(penalty), dual.left_out(penalty, folds), atol=1e-6)
    weights = primal.solve(penalty)
    assert np.allclose(
        phi @ weights[:-1] + weights[-1], refitted(phi, targets, penalty, *[np.arange(40)] * 2), atol=1e-6
    )
    # Dual coefficients sum to zero, so the kernel need not be centered for predictions.
    coefficients = dual.coefficients(penalty)
    assert np.abs(coefficients.sum(axis=0)).max() < 1e-9


def test_penalties_cover_five_decades():
    assert PENALTIES[0] == pytest.approx(10**-3.5)
    assert PENALTIES[-1] == pytest.approx(10**1.5)


def test_the_scale_is_the_best_on_a_grid():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    outputs = np.eye(3)[y] + rng.standard_normal((200, 3))
    scales = np.exp(np.linspace(-4, 3, 500))
    best = scales[np.argmin([log_loss(s * outputs, y) for s in scales])]
    assert fit_scale(outputs, y) == pytest.approx(best, rel=0.02)


def test_the_scale_of_perfect_outputs_is_bounded():
    y = np.arange(20) % 2
    assert np.isfinite(fit_scale(np.eye(2)[y], y))


def test_the_matrix_corrects_a_known_distortion():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((4000, 2)) * 2
    logits = z @ np.array([[1.0, 0.0], [0.5, 2.0]]) + [0.5, 0.0]
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(4000) < p[:, 1]).astype(int)
    matrix, bias = fit_matrix(z, y, penalty=1e-3)
    assert log_loss(z @ matrix + bias, y) <= log_loss(logits, y) + 1e-3


def test_a_large_matrix_penalty_leaves_the_outputs_unchanged():
    phi, targets, folds = problem()
    z, y = phi[:, :3], targets.argmax(1)
    assert np.allclose(left_out_logits(z, y, 1e9, folds), z, atol=1e-4)


def test_folds_are_contiguous_within_classes():
    y = np.repeat([0, 1], 50)
    fold = make_folds(y, None)
    for k in range(2):
        assert (np.diff(fold[y == k]) >= 0).all()
        assert np.bincount(fold[y == k]).tolist() == [10] * 5


def test_folds_never_split_a_group():
    rng = np.random.default_rng(0)
    groups, y = rng.integers(12, size=200), rng.integers(3, size=200)
    fold = make_folds(y, groups)
    assert all(len(set(fold[groups == group])) == 1 for group in range(12))
    assert np.bincount(fold, minlength=5).min() > 20


def test_rare_classes_are_spread_over_the_folds():
    y = np.repeat(np.arange(20), 2)
    assert np.bincount(make_folds(y, None), minlength=5).min() >= 4
