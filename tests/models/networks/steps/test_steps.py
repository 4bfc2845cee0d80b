"""Steps against the networks on whole series, at every step, for streams that are at different times."""

import numpy as np
import pytest
import torch

from stopwise.models.networks.modules import Integrator, build
from stopwise.models.networks.steps import make_step

D, K, T = 3, 3, 9
NETWORKS = [
    ("accumulator", 0, {}),
    ("accumulator", 1, {}),
    ("accumulator", 3, {"products": 0, "layer_norm": True}),
    ("accumulator", 3, {"products": 4, "hidden": 4, "skip": False}),
    ("accumulator", 8, {"body": "window", "window": 2}),
    ("accumulator", 8, {"body": "lstm"}),
    ("accumulator", 8, {"body": "lstm", "activation": "b2bsqrt", "skip": False}),
    *(
        (model, order, {"formula": formula})
        for model in ("b2bsqrt", "lstm", "tandemformer")
        for order in (0, 1, 3, 8)
        for formula in ("tandem", "oblivion")
    ),
    ("b2bsqrt", 2, {"alpha": 0.3, "layer_norm": True, "hidden": 5}),
    ("tandemformer", 3, {"pooling": "gap", "positions": "learned"}),
    ("tandemformer", 3, {"pooling": "one-token", "positions": "sinusoidal"}),
    ("tandemformer", 2, {"blocks": 2, "heads": 3, "head_size": 4, "layer_norm": True}),
    ("tandemformer", 8, {"blocks": 2, "pooling": "one-token", "layer_norm": True}),
]


def made(model, order, params):
    torch.manual_seed(0)
    net = build(model, features=D, classes=K, order=order, longest=order == T - 1, **params).eval()
    rng = np.random.default_rng(0)
    for name, parameter in net.named_parameters():
        if name.endswith("bias"):  # all different from 0
            parameter.data = torch.from_numpy(rng.normal(size=parameter.shape) * 0.3).float()
    net.standardise(torch.from_numpy(rng.normal(size=D)), torch.tensor([0.5, 1.0, 2.0]))
    return net


def series(n=4, steps=T + 6):
    return np.random.default_rng(1).normal(size=(n, steps, D)).astype(np.float32)


def close(ours, expected):
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])
@pytest.mark.parametrize(("model", "order", "params"), NETWORKS)
def test_steps_are_the_scores_of_whole_series_past_the_training_length_too(model, order, params, xp):
    net, x = made(model, order, params), series()
    with torch.no_grad():
        expected = net(torch.from_numpy(x)).scores.numpy()
    step = make_step(net, xp)
    state = step.start(len(x))
    for t in range(x.shape[1]):
        state = step(state, x[:, t] if xp is np else torch.from_numpy(x[:, t]))
        close(np.asarray(state["scores"]), expected[:, t])
    assert np.asarray(state["time"]).tolist() == [x.shape[1]] * len(x)


@pytest.mark.parametrize(("model", "order", "params"), NETWORKS)
def test_streams_at_different_times_go_together(model, order, params):
    net, x = made(model, order, params), series()
    with torch.no_grad():
        expected = net(torch.from_numpy(x)).scores.numpy()
    step = make_step(net)
    state = step.start(len(x))
    for moment in range(x.shape[1]):
        ready = np.array([row for row in range(len(x)) if moment >= 2 * row])  # stream i begins at 2i
        own = {name: value[ready] for name, value in state.items()}
        new = step(own, x[ready, moment - 2 * ready])
        for name, value in new.items():
            state[name][ready] = value
        close(new["scores"], expected[ready, moment - 2 * ready])


@pytest.mark.parametrize(("model", "order", "params"), NETWORKS)
def test_the_state_has_the_size_that_is_told_and_does_not_grow(model, order, params):
    step = make_step(made(model, order, params))
    state = step.start(2)
    for t in range(3 * T):
        state = step(state, series(2)[:, t % T])
        assert sum(value.nbytes for value in state.values()) == 2 * step.bytes()
        assert {value.dtype.name for value in state.values()} <= {"float32", "float64", "int64"}


def test_a_step_leaves_the_state_it_was_given():
    step = make_step(made("b2bsqrt", 2, {}))
    before = step(step.start(2), series(2)[:, 0])
    copy = {name: value.copy() for name, value in before.items()}
    step(before, series(2)[:, 1])
    for name, value in before.items():
        np.testing.assert_array_equal(value, copy[name])


def test_a_network_of_ones_own_is_told_that_it_does_not_stream():
    class Own(Integrator):
        def evidence(self, x, multiplets):
            raise NotImplementedError

    with pytest.raises(TypeError, match="Own does not stream"):
        make_step(Own(2, 2, 0))
