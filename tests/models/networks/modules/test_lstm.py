"""LSTMIntegrator against an LSTM cell run over sliced windows, and the B2Bsqrt activation."""

import pytest
import torch

from stopwise.models.networks.modules import LSTMIntegrator, b2bsqrt

STEPS, FEATURES, HIDDEN, CLASSES = 6, 3, 5, 4


def plain_logits(net, x, activation, alpha):
    """Return the logits of one window x (B, m, D) after its last sample."""
    act = torch.tanh if activation == "tanh" else lambda z: z.sign() * ((alpha + z.abs()).sqrt() - alpha**0.5)
    h = c = x.new_zeros(len(x), HIDDEN)
    for sample in x.unbind(1):
        gates = sample @ net.lstm.input.T + net.lstm.bias + h @ net.lstm.recurrent.T
        i, f, o, candidate = gates.chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * act(candidate)
        h = o.sigmoid() * act(c)
    return net.head(h)


def plain_evidence(net, x, activation, alpha):
    """TANDEM by its definition: the sum of the windows' logits minus that of their overlaps."""
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
@pytest.mark.parametrize(("activation", "alpha"), [("tanh", 1.0), ("b2bsqrt", 1.0), ("b2bsqrt", 0.3)])
def test_evidence_and_gradients_are_those_of_the_plain_cell(
    form, activation, alpha, order, multiplets, batch
):
    torch.manual_seed(order)
    net = LSTMIntegrator(FEATURES, CLASSES, order, activation=activation, hidden=HIDDEN, alpha=alpha).double()
    x = torch.randn(batch, STEPS, FEATURES, dtype=torch.float64)
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


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_b2bsqrt_is_its_definition(alpha):
    x = torch.tensor([-1e6, -3.0, -1e-3, 0.0, 1e-3, 3.0, 1e6], dtype=torch.float64)
    definition = x.sign() * ((alpha + x.abs()).sqrt() - alpha**0.5)
    torch.testing.assert_close(b2bsqrt(x, alpha), definition, rtol=1e-10, atol=0)


def test_b2bsqrt_keeps_its_digits_near_zero():
    x = torch.tensor([1e-30, -1e-12], dtype=torch.float64)
    torch.testing.assert_close(b2bsqrt(x), x / 2, rtol=1e-10, atol=0)


def test_b2bsqrt_with_alpha_zero_is_a_signed_root():
    x = torch.tensor([-4.0, 0.0, 9.0])
    torch.testing.assert_close(b2bsqrt(x, 0.0), torch.tensor([-2.0, 0.0, 3.0]))


@pytest.mark.parametrize("alpha", [-1.0, float("nan"), float("inf")])
def test_a_wrong_alpha_is_named(alpha):
    with pytest.raises(ValueError, match=r"`alpha` of b2bsqrt must be a finite number >= 0; got"):
        b2bsqrt(torch.zeros(1), alpha)
    with pytest.raises(ValueError, match=r"`alpha` of b2bsqrt"):
        LSTMIntegrator(2, 2, 1, alpha=alpha)


def test_alpha_zero_gives_the_value_zero_at_zero(form):
    net = LSTMIntegrator(2, 2, 1, alpha=0.0)
    torch.nn.init.zeros_(net.lstm.bias)
    assert net(torch.zeros(1, 3, 2)).scores.isfinite().all()
