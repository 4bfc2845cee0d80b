"""Tests of polishing against scikit-learn, plain sums and true log-likelihood ratios."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from small_worlds import examples, gaussian, task

import stopwise as sw
from stopwise.llr import lsel
from stopwise.metrics import llr_error
from stopwise.models import Accumulator, Training
from stopwise.models.networks.modules import AccumulatorModule, LSTMModule, TandemformerModule
from stopwise.models.networks.training.polish import _Problem, polish, read_parameters, write_parameters


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


def every_sample_once(multiplets, y, lengths):
    """Compute the multiplet loss of windows that do not overlap, one series and one window at a time."""
    samples = multiplets.shape[2]
    total = 0.0
    for k in range(3):
        losses = []
        for logits, length in zip(multiplets[y == k], lengths[y == k]):
            starts = [w for w in range(0, len(logits), samples) if w <= max(length - samples, 0)]
            rows = torch.cat([logits[w, : length - w] for w in starts])
            losses.append(-torch.log_softmax(rows, dim=1)[:, k].mean())
        total = total + torch.stack(losses).mean() / 3
    return total


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("kind", "order", "params"), NETWORKS)
def test_problem_loss_and_gradient_equal_those_of_network(world, kind, order, params, ratio):
    X, y = world
    lengths = np.random.default_rng(0).integers(1, 8, len(X))
    data = examples(X, y, lengths=lengths)
    net = made(kind, order, classes=3, **params)
    problem = _Problem(net, task(data, llre_ratio=ratio, batch_size=32))
    loss, gradient = problem.loss(read_parameters(net.readout), data)
    x, _ = data.read(np.arange(len(y)))
    known = torch.from_numpy(y), torch.from_numpy(lengths)
    evidence = net(torch.from_numpy(x), multiplets=True)
    plain = ratio * lsel(evidence.scores, *known)
    plain = plain + (1 - ratio) * every_sample_once(evidence.multiplets, *known)
    weight, bias = torch.autograd.grad(plain, [net.readout.weight, net.readout.bias])
    assert loss == pytest.approx(plain.item(), rel=1e-4)
    expected = torch.cat([weight.t(), bias[None]]).numpy()
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


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
    loss = _Problem(net, both).loss(read_parameters(net.readout), both.validation_set)[0]
    assert loss == pytest.approx(report["validation_loss"], rel=1e-4)


def test_ridge_is_fixed_without_validation_set(world):
    net = made(AccumulatorModule, 1, classes=3, hidden=4)
    assert polish(net, task(examples(*world)), ridges=(1e-1, 1e-2, 1e-3)) == {"ridge": 1e-2}


@pytest.mark.parametrize("kept", [0, 2, 4])
def test_features_beyond_memory_budget_are_computed_again(world, kept, monkeypatch):
    X, y = world
    data, net = examples(X, y), made(AccumulatorModule, 1, 3)
    four = task(data, llre_ratio=0.5, batch_size=-(-len(y) // 4))  # four batches
    start = read_parameters(net.readout)
    expected = _Problem(net, four).loss(start, data)
    sizes = [batch.bytes for batch in _Problem(net, four)._computed(data, 0)]
    monkeypatch.setattr(f"{_Problem.__module__}.memory_budget", lambda: sum(sizes[:kept]) + min(sizes) // 2)
    calls = []
    net.register_forward_hook(lambda *_: calls.append(1))
    problem = _Problem(net, four)
    for _ in range(3):
        loss, gradient = problem.loss(start, data)
        assert loss == expected[0]
        np.testing.assert_array_equal(gradient, expected[1])
    assert len(calls) == 4 + 2 * (4 - kept)


def test_parameters_round_trip():
    layer = torch.nn.Linear(4, 3)
    kept = {name: value.clone() for name, value in layer.state_dict().items()}
    write_parameters(layer, read_parameters(layer))
    assert all(torch.equal(kept[name], value) for name, value in layer.state_dict().items())


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
