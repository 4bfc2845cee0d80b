"""Compare streaming steps with the networks on whole series."""

import numpy as np
import pytest
import torch

from stopwise.models.networks.modules import AccumulatorModule, LSTMModule, TandemformerModule
from stopwise.models.networks.steps import make_step

D, K, T = 3, 3, 9
NETWORKS = [
    (AccumulatorModule, 0, {}),
    (AccumulatorModule, 1, {}),
    (AccumulatorModule, 3, {"products": 0, "layer_norm": True}),
    (AccumulatorModule, 3, {"products": 4, "hidden": 4, "skip": False}),
    (AccumulatorModule, 8, {}),
    (AccumulatorModule, None, {}),
    (AccumulatorModule, None, {"activation": "b2bsqrt", "skip": False}),
    (AccumulatorModule, None, {"body": "filter"}),
    (AccumulatorModule, None, {"body": "filter", "states": 2, "skip": False, "layer_norm": True}),
    *(
        (kind, order, {"formula": formula} | params)
        for kind, params in (
            (LSTMModule, {"activation": "b2bsqrt"}),
            (LSTMModule, {"activation": "tanh"}),
            (LSTMModule, {"activation": "b2blog"}),
            (TandemformerModule, {}),
        )
        for order in (0, 1, 3, 8)
        for formula in ("tandem", "oblivion")
    ),
    (LSTMModule, 2, {"alpha": 0.3, "layer_norm": True, "hidden": 5}),
    (TandemformerModule, 3, {"pooling": "gap", "positions": "learned"}),
    (TandemformerModule, 3, {"pooling": "one-token", "positions": "sinusoidal"}),
    (TandemformerModule, 2, {"blocks": 2, "heads": 3, "head_size": 4, "layer_norm": True}),
    (TandemformerModule, 8, {"blocks": 2, "pooling": "one-token", "layer_norm": True}),
    (TandemformerModule, 2, {"width": 6, "positions": "learned"}),
    (TandemformerModule, 0, {"width": 2, "pooling": "one-token"}),
]


def made(kind, order, params):
    torch.manual_seed(0)
    net = kind(D, K, order, **params).eval()
    rng = np.random.default_rng(0)
    for name, parameter in net.named_parameters():
        if name.endswith("bias"):  # biases start at 0, which would hide errors
            parameter.data = torch.from_numpy(rng.normal(size=parameter.shape) * 0.3).float()
    return net


def series(n=4, steps=T + 6):
    return np.random.default_rng(1).normal(size=(n, steps, D)).astype(np.float32)


def close(ours, expected):
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])
@pytest.mark.parametrize(("kind", "order", "params"), NETWORKS)
def test_step_scores_equal_scores_of_whole_series(kind, order, params, xp):
    net, x = made(kind, order, params), series()
    with torch.no_grad():
        expected = net(torch.from_numpy(x)).scores.numpy()
    step = make_step(net, xp)
    state = step.start(len(x))
    for t in range(x.shape[1]):
        state = step(state, x[:, t] if xp is np else torch.from_numpy(x[:, t]))
        close(np.asarray(state["scores"]), expected[:, t])
    assert np.asarray(state["time"]).tolist() == [x.shape[1]] * len(x)


@pytest.mark.parametrize(("kind", "order", "params"), NETWORKS)
def test_streams_at_different_times_advance_together(kind, order, params):
    net, x = made(kind, order, params), series()
    with torch.no_grad():
        expected = net(torch.from_numpy(x)).scores.numpy()
    step = make_step(net)
    state = step.start(len(x))
    for moment in range(x.shape[1]):
        ready = np.array([row for row in range(len(x)) if moment >= 2 * row])  # stream i starts at 2i
        own = {name: value[ready] for name, value in state.items()}
        new = step(own, x[ready, moment - 2 * ready])
        for name, value in new.items():
            state[name][ready] = value
        close(new["scores"], expected[ready, moment - 2 * ready])


@pytest.mark.parametrize(("kind", "order", "params"), NETWORKS)
def test_state_has_documented_size_and_does_not_grow(kind, order, params):
    step = make_step(made(kind, order, params))
    state = step.start(2)
    for t in range(3 * T):
        state = step(state, series(2)[:, t % T])
        assert sum(value.nbytes for value in state.values()) == 2 * step.bytes()
        assert {value.dtype.name for value in state.values()} <= {"float32", "float64", "int64"}


@pytest.mark.parametrize(
    ("kind", "params"), [(LSTMModule, {}), (AccumulatorModule, {}), (AccumulatorModule, {"products": 0})]
)
def test_step_does_not_modify_its_input_state(kind, params):
    step = make_step(made(kind, 2, params))
    before = step(step.start(2), series(2)[:, 0])
    copy = {name: value.copy() for name, value in before.items()}
    step(before, series(2)[:, 1])
    for name, value in before.items():
        np.testing.assert_array_equal(value, copy[name])


def test_step_accepts_only_shapes_of_its_state():
    step = make_step(made(LSTMModule, 2, {"hidden": 5}))
    state = step.start(1)
    assert all(step.accepts(name, value.shape[1:]) for name, value in state.items())
    assert not step.accepts("h", (2, 5))
    assert not step.accepts("scores", (K + 1,))


def test_subclass_of_built_in_network_has_no_step():
    class Own(LSTMModule):
        pass

    assert make_step(Own(2, 2, 0)) is None
