"""Compare LSTMModule with an LSTM cell that runs over sliced windows."""

import pytest
import torch

from stopwise.models.networks.modules import LSTMModule

STEPS, CHANNELS, HIDDEN, CLASSES = 6, 3, 5, 4


def plain_logits(net, x, activation, alpha):
    """Return the logits of one window x (B, m, D) after its last sample."""
    act = {
        "tanh": torch.tanh,
        "b2bsqrt": lambda z: z.sign() * ((alpha + z.abs()).sqrt() - alpha**0.5),
        "b2blog": lambda z: z.sign() * (1 + z.abs()).log(),
    }[activation]
    h = c = x.new_zeros(len(x), HIDDEN)
    for sample in x.unbind(1):
        gates = sample @ net.lstm.input.T + net.lstm.bias + h @ net.lstm.recurrent.T
        i, f, o, candidate = gates.chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * act(candidate)
        h = o.sigmoid() * act(c)
    return net.head(h)


def plain_evidence(net, x, activation, alpha):
    """Compute TANDEM by its definition: sum of the logits of windows minus sum of those of their overlaps."""
    order = net.order
    windows = [x[:, s : s + order + 1] for s in range(x.shape[1] - order)]
    logits = [
        [plain_logits(net, window[:, : m + 1], activation, alpha) for m in range(order + 1)]
        for window in windows
    ]
    scores = list(logits[0])
    for window in logits[1:]:
        scores.append(scores[-1] + window[-1] - (window[-2] if order else 0))
    multiplets = torch.stack([torch.stack(window, dim=1) for window in logits], dim=1)
    return torch.stack(scores, dim=1), multiplets


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("multiplets", [False, True])
@pytest.mark.parametrize("order", [0, 1, 3, STEPS - 1])
@pytest.mark.parametrize(
    ("activation", "alpha"), [("tanh", 1.0), ("b2bsqrt", 1.0), ("b2bsqrt", 0.3), ("b2blog", 1.0)]
)
def test_evidence_and_gradients_equal_plain_cell(form, activation, alpha, order, multiplets, batch):
    torch.manual_seed(order)
    net = LSTMModule(CHANNELS, CLASSES, order, activation=activation, hidden=HIDDEN, alpha=alpha).double()
    x = torch.randn(batch, STEPS, CHANNELS, dtype=torch.float64)
    found = net(x, multiplets=multiplets)
    expected, windows = plain_evidence(net, x, activation, alpha)
    torch.testing.assert_close(found.scores, expected, rtol=1e-10, atol=1e-10)
    total, plain = found.scores.square().sum(), expected.square().sum()
    if multiplets:
        torch.testing.assert_close(found.multiplets, windows, rtol=1e-10, atol=1e-10)
        total, plain = total + found.multiplets.exp().sum(), plain + windows.exp().sum()
    else:
        assert found.multiplets is None
    parameters = list(net.parameters())
    for one, other in zip(
        torch.autograd.grad(total, parameters), torch.autograd.grad(plain, parameters), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("alpha", [-1.0, float("nan"), float("inf")])
def test_invalid_alpha_raises(alpha):
    with pytest.raises(ValueError, match=r"`alpha` of b2bsqrt must be a finite number >= 0; got"):
        LSTMModule(2, 2, 1, alpha=alpha)


def test_alpha_zero_gives_finite_scores_at_zero(form):
    net = LSTMModule(2, 2, 1, alpha=0.0)
    torch.nn.init.zeros_(net.lstm.bias)
    assert net(torch.zeros(1, 3, 2)).scores.isfinite().all()


def test_oblivion_uses_only_newest_window():
    torch.manual_seed(0)
    net = LSTMModule(CHANNELS, CLASSES, 2, "oblivion", hidden=HIDDEN)
    x = torch.randn(2, STEPS, CHANNELS)
    scores = net(x).scores
    torch.testing.assert_close(scores[:, 4], net(x[:, 2:5]).scores[:, 2])
    tandem = LSTMModule(CHANNELS, CLASSES, 2, "tandem", hidden=HIDDEN)
    tandem.load_state_dict(net.state_dict())
    torch.testing.assert_close(tandem(x).scores[:, :3], scores[:, :3])
    assert not torch.allclose(tandem(x).scores[:, 4:], scores[:, 4:])


def test_tanh_bounds_the_logits_and_b2bsqrt_does_not():
    x = torch.full((1, 1, CHANNELS), 1e8)
    largest = {}
    for activation in ("tanh", "b2bsqrt"):
        net = LSTMModule(CHANNELS, CLASSES, 2, activation=activation)
        torch.nn.init.ones_(net.lstm.input)
        torch.nn.init.ones_(net.readout.weight)
        largest[activation] = net(x).scores.abs().max()
    assert largest["tanh"] <= 64 + 1e-3
    assert largest["b2bsqrt"] > 1e3


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"hidden": 0}, "`hidden` must be >= 1; got 0"),
        ({"dropout": -0.1}, r"`dropout` must be in \[0, 1\)"),
        ({"activation": "relu"}, "`activation` must be one of 'b2bsqrt', 'tanh', 'b2blog'; got 'relu'"),
        ({"forget_bias": float("inf")}, r"`forget_bias` must be in \(-inf, inf\); got inf"),
        ({"formula": "tandm"}, "`formula` must be one of .*Did you mean 'tandem'"),
    ],
)
def test_invalid_options_raise(params, message):
    with pytest.raises(ValueError, match=message):
        LSTMModule(2, 2, 1, **params)
