"""Tests of custom networks: checks before training, training and streaming."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from small_worlds import Linear, examples, gaussian

from stopwise.models import Evidence, Integrator, Network, Training
from stopwise.models.networks import base
from stopwise.models.networks.training import order_search
from stopwise.models.rescoring import RescoringStep

X, Y, _ = gaussian(40)
QUICK = {"order": 1, "training": Training(max_epochs=1)}


class Changed(Linear):
    """Linear network with a function `change` applied to its scores."""

    def __init__(self, channels, classes, order, change):
        super().__init__(channels, classes, order)
        self.change = change

    def evidence(self, x, multiplets):
        evidence = super().evidence(x, multiplets)
        return Evidence(self.change(evidence.scores), evidence.multiplets)


class WithoutMultiplets(Linear):
    def evidence(self, x, multiplets):
        return Evidence(super().evidence(x, False).scores, None)


class WithoutReadout(Linear):
    readout = Integrator.readout


class OddReadout(Linear):
    readout = None


def use_later_samples(scores):
    return scores + 0.1 * scores[:, -1:]


@pytest.fixture
def trained(monkeypatch):
    """Record the networks that are trained."""
    seen, train = [], base.train

    def spy(net, task, **options):
        seen.append(net)
        return train(net, task, **options)

    monkeypatch.setattr(base, "train", spy)
    return seen


@pytest.mark.parametrize("order", [1, "auto", None])
@pytest.mark.parametrize(
    ("module", "params", "kind", "message"),
    [
        (
            Changed,
            {"params": {"change": lambda scores: scores[..., :1]}},
            ValueError,
            r"Changed must return scores of shape \(series, steps, classes\), here \(2, 6, 2\); got \(2, 6",
        ),
        (
            Changed,
            {"params": {"change": lambda scores: scores[:, -1]}},
            ValueError,
            r"Changed must return scores of shape .*; got \(2, 2\)",
        ),
        (
            Changed,
            {"params": {"change": use_later_samples}},
            ValueError,
            "Changed must compute the scores at step t from the samples up to step t; got scores that change",
        ),
        (
            WithoutMultiplets,
            {},
            TypeError,
            "`llre_ratio`=0.5 needs the logits of the multiplets.*WithoutMultiplets returns None .*Set llre",
        ),
        (WithoutReadout, {}, TypeError, "WithoutReadout has no `readout`.*set polish=False"),
        (OddReadout, {}, TypeError, "`polish`=True needs OddReadout.readout to be an nn.Linear; got None"),
        (
            Linear,
            {"params": {"gian": 2}},
            TypeError,
            r"`module` must accept the arguments \(channels, classes, order\) .*'gian'; .*unexpected",
        ),
        (
            lambda channels: None,
            {},
            TypeError,
            r"`module` must accept the arguments \(channels, classes, order\) .*\(none given\); too many",
        ),
        (torch.nn.Linear, {}, TypeError, "`module` must return a stopwise.models.Integrator; got Linear"),
        (3, {}, TypeError, r"`module` must be a callable that takes .* returns an Integrator; got 3"),
        ("Linear", {}, TypeError, "`module` must be a callable that takes .*; got 'Linear'"),
    ],
)
def test_invalid_module_raises_before_training(trained, module, params, kind, message, order):
    with pytest.raises(kind, match=message):
        Network(module, **QUICK | params | {"order": order}).fit(examples(X, Y))
    assert not trained


@pytest.mark.parametrize(
    ("module", "params"),
    [
        (Linear, {}),
        (WithoutMultiplets, {"llre_ratio": 1.0}),
        (WithoutReadout, {"polish": False}),
        (OddReadout, {"polish": False}),
        (lambda channels, classes, order: Linear(channels, classes, order), {}),
    ],
)
def test_valid_module_is_trained(trained, module, params):
    model = Network(module, **QUICK | params).fit(examples(X, Y))
    assert trained == [model.net_]
    assert (model.order_, model.net_.channels, model.net_.classes) == (1, 3, 2)
    assert model.scores(X.astype(np.float32)).shape == (40, 6, 2)


def test_series_of_one_step_are_accepted():
    params = {"change": use_later_samples}  # there are no later samples
    Network(Changed, **QUICK | {"order": 0, "params": params}).fit(examples(X[:, :1], Y))


def test_error_inside_module_is_not_wrapped():
    def broken(channels, classes, order):
        return len(channels)

    with pytest.raises(TypeError, match=r"^object of type 'int' has no len"):
        Network(broken, **QUICK).fit(examples(X, Y))


def test_params_reach_the_module():
    model = Network(Linear, **QUICK, params={"dropout": 0.25, "gain": 3.0}).fit(examples(X, Y))
    assert (model.net_.dropout.p, model.net_.gain) == (0.25, 3)


@pytest.mark.parametrize(("order", "given"), [(2, 2), (None, 5)])
def test_module_receives_order(order, given):
    assert Network(Linear, **QUICK | {"order": order}).fit(examples(X, Y)).order_ == given


def test_order_search_chooses_one_of_its_candidates(monkeypatch):
    monkeypatch.setattr(order_search, "CANDIDATES", (0, 1))
    model = Network(Linear, **QUICK | {"order": "auto"}).fit(examples(X, Y))
    assert model.order_ in (0, 1, 5)
    assert [one["order"] for one in model.report_["order_search"]] == [0, 1, None]


def test_preflight_changes_neither_random_state_nor_weights():
    nets = []
    for state in (1, 2):
        torch.manual_seed(state)
        before = torch.get_rng_state()
        nets.append(Network(Linear, **QUICK, params={"dropout": 0.5}).fit(examples(X, Y)).net_)
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(nets[0].head.weight, nets[1].head.weight)


def test_custom_network_streams_by_rescoring():
    model = Network(Linear, **QUICK).fit(examples(X, Y))
    step, x = model.step(), X[:3].astype(np.float32)
    assert isinstance(step, RescoringStep)
    state = step.start(3)
    for t in range(6):
        state = step(state, x[:, t])
        np.testing.assert_allclose(state["scores"], model.scores(x)[:, t], rtol=1e-5, atol=1e-5)
    with pytest.raises(TypeError, match="Network does not implement a streaming step, so it cannot be exp"):
        model.step(torch)


def test_scikit_learn_parameter_interface_works():
    model = Network(Linear, params={"gain": 2.0}).set_params(training__max_epochs=2, order=3)
    copy = clone(model)
    assert (copy.module, copy.params, copy.order, copy.training.max_epochs) == (Linear, {"gain": 2.0}, 3, 2)
