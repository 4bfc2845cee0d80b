"""Tests of the parameters of B2BsqrtTandem and TanhTandem."""

import numpy as np
import pytest
import torch
from small_worlds import examples, gaussian, small_model

from stopwise.models import B2BsqrtTandem, TanhTandem, Training
from stopwise.models.networks.kernels.recurrence import B2BLOG

X, Y, _ = gaussian(40)


def fitted(name, **params):
    return small_model(name, **params).fit(examples(X, Y))


def test_activation_is_tanh_or_b2bsqrt():
    assert fitted("tanh").net_.lstm.squash.bounded
    assert not fitted("b2bsqrt").net_.lstm.squash.bounded
    assert fitted("b2bsqrt", alpha=0.3).net_.lstm.squash.alpha == 0.3
    assert fitted("b2bsqrt", activation="b2blog").net_.lstm.squash.kind == B2BLOG
    with pytest.raises(ValueError, match="`activation` must be one of 'b2bsqrt', 'b2blog'; got 'tanh'"):
        fitted("b2bsqrt", activation="tanh")


@pytest.mark.parametrize("model", [TanhTandem, B2BsqrtTandem])
def test_forget_gate_starts_with_its_bias(model):
    net = model(hidden=5, forget_bias=-2.0).build(3, 2, 1, 6)
    assert net.lstm.bias.view(4, 5).unique(dim=1).flatten().tolist() == [0, -2, 0, 0]


@pytest.mark.parametrize("name", ["tanh", "b2bsqrt"])
def test_parameters_reach_the_network(name):
    net = fitted(name, hidden=5, formula="oblivion", layer_norm=True, dropout=0.25).net_
    assert (net.readout.in_features, net.formula, net.head[1].p) == (5, "oblivion", 0.25)
    assert isinstance(net.head[0], torch.nn.LayerNorm)


@pytest.mark.parametrize("name", ["tanh", "b2bsqrt"])
def test_formulas_differ_after_first_window(name):
    x = X.astype(np.float32)
    settings = {"order": 2, "llre_ratio": 0.0, "training": Training(max_epochs=1, validation_fraction=0)}
    tandem, oblivion = (fitted(name, formula=one, **settings).scores(x) for one in ("tandem", "oblivion"))
    # Trained only on multiplets, without validation series, both networks have the same weights.
    np.testing.assert_allclose(tandem[:, :3], oblivion[:, :3], rtol=1e-5, atol=1e-5)
    assert not np.allclose(tandem[:, 4:], oblivion[:, 4:], atol=1e-3)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TanhTandem(order=1, formula="tandm"), "`formula` must be one of .*Did you mean 'tandem'"),
        (B2BsqrtTandem(order=1, alpha=-1.0), "`alpha` of b2bsqrt must be a finite number >= 0; got -1"),
    ],
)
def test_invalid_options_raise(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(examples(X, Y))
