"""A network of the user's own: it is tried before training, trained, streamed, and stored."""

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
    """A linear network whose evidence `change` changes."""

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


def see_the_future(scores):
    return scores + 0.1 * scores[:, -1:]


@pytest.fixture
def trained(monkeypatch):
    """The networks that were trained."""
    seen, train = [], base.train

    def spy(net, task, **options):
        seen.append(net)
        return train(net, task, **options)

    monkeypatch.setattr(base, "train", spy)
    monkeypatch.setattr(order_search, "train", spy)
    return seen


@pytest.mark.parametrize("order", [1, "auto", None])
@pytest.mark.parametrize(
    ("module", "params", "kind", "message"),
    [
        (
            Changed,
            {"params": {"change": lambda scores: scores[..., :1]}},
            ValueError,
            r"Changed must give scores of shape \(series, steps, classes\), here \(2, 6, 2\); got \(2, 6, 1",
        ),
        (
            Changed,
            {"params": {"change": lambda scores: scores[:, -1]}},
            ValueError,
            r"Changed must give scores of shape .*; got \(2, 2\)",
        ),
        (
            Changed,
            {"params": {"change": see_the_future}},
            ValueError,
            "Changed must give scores at step t from samples up to t; they change with later samples",
        ),
        (
            WithoutMultiplets,
            {},
            TypeError,
            "`llre_ratio`=0.5 needs the logits of the multiplets.*WithoutMultiplets gives none: set llre",
        ),
        (WithoutReadout, {}, TypeError, "WithoutReadout has no `readout`.*set polish=False"),
        (OddReadout, {}, TypeError, "`polish`=True needs OddReadout.readout to be an nn.Linear; got None"),
        (
            Linear,
            {"params": {"gian": 2}},
            TypeError,
            r"`module` must take \(channels, classes, order\) and the `params` 'gian'; .*unexpected",
        ),
        (
            lambda channels: None,
            {},
            TypeError,
            r"`module` must take \(channels, classes, order\) and the `params` \(none given\); too many",
        ),
        (torch.nn.Linear, {}, TypeError, "`module` must make a stopwise.models.Integrator; got Linear"),
        (3, {}, TypeError, r"`module` must be a callable that makes an Integrator .*; got 3"),
        ("Linear", {}, TypeError, "`module` must be a callable that makes an Integrator .*; got 'Linear'"),
    ],
)
def test_what_does_not_fit_is_an_error_before_training(trained, module, params, kind, message, order):
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
def test_what_fits_is_trained(trained, module, params):
    model = Network(module, **QUICK | params).fit(examples(X, Y))
    assert trained == [model.net_]
    assert (model.order_, model.net_.channels, model.net_.classes) == (1, 3, 2)
    assert model.scores(X.astype(np.float32)).shape == (40, 6, 2)


def test_series_of_one_step_can_be_tried():
    Network(Changed, **QUICK | {"order": 0, "params": {"change": see_the_future}}).fit(examples(X[:, :1], Y))


def test_a_fault_inside_a_module_is_raised_as_it_is():
    def broken(channels, classes, order):
        return len(channels)

    with pytest.raises(TypeError, match=r"^object of type 'int' has no len"):
        Network(broken, **QUICK).fit(examples(X, Y))


def test_params_reach_the_module():
    model = Network(Linear, **QUICK, params={"dropout": 0.25, "gain": 3.0}).fit(examples(X, Y))
    assert (model.net_.dropout.p, model.net_.gain) == (0.25, 3)


@pytest.mark.parametrize(("order", "given"), [(2, 2), (None, 5)])
def test_the_module_is_given_the_order(order, given):
    assert Network(Linear, **QUICK | {"order": order}).fit(examples(X, Y)).order_ == given


def test_a_searched_order_is_one_of_those_tried(monkeypatch):
    monkeypatch.setattr(order_search, "CANDIDATES", (0, 1))
    model = Network(Linear, **QUICK | {"order": "auto"}).fit(examples(X, Y))
    assert model.order_ in (0, 1, 5)
    assert [one["order"] for one in model.report_["order_search"]] == [0, 1, None]


def test_trying_the_network_changes_no_random_state_and_no_weights():
    nets = []
    for state in (1, 2):
        torch.manual_seed(state)
        before = torch.get_rng_state()
        nets.append(Network(Linear, **QUICK, params={"dropout": 0.5}).fit(examples(X, Y)).net_)
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(nets[0].head.weight, nets[1].head.weight)


def test_it_streams_by_scoring_what_came_so_far():
    model = Network(Linear, **QUICK).fit(examples(X, Y))
    step, x = model.step(), X[:3].astype(np.float32)
    assert isinstance(step, RescoringStep)
    state = step.start(3)
    for t in range(6):
        state = step(state, x[:, t])
        np.testing.assert_allclose(state["scores"], model.scores(x)[:, t], rtol=1e-5, atol=1e-5)
    with pytest.raises(TypeError, match="Network has no step of its own, so it cannot be exported"):
        model.step(torch)


def test_parameters_are_those_of_scikit_learn():
    model = Network(Linear, params={"gain": 2.0}).set_params(training__max_epochs=2, order=3)
    copy = clone(model)
    assert (copy.module, copy.params, copy.order, copy.training.max_epochs) == (Linear, {"gain": 2.0}, 3, 2)
