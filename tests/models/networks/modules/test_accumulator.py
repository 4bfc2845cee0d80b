import numpy as np
import pytest
import torch

from stopwise.models.networks.modules import AccumulatorModule
from stopwise.models.networks.modules.accumulator import LSTMBody, WindowBody

D, K, T, H = 3, 4, 6, 5


def made(order=T - 1, **params):
    """Return a network in float64 with random weights and biases."""
    net = AccumulatorModule(D, K, order, hidden=H, **params).double().eval()
    rng = np.random.default_rng(0)
    for parameter in net.parameters():
        parameter.data = torch.from_numpy(rng.normal(size=parameter.shape) * 0.7)
    return net


def series(n=2, steps=T):
    return torch.from_numpy(np.random.default_rng(1).normal(size=(n, steps, D)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def window_features(w, x):
    """Return the features after the last of the samples x (t, D), by a loop over the window."""
    window = len(w["body.lags"])
    present = min(len(x), window)
    total = w["body.bias"][present - 1].copy()
    for lag in range(present):
        total += w["body.lags"][lag] @ x[len(x) - 1 - lag]
    products = len(total) - H
    rectified, left, right = np.split(total, [H - products, H])
    return np.concatenate([np.maximum(rectified, 0), left * right])


def lstm_features(w, x, squash):
    """Return the state after the samples x (t, D), by a plain LSTM cell."""
    h, c = np.zeros(H), np.zeros(H)
    for sample in x:
        i, f, o, g = np.split(
            w["body.lstm.input"] @ sample + w["body.lstm.recurrent"] @ h + w["body.lstm.bias"], 4
        )
        c = sigmoid(f) * c + sigmoid(i) * squash(g)
        h = sigmoid(o) * squash(c)
    return h


def b2bsqrt(x):
    return np.sign(x) * (np.sqrt(1 + np.abs(x)) - 1)


def sums(net, x, features):
    """Return the scores (t, K) of a single series x (t, D), by a loop over its steps."""
    w = {name: value.numpy() for name, value in net.state_dict().items()}
    x = x.numpy()
    total, scores = np.zeros(K), []
    for t in range(1, len(x) + 1):
        seen = features(w, x[:t])
        total = total + w["head.weight"][:, : len(seen)] @ seen + w["head.bias"]
        if net.skip:
            total = total + w["head.weight"][:, len(seen) :] @ x[t - 1]
        scores.append(total)
    return np.array(scores)


@pytest.mark.parametrize("products", [0, 2, H])
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("multiplets", [True, False])
@pytest.mark.parametrize("steps", [1, 3, T])
@pytest.mark.parametrize("order", [0, 1, 3])
def test_window_scores_equal_loop_over_steps_and_windows(order, steps, multiplets, skip, products):
    net, x = made(order, skip=skip, products=products), series(steps=steps)
    with torch.no_grad():
        scores = net(x, multiplets).scores.numpy()
    for i in range(2):
        np.testing.assert_allclose(scores[i], sums(net, x[i], window_features), atol=1e-12)


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("multiplets", [True, False])
@pytest.mark.parametrize(("activation", "squash"), [("tanh", np.tanh), ("b2bsqrt", b2bsqrt)])
def test_lstm_scores_equal_loop_over_cells(activation, squash, multiplets, skip):
    net, x = made(None, activation=activation, skip=skip), series(steps=9)
    with torch.no_grad():
        scores = net(x, multiplets).scores.numpy()
    for i in range(2):
        expected = sums(net, x[i], lambda w, x: lstm_features(w, x, squash))
        np.testing.assert_allclose(scores[i], expected, atol=1e-12)


@pytest.mark.parametrize("steps", [2, T])
@pytest.mark.parametrize("order", [0, 1, 3])
def test_multiplets_equal_sums_over_separate_windows(order, steps):
    net, x = made(order), series(steps=steps)
    with torch.no_grad():
        logits = net(x, multiplets=True).multiplets.numpy()
    samples = min(order + 1, steps)
    assert logits.shape == (2, steps - samples + 1, samples, K)
    for i in range(2):
        for start in range(steps - samples + 1):
            expected = sums(net, x[i, start : start + samples], window_features)
            np.testing.assert_allclose(logits[i, start], expected, atol=1e-12)


def test_multiplets_of_an_lstm_are_the_prefixes_of_the_series():
    net, x = made(None), series()
    with torch.no_grad():
        evidence = net(x, multiplets=True)
    np.testing.assert_array_equal(evidence.multiplets[:, 0], evidence.scores)


def test_multiplets_of_a_filter_are_the_prefixes_of_the_series():
    net, x = made(None, body="filter"), series()
    with torch.no_grad():
        evidence = net(x, multiplets=True)
        np.testing.assert_array_equal(evidence.multiplets[:, 0], evidence.scores)
        np.testing.assert_array_equal(evidence.scores, net(x).scores)


def test_filter_increments_are_added_to_those_of_the_sample():
    net, x = made(None, body="filter", states=3), series()
    features = torch.stack(
        [
            torch.from_numpy(
                np.stack(
                    [
                        window_features(
                            {name: value.numpy() for name, value in net.state_dict().items()},
                            x[i, : t + 1].numpy(),
                        )
                        for t in range(T)
                    ]
                )
            )
            for i in range(2)
        ]
    )  # (2, T, H)
    with torch.no_grad():
        filtered = net.filter(features.transpose(0, 1), x.transpose(0, 1)).transpose(0, 1)
        increments = torch.cat([features, x, filtered], -1) @ net.head.weight.t() + net.head.bias
        torch.testing.assert_close(net(x).scores, increments.cumsum(1))


def test_multiplets_are_computed_only_on_request():
    assert made()(series()).multiplets is None


BODIES = [{"order": 0}, {"order": 3}, {"order": None}, {"order": None, "body": "filter", "states": 3}]


@pytest.mark.parametrize("body", BODIES, ids=str)
@pytest.mark.parametrize("multiplets", [True, False])
def test_gradients_equal_finite_differences(body, multiplets):
    net, x = made(**body), series()
    rng = np.random.default_rng(2)

    def value():
        evidence = net(x, multiplets)
        total = (evidence.scores * torch.from_numpy(weights[0])).sum()
        return total + (evidence.multiplets * torch.from_numpy(weights[1])).sum() if multiplets else total

    with torch.no_grad():
        evidence = net(x, True)
    weights = [rng.normal(size=part.shape) for part in evidence]
    value().backward()
    for name, parameter in net.named_parameters():
        flat = parameter.data.view(-1)
        for place in rng.choice(len(flat), min(len(flat), 6), replace=False):
            ends = []
            for step in (1e-6, -2e-6):
                flat[place] += step
                ends.append(value().item())
            flat[place] += 1e-6
            slope = (ends[0] - ends[1]) / 2e-6
            assert parameter.grad.view(-1)[place].item() == pytest.approx(slope, rel=1e-5, abs=1e-6), name


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_later_samples_do_not_change_earlier_scores(body):
    net, x = made(**body), series()
    changed = x.clone()
    changed[:, 4:] = 1e6
    with torch.no_grad():
        for multiplets in (True, False):
            before, after = net(x, multiplets).scores, net(changed, multiplets).scores
            assert torch.equal(before[:, :4], after[:, :4])
            assert not torch.equal(before[:, 4:], after[:, 4:])
            torch.testing.assert_close(net(x[:, :4], multiplets).scores, before[:, :4], rtol=0, atol=1e-12)


def test_samples_before_window_do_not_change_increments():
    net, x = made(1), series()
    changed = x.clone()
    changed[:, 0] = 100
    with torch.no_grad():
        a, b = (net(z).scores.diff(dim=1) for z in (x, changed))
    np.testing.assert_allclose(a[:, 1:], b[:, 1:], atol=1e-10)
    assert (a[:, 0] - b[:, 0]).abs().min() > 1e-6


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_scores_grow_at_constant_rate(body):
    net = made(**body)
    with torch.no_grad():
        scores = net(torch.ones(1, 4000, D, dtype=torch.float64)).scores[0]
    gained = scores[3999] - scores[1999]
    torch.testing.assert_close(gained, scores[2999] - scores[999])  # the growth does not slow down
    assert gained.abs().max() > 100


@pytest.mark.parametrize("multiplets", [True, False])
def test_dropout_is_active_in_training_only(multiplets):
    net, x = made(1, dropout=0.5), series()
    with torch.no_grad():
        assert torch.equal(net(x, multiplets).scores, net(x, multiplets).scores)
        net.train()
        assert not torch.equal(net(x, multiplets).scores, net(x, multiplets).scores)


def test_order_determines_body():
    assert isinstance(made(T - 1).body, WindowBody)
    assert made(T - 1).body.window == T
    assert isinstance(made(None).body, LSTMBody)
    assert made(None).order is None
    assert made(None).filter is None
    assert isinstance(made(None, body="filter").body, WindowBody)
    assert made(None, body="filter").body.window == 1
    assert made(None, body="filter").order is None


def test_readout_inputs_are_features_and_sample():
    for skip, inputs in ((True, D), (False, 0)):
        net = made(0, skip=skip)
        assert net.readout is net.head
        assert (net.readout.in_features, net.n_skip_inputs) == (H + inputs, inputs)
        net = made(None, body="filter", skip=skip)
        assert (net.readout.in_features, net.n_skip_inputs) == (H + inputs + K, inputs + K)


def test_half_of_the_features_are_products_by_default():
    assert AccumulatorModule(D, K, 1, hidden=9).body.products == 4


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"hidden": "many"}, "`hidden` must be .*; got 'many'"),
        ({"hidden": 0}, "`hidden` must be >= 1; got 0"),
        ({"states": 1}, "`states` must be >= 2; got 1"),
        ({"body": "window"}, "`body` must be one of 'lstm', 'filter'; got 'window'"),
        ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\); got 1"),
        ({"activation": "tan"}, "`activation` .*got 'tan'. Did you mean 'tanh'"),
        ({"products": 65}, r"`products` must be in \[0, 64\]; got 65"),
    ],
)
def test_invalid_sizes_raise(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        AccumulatorModule(D, K, 2, **params)


def test_layer_norm_bounds_the_features():
    net = made(0, layer_norm=True, skip=False)
    with torch.no_grad():
        small, large = (net(scale * series()).scores for scale in (1e5, 1e8))
    torch.testing.assert_close(small, large, rtol=1e-2, atol=1e-2)
