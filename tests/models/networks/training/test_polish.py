"""Tests of polishing against scikit-learn, scipy and true log-likelihood ratios."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from small_worlds import examples, gaussian, task

import stopwise as sw
from stopwise.metrics import llr_error
from stopwise.models import Accumulator, Training
from stopwise.models.networks.modules import AccumulatorModule, LSTMModule, TandemformerModule
from stopwise.models.networks.training import polish as polishing
from stopwise.models.networks.training.polish import RIDGES, polish
from stopwise.models.networks.training.readout import ReadoutProblem, read_parameters


def made(kind, order, classes=2, **params):
    torch.manual_seed(0)
    return kind(3, classes, order, **params).eval()


@pytest.fixture(scope="module")
def world():
    return gaussian(90, classes=3, steps=7)[:2]


NETWORKS = [
    (AccumulatorModule, 1, {"hidden": 4}),
    (AccumulatorModule, 6, {"hidden": 4}),
    (AccumulatorModule, None, {"hidden": 4}),
    (AccumulatorModule, 0, {"hidden": 4, "skip": False}),
    (LSTMModule, 2, {"hidden": 4}),
    (LSTMModule, 6, {"hidden": 4, "layer_norm": True, "activation": "tanh"}),
    (LSTMModule, 0, {"hidden": 4, "formula": "oblivion"}),
    (TandemformerModule, 2, {}),
    (TandemformerModule, 6, {"pooling": "one-token"}),
]


def test_polishing_single_samples_equals_logistic_regression():
    X, y, _ = gaussian(400, steps=5)
    net = made(AccumulatorModule, 0, hidden=1)
    with torch.no_grad():  # with a constant body, only the skip connection to the sample remains
        net.body.lags.zero_()
        net.body.bias.zero_()
    polish(net, task(examples(X, y), llre_ratio=0.0))
    reference = LogisticRegression(C=np.inf, tol=1e-10).fit(X.reshape(-1, 3), np.repeat(y, 5))
    ours = read_parameters(net.readout)
    difference = ours[:, 1] - ours[:, 0]
    np.testing.assert_allclose(difference[1:4], reference.coef_[0], rtol=2e-3, atol=1e-3)
    assert difference[4] == pytest.approx(reference.intercept_[0], abs=2e-3)


@pytest.mark.parametrize(("kind", "order", "params"), NETWORKS)
def test_polishing_never_increases_validation_loss(world, kind, order, params):
    X, y = world
    net = made(kind, order, classes=3, **params)
    both = task(examples(X[:60], y[:60]), examples(X[60:], y[60:]))
    report = polish(net, both)
    assert report["validation_loss"] <= report["validation_loss_before"]
    loss = ReadoutProblem(net, both).loss(read_parameters(net.readout), both.validation_set)[0]
    assert loss == pytest.approx(report["validation_loss"], rel=1e-4)


def test_ridge_is_fixed_without_validation_set(world):
    net = made(AccumulatorModule, 1, classes=3, hidden=4)
    assert polish(net, task(examples(*world)), ridges=(1e-1, 1e-2, 1e-3)) == {"ridge": 1e-2}


def test_polishing_corrects_scale_of_large_evidence():
    X, y, _ = gaussian(3000, offset=2.0, channels=8, steps=30)
    new, _, truth = gaussian(300, offset=2.0, channels=8, steps=30, seed=1)
    options = {"order": 0, "llre_ratio": 1.0, "hidden": 8, "training": Training(max_epochs=2)}
    errors = []
    for polished in (False, True):
        model = Accumulator(**options, polish=polished).fit(examples(X, y))
        errors.append(llr_error(model.scores(new.astype(np.float32)), truth))
        assert (model.report_["polish"] is None) == (not polished)
    before, after = errors
    assert before.slope < 0.6
    assert 0.9 < after.slope < 1.1
    assert after.mean_abs < before.mean_abs / 5


@pytest.mark.parametrize(("scale", "rate"), [(1e6, 1e-3), (1.0, 1e3)])
def test_a_saturated_layer_is_polished_from_zero(scale, rate):
    """Large samples or steps make all posteriors 0 or 1, and the curvature 0."""
    X, y, _ = sw.datasets.gaussian(n=300, channels=3, length=10, seed=0)
    training = Training(max_epochs=3, learning_rate=rate)
    clf = sw.EarlyClassifier(Accumulator(order=0, training=training), standardize=False, progress=False)
    clf.fit(scale * X, y)
    report = clf.model_.report_["polish"]
    assert report["validation_loss_before"] > 1e6
    assert report["validation_loss"] < 0.3
    assert (clf.predict(scale * X) == y).mean() > 0.95


def test_samples_that_overflow_raise():
    X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
    clf = sw.EarlyClassifier(Accumulator(order=0, training=Training(max_epochs=1)), standardize=False)
    with pytest.raises(FloatingPointError, match=r"too large for single precision.*standardize=True"):
        clf.fit(1e12 * X, y)


@pytest.mark.parametrize("compared", [10**9, 40])  # 40: penalties are compared on a part of the series
@pytest.mark.parametrize("order", [0, 1])
def test_polished_layer_is_the_optimum_of_its_ridge_penalty(order, compared, monkeypatch):
    monkeypatch.setattr(polishing, "COMPARED", compared)
    """An optimizer of scipy, run to convergence, finds the same minimum."""
    X, y, _ = gaussian(200, offset=0.7, classes=3)
    net = made(AccumulatorModule, order, classes=3, hidden=4)
    run = task(examples(X, y), examples(*gaussian(100, offset=0.7, classes=3, seed=1)[:2]), llre_ratio=0.5)
    report = polish(net, run)
    ridge, left_out = report["ridge"], 4 if report["inputs"] == "samples" else 0
    problem, ours = ReadoutProblem(net, run), read_parameters(net.readout)[left_out:]

    def objective(flat):
        parameters = flat.reshape(ours.shape)
        loss, gradient = problem.loss(parameters, run.train_set)
        free = np.ones((len(ours), 1))
        free[-1] = 0
        return (
            loss + ridge / 2 * (free * parameters**2).sum(),
            (gradient + ridge * free * parameters).ravel(),
        )

    best = minimize(objective, np.zeros(ours.size), jac=True, method="BFGS").fun
    assert objective(ours.ravel())[0] == pytest.approx(best, rel=1e-5)


def test_a_fit_to_all_series_is_tried_if_those_to_a_part_are_worse_than_the_trained_layer(monkeypatch):
    X, y, _ = gaussian(1200, steps=5)
    both = task(examples(X[:1000], y[:1000]), examples(X[1000:], y[1000:]))
    net = made(AccumulatorModule, 0, hidden=4)
    polish(net, both)
    with torch.no_grad():
        net.readout.weight.mul_(1.2)  # worse than a fit to all series, better than one to twelve
    monkeypatch.setattr(polishing, "COMPARED", 12)
    report = polish(net, both)
    assert report["inputs"] is not None
    assert report["validation_loss"] < report["validation_loss_before"]


def test_polishing_takes_few_passes(monkeypatch):
    X, y, _ = gaussian(300, offset=0.7, channels=8, steps=20)
    net = made_with(8)
    passes = []
    loss = ReadoutProblem.loss
    monkeypatch.setattr(ReadoutProblem, "loss", lambda *given: passes.append(1) or loss(*given))
    polish(net, task(examples(X[:200], y[:200]), examples(X[200:], y[200:]), llre_ratio=0.5))
    assert len(passes) <= 2 * 6 * len(RIDGES)


def made_with(channels):
    torch.manual_seed(0)
    return AccumulatorModule(channels, 2, 0, hidden=8).eval()


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_samples_of_extreme_scale_are_polished(factor):
    X, y, _ = gaussian(100, offset=1.0)
    net = made(AccumulatorModule, 0, hidden=4)
    report = polish(net, task(examples(factor * X[:60], y[:60]), examples(factor * X[60:], y[60:])))
    assert report["validation_loss"] <= report["validation_loss_before"]
    assert report["validation_loss"] < np.log(2)


@pytest.mark.parametrize("validated", [False, True])
def test_layer_of_diverged_training_is_polished(validated):
    X, y, _ = gaussian(100, offset=1.0)
    net = made(AccumulatorModule, 0, hidden=4)
    with torch.no_grad():
        net.readout.weight.mul_(1e6)
    data = examples(X, y)
    polish(net, task(data, data if validated else None))
    assert ReadoutProblem(net, task(data)).value(read_parameters(net.readout), data) < np.log(2)
