import pytest
import torch

from stopwise.models.networks.modules import (
    MODELS,
    Accumulator,
    Evidence,
    Integrator,
    LSTMIntegrator,
    Tandemformer,
    build,
)
from stopwise.models.networks.modules.accumulator import LSTMBody, WindowBody

SIZES = {"features": 3, "classes": 4, "order": 2, "longest": False}


class Own(Integrator):
    """A network of a user's own: evidence is linear in the samples."""

    def __init__(self, features, classes, order, gain=1.0):
        super().__init__(features, classes, order)
        self.head = torch.nn.Linear(features, classes)
        self.gain = gain

    def evidence(self, x, multiplets):
        return Evidence(self.gain * self.head(x).cumsum(1), None)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("longest", [False, True])
def test_every_name_makes_a_network_of_the_sizes_asked_for(model, longest):
    net = build(model, **SIZES | {"longest": longest})
    assert isinstance(net, Integrator)
    assert (net.features, net.classes, net.order) == (3, 4, 2)
    assert net(torch.zeros(2, 6, 3)).scores.shape == (2, 6, 4)


def test_names_make_what_they_say():
    made = {model: build(model, **SIZES) for model in MODELS}
    assert {model: type(net) for model, net in made.items()} == {
        "accumulator": Accumulator,
        "b2bsqrt": LSTMIntegrator,
        "tandemformer": Tandemformer,
        "lstm": LSTMIntegrator,
    }
    # tanh bounds the state and so the logits, B2Bsqrt does not
    x = torch.full((1, 1, 3), 1e8)
    for net in (made["b2bsqrt"], made["lstm"]):
        torch.nn.init.ones_(net.lstm.input)
        torch.nn.init.ones_(net.head[-1].weight)
    assert made["lstm"](x).scores.abs().max() <= 64 + 1e-3
    assert made["b2bsqrt"](x).scores.abs().max() > 1e3


@pytest.mark.parametrize("model", [m for m in MODELS if m != "accumulator"])
def test_formula_reaches_the_network(model):
    torch.manual_seed(0)
    tandem = build(model, **SIZES).eval()
    torch.manual_seed(0)
    oblivion = build(model, **SIZES, formula="oblivion").eval()
    x = torch.randn(2, 6, 3)
    a, b = tandem(x).scores, oblivion(x).scores
    assert torch.equal(a[:, :3], b[:, :3])
    assert not torch.allclose(a[:, 4:], b[:, 4:])


def test_accumulator_reads_all_samples_where_the_order_is_the_longest():
    assert isinstance(build("accumulator", **SIZES).body, WindowBody)
    assert isinstance(build("accumulator", **SIZES | {"longest": True}).body, LSTMBody)
    assert isinstance(build("accumulator", **SIZES | {"longest": True}, body="window").body, WindowBody)


def test_params_reach_the_network():
    assert build("accumulator", **SIZES, hidden=7, skip=False).head.in_features == 7
    assert build("lstm", **SIZES, hidden=7).head[-1].in_features == 7
    assert len(build("tandemformer", **SIZES, blocks=2).blocks) == 2
    assert build(Own, **SIZES, gain=3.0).gain == 3


@pytest.mark.parametrize("make", [Own, lambda features, classes, order: Own(features, classes, order)])
def test_own_callable(make):
    net = build(make, **SIZES)
    assert isinstance(net, Own)
    assert (net.features, net.classes, net.order) == (3, 4, 2)


@pytest.mark.parametrize(
    ("model", "params", "error", "message"),
    [
        (
            "acumulator",
            {},
            ValueError,
            "`model` must be one of .*; got 'acumulator'. Did you mean 'accumulator'",
        ),
        (3, {}, TypeError, "`model` must be one of 'accumulator',.*or a callable.*; got 3"),
        (
            "accumulator",
            {"hiden": 3},
            ValueError,
            "`model_params` must be.*got 'hiden'. Did you mean 'hidden'",
        ),
        ("tandemformer", {"hidden": 3}, ValueError, "`model_params` must be one of 'blocks'.*got 'hidden'"),
        ("b2bsqrt", {"activation": "tanh"}, ValueError, "`model_params` must be one of .*got 'activation'"),
        ("accumulator", {"hidden": "many"}, TypeError, "`hidden` must be a whole number; got 'many'"),
        ("accumulator", {"hidden": 0}, ValueError, "`hidden` must be >= 1; got 0"),
        ("accumulator", {"dropout": 1.0}, ValueError, r"`dropout` must be in \[0, 1\); got 1"),
        ("accumulator", {"body": "cnn"}, ValueError, "`body` must be one of 'window', 'lstm'; got 'cnn'"),
        ("accumulator", {"activation": "tan"}, ValueError, "`activation` .*got 'tan'. Did you mean 'tanh'"),
        ("accumulator", {"window": 4}, ValueError, r"`window` must be in \[1, 3\]; got 4"),
        (
            "accumulator",
            {"formula": "oblivion"},
            ValueError,
            "`formula` must be 'tandem' for model='acc.*oblivion",
        ),
        (
            "accumulator",
            {"body": "lstm"},
            ValueError,
            "`order` must be None with body='lstm'.*got order=2. Use",
        ),
        ("lstm", {"formula": "tandm"}, ValueError, "`formula` must be one of .*Did you mean 'tandem'"),
        (
            Own,
            {"gian": 2},
            TypeError,
            "`model` must take .* 'gian'; got an unexpected keyword argument 'gian'",
        ),
        (lambda features: None, {}, TypeError, r"`model` must take \(features, classes, order\).*too many"),
        (
            torch.nn.Linear,
            {},
            TypeError,
            "`model` must make an Integrator; it made a Linear",
        ),
        (
            Own,
            {"formula": "oblivion"},
            ValueError,
            "`formula` is not handed to a model of your own; got 'obl",
        ),
    ],
)
def test_what_does_not_fit_is_told(model, params, error, message):
    with pytest.raises(error, match=message):
        build(model, **SIZES, **params)


def test_window_of_an_lstm_is_told():
    with pytest.raises(ValueError, match=r"`window` goes with body='window'; got window=2"):
        build("accumulator", **SIZES | {"longest": True}, body="lstm", window=2)


def test_fault_inside_an_own_callable_stays_what_it_is():
    def broken(features, classes, order):
        return len(features)

    with pytest.raises(TypeError, match=r"^object of type 'int' has no len"):
        build(broken, **SIZES)
