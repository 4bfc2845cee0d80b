"""Tests of the accumulator model: choice of the body and the order."""

import json

import numpy as np
import pytest
import torch
from small_worlds import examples, gaussian, same_weights

from stopwise.datasets import hidden_markov
from stopwise.metrics import llr_error
from stopwise.models import Accumulator, Training
from stopwise.models.networks import accumulator, base
from stopwise.models.networks.modules.accumulator import LSTMBody, WindowBody
from stopwise.models.registry import rebuild

X, Y, _ = gaussian(40)


def made(**params):
    return Accumulator(**{"hidden": 4, "polish": False, "training": Training(max_epochs=1)} | params)


def fitted(**params):
    return made(**params).fit(examples(X, Y))


@pytest.mark.parametrize("body", ["auto", "lstm"])
def test_order_none_selects_lstm_body(body):
    model = fitted(order=None, body=body)
    assert (model.body_, model.order_) == ("lstm", None)
    assert isinstance(model.net_.body, LSTMBody)


@pytest.mark.parametrize("body", ["auto", "window"])
@pytest.mark.parametrize("order", [0, 2, 5])
def test_integer_order_selects_window_body(body, order):
    model = fitted(order=order, body=body)
    assert (model.body_, model.order_) == ("window", order)
    assert isinstance(model.net_.body, WindowBody)
    assert model.net_.body.window == order + 1


@pytest.mark.parametrize("order", [None, "auto"])
def test_filter_body_has_no_finite_order(order):
    model = fitted(order=order, body="filter", states=3)
    assert (model.body_, model.order_) == ("filter", None)
    assert (model.net_.filter.states, model.net_.body.window) == (3, 1)
    assert model.report_["order_search"] is None


def test_filter_is_precise_where_samples_depend_on_hidden_states():
    X, y, _ = hidden_markov(800, length=30, seed=0)
    model = made(order=None, body="filter", states=4, polish=True, training=Training(max_epochs=3))
    model.fit(examples(X, y))
    fresh, _, truth = hidden_markov(500, length=30, seed=1)
    assert llr_error(model.scores(fresh).astype(np.float64), truth).relative < 0.1
    stages = [one["stage"] for one in model.report_["filter"]["stages"]]
    assert stages == ["start", "polished", "trained"]
    json.dumps(model.report_)


def test_filter_is_trained_where_states_do_not_explain_the_classes():
    rng = np.random.default_rng(0)
    y = np.arange(600) % 2
    X = rng.normal(size=(600, 8, 2)) * np.where(y, 1.5, 0.7)[:, None, None]  # the classes differ in variance
    model = made(order=None, body="filter", hidden=8, states=2, training=Training(max_epochs=15))
    model.fit(examples(X, y))
    assert model.report_["filter"]["kept"] == "trained"
    start, *_, trained = (one["validation_lsel"] for one in model.report_["filter"]["stages"])
    assert trained < 0.8 * start


def test_filter_model_is_restored_from_its_description_and_tensors():
    model = fitted(order=None, body="filter")
    copy = rebuild(json.loads(json.dumps(model.describe())), model.tensors())
    assert copy.body_ == "filter"
    np.testing.assert_array_equal(copy.scores(X.astype(np.float32)), model.scores(X.astype(np.float32)))


def test_failed_restore_does_not_change_the_body():
    model, other = fitted(order=None, body="lstm"), fitted(order=None, body="filter")
    with pytest.raises(ValueError, match="must be the weights of this model"):
        model.restore(other.fitted() | {"classes": 2, "channels": 3}, model.tensors())
    assert model.body_ == "lstm"


def test_filter_fit_resumes_with_the_same_weights(tmp_path):
    def stop(record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    def run(**options):
        model = made(order=None, body="filter", training=Training(max_epochs=4))
        return model.fit(examples(X, Y), **options)

    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=tmp_path / "run", on_epoch=stop)
    assert same_weights(run(checkpoint=tmp_path / "run").net_, run().net_)


def test_filter_without_validation_series_is_trained():
    training = Training(max_epochs=1, validation_fraction=0.0)
    report = fitted(order=None, body="filter", training=training).report_["filter"]
    assert (report["kept"], report["stages"]) == ("trained", None)


