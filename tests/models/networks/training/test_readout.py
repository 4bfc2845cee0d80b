"""Tests of the loss of a network as a function of its last layer, against plain sums."""

import numpy as np
import pytest
import torch
from small_worlds import examples, gaussian, task

from stopwise.llr import lsel
from stopwise.models.networks.modules import AccumulatorModule, LSTMModule, TandemformerModule
from stopwise.models.networks.training import readout
from stopwise.models.networks.training.readout import ReadoutProblem, read_parameters, write_parameters


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
    problem = ReadoutProblem(net, task(data, llre_ratio=ratio, batch_size=32))
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


@pytest.mark.parametrize("kept", [0, 2, 4])
def test_features_beyond_memory_budget_are_computed_again(world, kept, monkeypatch):
    X, y = world
    data, net = examples(X, y), made(AccumulatorModule, 1, 3)
    four = task(data, llre_ratio=0.5, batch_size=-(-len(y) // 4))  # four batches
    start = read_parameters(net.readout)
    expected = ReadoutProblem(net, four).loss(start, data)
    sizes = [batch.bytes for batch in ReadoutProblem(net, four)._computed(data, 0)]
    monkeypatch.setattr(f"{readout.__name__}.memory_budget", lambda: sum(sizes[:kept]) + min(sizes) // 2)
    calls = []
    net.register_forward_hook(lambda *_: calls.append(1))
    problem = ReadoutProblem(net, four)
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


@pytest.mark.parametrize(("kind", "order", "params"), NETWORKS)
def test_value_is_loss_without_gradient(world, kind, order, params):
    data, net = examples(*world), made(kind, order, classes=3, **params)
    problem = ReadoutProblem(net, task(data, llre_ratio=0.5))
    start = read_parameters(net.readout)
    assert problem.value(start, data) == pytest.approx(problem.loss(start, data)[0], rel=1e-6)


def test_last_rows_alone_equal_zeros_in_the_others(world):
    data, net = examples(*world), made(AccumulatorModule, 1, classes=3, hidden=4)
    problem = ReadoutProblem(net, task(data, llre_ratio=0.5))
    start = read_parameters(net.readout)
    zeroed = start.copy()
    zeroed[:4] = 0
    loss, gradient = problem.loss(start[4:], data)
    expected_loss, expected = problem.loss(zeroed, data)
    assert loss == pytest.approx(expected_loss, rel=1e-6)
    np.testing.assert_allclose(gradient, expected[4:], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("kind", "order", "params", "summed"),
    [
        (AccumulatorModule, 0, {"hidden": 4}, True),
        (AccumulatorModule, 1, {"hidden": 4}, False),
        (LSTMModule, 0, {"hidden": 4}, True),
        (LSTMModule, 0, {"hidden": 4, "formula": "oblivion"}, False),
    ],
)
def test_sums_are_not_kept_at_order_zero(world, kind, order, params, summed):
    data, net = examples(*world), made(kind, order, classes=3, **params)
    problem = ReadoutProblem(net, task(data, llre_ratio=0.5))
    assert {batch.summed for batch in problem._computed(data, 0)} == {summed}
    assert {batch.series is None for batch in problem._computed(data, 0)} == {summed}


@pytest.mark.parametrize("order", [0, 1])
def test_curvature_is_that_of_the_gradient_for_two_classes(order):
    """With two classes, the curvature along (v, −v) is exact."""
    X, y, _ = gaussian(60)
    data, net = examples(X, y), made(AccumulatorModule, order, hidden=3)
    problem = ReadoutProblem(net, task(data, llre_ratio=0.5))
    start = read_parameters(net.readout)
    curvature = problem.curvature(start, data)
    v = np.random.default_rng(0).normal(size=len(start))
    move = 1e-2 * np.stack([v, -v], axis=1)
    change = problem.loss(start + move, data)[1] - problem.loss(start - move, data)[1]
    np.testing.assert_allclose(
        change[:, 0] / 2e-2, curvature @ v, rtol=2e-2, atol=2e-2 * np.abs(change).max() / 2e-2
    )
