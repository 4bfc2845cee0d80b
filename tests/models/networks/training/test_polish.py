"""Polishing finds the optimum of a convex problem: held against scikit-learn, plain sums and the truth."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import stopwise as sw
from stopwise.data.examples import Examples
from stopwise.data.series import Series
from stopwise.llr import lsel
from stopwise.models.networks import modules as nets
from stopwise.models.networks.training.config import Recipe
from stopwise.models.networks.training.polish import _Problem, polish, read_parameters, write_parameters


def examples(X, y, classes=2):
    return Examples(Series(X).batch, np.asarray(y), classes)


def made(model, order, classes=2, features=3, **params):
    torch.manual_seed(0)
    longest = order == 6
    return nets.build(
        model, features=features, classes=classes, order=order, longest=longest, **params
    ).eval()


@pytest.fixture(scope="module")
def world():
    X, y, _ = sw.datasets.gaussian(90, classes=3, offset=1.0, dim=3, length=7, seed=0)
    return X, y


NETWORKS = [
    ("accumulator", 1, {"hidden": 4}),
    ("accumulator", 6, {"hidden": 4}),
    ("accumulator", 0, {"hidden": 4, "skip": False}),
    ("b2bsqrt", 2, {"hidden": 4}),
    ("lstm", 6, {"hidden": 4, "layer_norm": True}),
    ("b2bsqrt", 0, {"hidden": 4, "formula": "oblivion"}),
    ("tandemformer", 2, {}),
    ("tandemformer", 6, {"pooling": "one-token"}),
]


def every_sample_once(multiplets, y, lengths):
    """The multiplet loss of windows one after the other, a series and a window at a time."""
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
@pytest.mark.parametrize(("model", "order", "params"), NETWORKS)
def test_the_problem_has_the_networks_own_loss_and_gradient(world, model, order, params, ratio):
    X, y = world
    lengths = np.random.default_rng(0).integers(1, 8, len(X))
    data = Examples(Series(X, lengths=lengths).batch, y, 3)
    net = made(model, order, classes=3, **params)
    loss, gradient = _Problem(net, Recipe(llre_ratio=ratio, batch_size=32)).loss(
        read_parameters(net.readout), data
    )
    x, _ = data.read(np.arange(len(y)))
    told = torch.from_numpy(y), torch.from_numpy(lengths)
    evidence = net(torch.from_numpy(x), multiplets=True)
    plain = ratio * lsel(evidence.scores, *told) + (1 - ratio) * every_sample_once(evidence.multiplets, *told)
    weight, bias = torch.autograd.grad(plain, [net.readout.weight, net.readout.bias])
    assert loss == pytest.approx(plain.item(), rel=1e-4)
    expected = torch.cat([weight.t(), bias[None]]).numpy()
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_single_samples_give_scikit_learns_logistic_regression():
    X, y, _ = sw.datasets.gaussian(400, offset=1.0, dim=3, length=5, seed=0)
    net = made("accumulator", 0, hidden=1)
    with torch.no_grad():  # a body that says nothing leaves the linear skip alone
        net.body.lags.zero_()
        net.body.bias.zero_()
    polish(net, examples(X, y), None, Recipe(llre_ratio=0.0))
    reference = LogisticRegression(C=np.inf, tol=1e-10).fit(X.reshape(-1, 3), np.repeat(y, 5))
    ours = read_parameters(net.readout)
    difference = ours[:, 1] - ours[:, 0]
    np.testing.assert_allclose(difference[1:4], reference.coef_[0], rtol=2e-3, atol=1e-3)
    assert difference[4] == pytest.approx(reference.intercept_[0], abs=2e-3)


@pytest.mark.parametrize(("model", "order", "params"), NETWORKS)
def test_polishing_never_makes_the_validation_loss_worse(world, model, order, params):
    X, y = world
    net = made(model, order, classes=3, **params)
    told = polish(net, examples(X[:60], y[:60], 3), examples(X[60:], y[60:], 3), Recipe())
    assert told["validation_loss"] <= told["validation_loss_before"]
    problem = _Problem(net, Recipe())
    loss = problem.loss(read_parameters(net.readout), examples(X[60:], y[60:], 3))[0]
    assert loss == pytest.approx(told["validation_loss"], rel=1e-4)


@pytest.mark.parametrize("kept", [0, 2, 4])
def test_what_does_not_fit_into_memory_is_computed_again(world, kept, monkeypatch):
    X, y = world
    data, net = examples(X, y, 3), made("accumulator", 1, 3)
    recipe = Recipe(llre_ratio=0.5, batch_size=-(-len(y) // 4))  # four batches, the last no larger
    net.eval()
    start = read_parameters(net.readout)
    expected = _Problem(net, recipe).loss(start, data)
    sizes = [batch.bytes for batch in _Problem(net, recipe)._computed(data, 0)]
    monkeypatch.setattr(f"{_Problem.__module__}.room", lambda: sum(sizes[:kept]) + min(sizes) // 2)
    calls = []
    net.register_forward_hook(lambda *_: calls.append(1))
    problem = _Problem(net, recipe)
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


def test_large_evidence_gets_its_scale():
    X, y, _ = sw.datasets.gaussian(3000, offset=2.0, dim=8, length=30, seed=0)
    X_new, _, truth = sw.datasets.gaussian(300, offset=2.0, dim=8, length=30, seed=1)
    settings = {
        "order": None,
        "llre_ratio": 1.0,
        "max_epochs": 2,
        "model_params": {"body": "window", "window": 1, "hidden": 8},
    }
    rough = sw.EarlyClassifier(**settings, polish=False).fit(X, y)
    fine = sw.EarlyClassifier(**settings, polish=True).fit(X, y)
    before, after = (sw.metrics.llr_error(clf.scores(X_new), truth) for clf in (rough, fine))
    assert before.slope < 0.6
    assert 0.9 < after.slope < 1.1
    assert after.mean_abs < before.mean_abs / 5


def test_a_polished_model_is_saved_with_what_was_done(tmp_path):
    X, y, _ = sw.datasets.gaussian(60, dim=2, length=4, seed=0)
    clf = sw.EarlyClassifier(order=0, max_epochs=1, polish=True).fit(X, y)
    clf.save(tmp_path / "model")
    loaded = sw.load(tmp_path / "model")
    assert loaded.polish_ == clf.polish_
    np.testing.assert_array_equal(loaded.scores(X), clf.scores(X))


def test_a_network_without_a_last_layer_is_told():
    class Bare(nets.Integrator):
        def evidence(self, x, multiplets):
            return nets.Evidence(x[..., :2].cumsum(1) * self.one, None)

        def __init__(self, features, classes, order):
            super().__init__(features, classes, order)
            self.one = torch.nn.Parameter(torch.ones(1))

    X, y, _ = sw.datasets.gaussian(20, dim=2, length=4, seed=0)
    with pytest.raises(TypeError, match="Bare names no `readout`"):
        sw.EarlyClassifier(Bare, order=1, llre_ratio=1.0, max_epochs=1).fit(X, y)
