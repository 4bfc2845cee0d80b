"""Compare TandemformerModule with a plain implementation that encodes each prefix of each window."""

import math

import pytest
import torch

from stopwise.models.networks.modules import TandemformerModule

STEPS, CHANNELS, CLASSES = 6, 4, 3
SIZES = {"heads": 2, "head_size": 3, "feed_forward": 5, "mlp": 7}


def normalized(tokens, norm):
    if not isinstance(norm, torch.nn.LayerNorm):
        return tokens
    centered = tokens - tokens.mean(-1, keepdim=True)
    return centered / (centered.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


def plain_block(block, tokens):
    length = tokens.shape[0]
    qkv = normalized(tokens, block.norm1) @ block.qkv.weight.T + block.qkv.bias
    q, k, v = qkv.view(length, 3, SIZES["heads"], SIZES["head_size"]).unbind(1)  # (L, h, d)
    mixed = []
    for h in range(SIZES["heads"]):
        weights = (q[:, h] @ k[:, h].T / math.sqrt(SIZES["head_size"])).softmax(-1)
        mixed.append(weights @ v[:, h])
    tokens = tokens + torch.cat(mixed, dim=1) @ block.out.weight.T + block.out.bias
    units = normalized(tokens, block.norm2) @ block.expand.weight.T + block.expand.bias
    return tokens + units.clamp(min=0) @ block.contract.weight.T + block.contract.bias


def sinusoids(length):
    places = torch.empty(length, CHANNELS, dtype=torch.float64)
    for place in range(length):
        for pair in range(0, CHANNELS, 2):
            angle = place / 10000 ** (pair / CHANNELS)
            places[place, pair], places[place, pair + 1] = math.sin(angle), math.cos(angle)
    return places


def plain_logits(net, x, positions):
    """Return the logits (K,) of one prefix x (i, D) of one window."""
    length = len(x)
    if positions == "learned":
        x = x + net.places[:length]
    elif positions == "sinusoidal":
        x = x + sinusoids(length)
    tokens = x if net.pooling != "one-token" else torch.cat([net.token[None], x])
    for block in net.blocks:
        tokens = plain_block(block, tokens)
    pooled = {
        "nsp": lambda: tokens.sum(0) / (net.order + 1),
        "gap": lambda: tokens.mean(0),
        "one-token": lambda: tokens[0],
    }[net.pooling]()
    return net.head(net.read(pooled))


def plain_evidence(net, x, positions):
    order = net.order
    multiplets = torch.stack(
        [
            torch.stack(
                [
                    torch.stack([plain_logits(net, one[s : s + m + 1], positions) for m in range(order + 1)])
                    for s in range(len(one) - order)
                ]
            )
            for one in x
        ]
    )  # (B, W, M, K)
    scores = list(multiplets[:, 0].unbind(1))
    for window in multiplets[:, 1:].unbind(1):
        scores.append(scores[-1] + window[:, -1] - (window[:, -2] if order else 0))
    return torch.stack(scores, dim=1), multiplets


CASES = [
    (pooling, blocks, layer_norm, positions)
    for pooling in ("nsp", "gap", "one-token")
    for blocks, layer_norm, positions in [
        (1, False, "none"),
        (1, False, "sinusoidal"),
        (1, False, "learned"),
        (1, True, "none"),
        (1, True, "learned"),
        (2, False, "learned"),
        (2, True, "sinusoidal"),
    ]
]


@pytest.mark.parametrize("order", [0, 1, 3, STEPS - 1])
@pytest.mark.parametrize(("pooling", "blocks", "layer_norm", "positions"), CASES)
def test_evidence_and_gradients_equal_plain_implementation(
    form, pooling, blocks, layer_norm, positions, order
):
    torch.manual_seed(order)
    net = TandemformerModule(
        CHANNELS,
        CLASSES,
        order,
        blocks=blocks,
        pooling=pooling,
        layer_norm=layer_norm,
        positions=positions,
        **SIZES,
    ).double()
    for parameter in net.parameters():  # LayerNorms start with weight 1 and bias 0, which would hide errors
        parameter.data += 0.1 * torch.randn_like(parameter)
    x = torch.randn(2, STEPS, CHANNELS, dtype=torch.float64)
    expected, windows = plain_evidence(net, x, positions)
    parameters = list(net.parameters())
    close = 1e-6 if positions == "sinusoidal" else 1e-10  # the network computes sinusoids in float32
    for asked in (False, True):
        found = net(x, multiplets=asked)
        torch.testing.assert_close(found.scores, expected, rtol=close, atol=close)
        total, plain = found.scores.square().sum(), expected.square().sum()
        if asked:
            torch.testing.assert_close(found.multiplets, windows, rtol=close, atol=close)
            total, plain = total + found.multiplets.exp().sum(), plain + windows.exp().sum()
        gradients = torch.autograd.grad(total, parameters)
        wanted = torch.autograd.grad(plain, parameters, retain_graph=True)
        for one, other in zip(gradients, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=10 * close, atol=10 * close)


@pytest.mark.parametrize("options", [{}, {"layer_norm": True}, {"blocks": 2}, {"pooling": "one-token"}])
def test_wide_tokens_are_linear_maps_of_the_samples(form, options):
    torch.manual_seed(0)
    wide = TandemformerModule(3, CLASSES, 2, width=CHANNELS, positions="learned", **options, **SIZES).double()
    plain = TandemformerModule(CHANNELS, CLASSES, 2, positions="learned", **options, **SIZES).double()
    plain.load_state_dict({name: value for name, value in wide.state_dict().items() if "embed" not in name})
    x = torch.randn(2, STEPS, 3, dtype=torch.float64)
    tokens = x @ wide.embed.weight.T + wide.embed.bias
    found, expected = wide(x, multiplets=True), plain(tokens, multiplets=True)
    torch.testing.assert_close(found.scores, expected.scores)
    torch.testing.assert_close(found.multiplets, expected.multiplets)
    gradients = [
        torch.autograd.grad(one.scores.square().sum(), wide.embed.weight) for one in (found, expected)
    ]
    torch.testing.assert_close(*gradients)


def test_dropout_is_active_in_training_only(form):
    net = TandemformerModule(CHANNELS, CLASSES, 3, dropout=0.5)
    x = torch.randn(2, STEPS, CHANNELS)
    assert not torch.equal(net(x).scores, net(x).scores)
    net.eval()
    assert torch.equal(net(x).scores, net(x).scores)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"heads": 0}, "`heads` must be >= 1; got 0"),
        ({"mlp": 1.5}, "`mlp` must be .*; got 1.5"),
        ({"pooling": "npp"}, "`pooling` must be one of .*Did you mean 'nsp'"),
        ({"positions": "sin"}, "`positions` must be one of 'none', 'sinusoidal', 'learned'; got 'sin'"),
        ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\)"),
    ],
)
def test_invalid_options_raise(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        TandemformerModule(CHANNELS, CLASSES, 1, **params)
