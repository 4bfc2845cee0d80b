"""Tests of the base classes of integrators."""

import numpy as np
import pytest
import torch
from small_worlds import Linear, network

from stopwise.llr import WindowLogits
from stopwise.models import Evidence, Integrator, WindowIntegrator


class Bare(Integrator):
    """Integrator without parameters and without a last layer."""

    def evidence(self, x, multiplets):
        return Evidence(x[..., : self.classes].cumsum(1), None)


class Means(WindowIntegrator):
    """Integrator whose window logits are the sums of the samples."""

    def windows(self, x, multiplets):
        samples = min(x.shape[1], self.order + 1)
        every = x.unfold(1, samples, 1).transpose(2, 3).cumsum(2)  # (B, W, M, K)
        full = every[:, 1:, -1]
        short = every[:, 1:, -2] if samples > 1 else torch.zeros_like(full)
        return WindowLogits(every[:, 0], full, short, every if multiplets else None)


@pytest.mark.parametrize("model", ["accumulator", "b2bsqrt", "tanh", "tandemformer"])
def test_networks_have_requested_sizes(model):
    net = network(model, order=2)
    assert (net.channels, net.classes, net.order) == (3, 3, 2)
    assert net(torch.zeros(2, 6, 3)).scores.shape == (2, 6, 3)


def test_score_equals_forward_without_gradients():
    net, x = Linear(3, 2, 0), np.random.default_rng(0).normal(size=(4, 5, 3)).astype(np.float32)
    scores = net.score(x)
    assert isinstance(scores, np.ndarray)
    np.testing.assert_array_equal(scores, net(torch.from_numpy(x)).scores.detach().numpy())


def test_network_without_parameters_scores():
    assert Bare(3, 2, 0).score(np.ones((1, 4, 3), np.float32))[0, -1].tolist() == [4, 4]


def test_network_without_readout_raises():
    with pytest.raises(TypeError, match=r"Bare has no `readout`.*set polish=False"):
        _ = Bare(3, 2, 0).readout
    assert Bare(3, 2, 0).n_skip_inputs == 0


@pytest.mark.parametrize("order", [0, 1, 4])
def test_formula_combines_window_logits_into_scores(order):
    x = torch.randn(2, 5, 3)
    evidence = Means(3, 3, order)(x, multiplets=True)
    torch.testing.assert_close(evidence.scores, x.cumsum(1))
    assert evidence.multiplets.shape == (2, 5 - order, order + 1, 3)
    newest = Means(3, 3, order, "oblivion")(x).scores[:, -1]
    torch.testing.assert_close(newest, x[:, -order - 1 :].sum(1))


def test_unknown_formula_raises():
    with pytest.raises(ValueError, match=r"`formula` must be one of .*Did you mean 'oblivion'"):
        Means(3, 3, 1, "oblivious")