def test_lstm_body_skips_order_search():
    model = fitted(order="auto", body="lstm")
    assert (model.body_, model.order_) == ("lstm", None)
    assert model.report_["order_search"] is None


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"body": "lstm", "order": 2}, "`order` must be None or 'auto' with body='lstm'.*got order=2"),
        ({"body": "lstm", "order": 0}, "`order` must be None or 'auto' with body='lstm'.*got order=0"),
        ({"body": "filter", "order": 1}, "`order` must be None or 'auto' with body='filter'.*got order=1"),
        ({"body": "filter", "order": None, "states": 1}, "`states` must be >= 2; got 1"),
        (
            {"body": "window", "order": None},
            "`order` must be an integer or 'auto' with body='window'; got None",
        ),
        ({"body": "cnn", "order": 1}, "`body` must be one of 'auto', 'window', 'lstm', 'filter'; got 'cnn'"),
        ({"activation": "tan"}, "`activation` .*got 'tan'. Did you mean 'tanh'"),
        ({"products": 5, "order": 0}, r"`products` must be in \[0, 4\]; got 5"),
    ],
)
def test_incompatible_settings_raise_before_training(params, message, monkeypatch):
    monkeypatch.setattr(base, "train", None)
    monkeypatch.setattr(base, "search", None)
    with pytest.raises(ValueError, match=message):
        fitted(**params)


def records(**losses):
    """Return records of an order search; the keyword `none` stands for no finite order."""
    orders = [None if name == "none" else int(name[1:]) for name in losses]
    return [
        {"order": order, "validation_lsel": loss, "excess": 0.0, "standard_error": 0.0}
        for order, loss in zip(orders, losses.values())
    ]


@pytest.fixture
def chosen(monkeypatch):
    """Replace the search: choose the last candidate order, and record all candidates."""
    seen = []

    def search(tried, task, **_):
        seen.extend(tried)
        return tried[-1], records(
            **{"none" if n is None else f"n{n}": 1 / (i + 1) for i, n in enumerate(tried)}
        )

    monkeypatch.setattr(base, "search", search)
    return seen


@pytest.fixture
def compared(monkeypatch):
    """Replace the trials: choose the body that the test names, and record the orders of the networks."""
    seen = {"body": "lstm", "orders": None}

    def compare(networks, task, **_):
        seen["orders"] = {name: fresh().order for name, fresh in networks.items()}
        return seen["body"], [{"body": name} for name in networks]

    monkeypatch.setattr(accumulator, "compare", compare)
    return seen


@pytest.mark.parametrize(("body", "order"), [("lstm", None), ("filter", None), ("window", 3)])
def test_bodies_are_compared_if_no_finite_order_is_enough(chosen, compared, body, order):
    compared["body"] = body
    model = fitted(order="auto")
    assert chosen == [0, 1, 2, 3, None]
    assert compared["orders"] == {"window": 3, "lstm": None, "filter": None}
    assert (model.body_, model.order_) == (body, order)
    assert [one["body"] for one in model.report_["body_search"]] == ["window", "lstm", "filter"]
    assert ("filter" in model.report_) == (body == "filter")


def test_bodies_are_not_compared_if_a_finite_order_is_enough(monkeypatch, compared):
    monkeypatch.setattr(base, "search", lambda tried, task, **_: (1, records(n0=0.7, n1=0.2, none=0.2)))
    model = fitted(order="auto")
    assert (model.body_, model.order_) == ("window", 1)
    assert compared["orders"] is None
    assert model.report_["body_search"] is None


def test_order_search_with_window_body_never_tries_lstm(chosen, compared):
    model = fitted(order="auto", body="window")
    assert chosen == [0, 1, 2, 3, 5]
    assert (model.body_, model.order_) == ("window", 5)
    assert compared["orders"] is None


def test_longest_window_of_the_search_is_limited(chosen):
    X, y, _ = gaussian(40, steps=20)
    assert made(order="auto", body="window").fit(examples(X, y)).order_ == 8
    assert chosen == [0, 1, 2, 3, 5, 8]


def test_parameters_reach_the_network():
    net = fitted(order=1, hidden=6, products=2, skip=False, layer_norm=True, dropout=0.25).net_
    assert (net.readout.in_features, net.body.products, net.dropout.p) == (6, 2, 0.25)
    assert isinstance(net.norm, torch.nn.LayerNorm)
    assert not fitted(order=None, activation="b2bsqrt").net_.body.lstm.squash.bounded


def test_additive_evidence_is_learned():
    X, y, truth = gaussian(400, offset=1.5, steps=10)
    model = made(order=0, polish=True, training=Training(max_epochs=10)).fit(examples(X, y))
    scores = model.scores(X.astype(np.float32))
    ours, true = (one[..., 1] - one[..., 0] for one in (scores, truth))
    assert np.corrcoef(ours.ravel(), true.ravel())[0, 1] > 0.98
