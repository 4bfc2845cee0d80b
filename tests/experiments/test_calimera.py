"""CALIMERA: closed forms compared with refitting, and the whole classifier on a world with known answers."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from stopwise.datasets import gaussian
from stopwise.experiments import calimera
from stopwise.experiments.calimera import Calimera, RidgeClassifier, prefix_lengths, sigmoid_calibration


@pytest.mark.parametrize("features", [6, 60])
@pytest.mark.parametrize("classes", [2, 3])
def test_left_out_scores_equal_refitting_without_the_series(features, classes):
    rng = np.random.default_rng(0)
    y = np.arange(30) % classes
    F = rng.normal(size=(30, features)) + 0.5 * y[:, None] + 3
    fitted = RidgeClassifier.fit(F, y, classes)
    norm = np.linalg.norm(F, axis=0)
    targets = np.where(np.arange(classes) == y[:, None], 1.0, -1.0)[:, int(classes == 2) :]
    ridge = Ridge(alpha=fitted.ridge)
    for i in (0, 7, 29):
        rest = np.delete(np.arange(30), i)
        expected = ridge.fit(F[rest] / norm, targets[rest]).predict(F[[i]] / norm).reshape(-1)
        np.testing.assert_allclose(fitted.left_out[i], expected, atol=1e-8)
    whole = ridge.fit(F / norm, targets).predict(F / norm).reshape(30, -1)
    np.testing.assert_allclose(fitted.scores(F), whole, atol=1e-8)


def test_ridge_has_the_highest_left_out_accuracy(monkeypatch):
    rng = np.random.default_rng(1)
    y = np.arange(40) % 3
    F = rng.normal(size=(40, 50)) + 0.4 * y[:, None]
    best = RidgeClassifier.fit(F, y, 3)
    accuracies = []
    for ridge in calimera.RIDGES.copy():
        monkeypatch.setattr(calimera, "RIDGES", [ridge])
        accuracies.append((RidgeClassifier.fit(F, y, 3).left_out.argmax(1) == y).mean())
    assert len(set(accuracies)) > 1
    assert (best.left_out.argmax(1) == y).mean() == max(accuracies)


def test_sigmoid_calibration_is_the_minimum_of_platts_loss():
    rng = np.random.default_rng(0)
    positive = rng.random(50) < 0.3
    scores = rng.normal(size=50) + 2 * positive
    count = positive.sum()
    target = np.where(positive, (count + 1) / (count + 2), 1 / (50 - count + 2))

    def loss(beta):
        z = beta[0] * scores + beta[1]
        return (np.logaddexp(0, z) - target * z).sum()

    np.testing.assert_allclose(
        sigmoid_calibration(scores, positive), minimize(loss, [1.0, 0.0], tol=1e-10).x, atol=1e-4
    )


def test_halting_regression_equals_kernel_ridge():
    rng = np.random.default_rng(0)
    scores, change = rng.normal(size=(20, 3)), rng.normal(size=20)
    inputs = calimera.halting_inputs(scores)
    expected = KernelRidge(kernel="rbf").fit(inputs, change)
    new = rng.normal(size=(5, 3))
    found = calimera._Halting.fit(scores, change).predict(new)
    np.testing.assert_allclose(found, expected.predict(calimera.halting_inputs(new)), atol=1e-8)


def test_prefixes_are_equally_spaced_and_end_with_the_whole_series():
    assert prefix_lengths(200) == list(range(10, 201, 10))
    assert prefix_lengths(30)[-1] == 30
    assert len(prefix_lengths(30)) == 20
    assert prefix_lengths(1) == [1]


@pytest.fixture(scope="module")
def world():
    X, y, _ = gaussian(n=120, classes=3, offset=2.0, channels=3, length=12, seed=0)
    return X.astype(np.float32), y


def test_decisions_are_early_where_evidence_is_clear(world):
    X, y = world
    full = np.full(60, 12)
    model = Calimera().fit(X[:60], y[:60], full, 3)
    labels, times, p = model.decide(X[60:])
    assert (labels == y[60:]).mean() > 0.8
    assert times.min() < 6
    assert p.shape == (60, 12, 3)
    np.testing.assert_allclose(p.sum(axis=2), 1)
    # A delay that costs nothing is worth waiting for; one that costs much is not.
    patient = Calimera(delay=0.0).fit(X[:60], y[:60], full, 3).decide(X[60:])[1]
    impatient = Calimera(delay=50.0).fit(X[:60], y[:60], full, 3).decide(X[60:])[1]
    assert impatient.mean() == 1 < times.mean() < patient.mean()


def test_classes_without_training_series_are_not_predicted(world):
    X, y = world
    rows = y != 1
    model = Calimera().fit(X[rows], y[rows], np.full(rows.sum(), 12), 3)
    labels, _, p = model.decide(X)
    assert set(labels.tolist()) <= {0, 2}
    assert (p[..., 1] == 0).all()
