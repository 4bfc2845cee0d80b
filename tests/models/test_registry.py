"""Tests of the registry of models: options, and rebuilding from descriptions."""

import inspect
import json

import numpy as np
import pytest
from small_worlds import Linear, small_model, world

from stopwise.models import MODELS, PAPER_GAUSSIAN, PAPER_REAL, Network, Training, make, options
from stopwise.models.base import plain_params
from stopwise.models.networks.base import NetworkModel
from stopwise.models.registry import NESTED, rebuild
from stopwise.persistence import tensors as files

NETWORKS = [name for name, kind in MODELS.items() if issubclass(kind, NetworkModel)]


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_an_option_with_description(name):
    declared = {option.name: option for option in options(name)}
    expected = set()
    for parameter in inspect.signature(MODELS[name]).parameters:
        if parameter in NESTED:
            nested = inspect.signature(NESTED[parameter]).parameters
            expected |= {f"{parameter}.{one}" for one in nested}
        else:
            expected.add(parameter)
    assert set(declared) == expected
    for option in declared.values():
        assert option.meaning.strip(), option.name
        assert not option.meaning.startswith("As for"), option.name
        assert "\n" not in option.meaning
    if issubclass(MODELS[name], NetworkModel):
        assert declared["training.max_epochs"].default == 50


@pytest.mark.parametrize("name", MODELS)
def test_option_defaults_equal_constructor_defaults(name):
    model = MODELS[name](**{"training": Training()} if name in NETWORKS else {})
    for option in options(name):
        assert model.get_params()[option.name.replace(".", "__")] == option.default


def test_model_names_equal_registry_keys():
    assert {name: kind.name for name, kind in MODELS.items()} == {name: name for name in MODELS}
    assert Network.name is None


def test_unknown_name_raises_error_with_list_of_models():
    message = "`model` must be one of 'accumulator', .*; got 'acumulator'. Did you mean 'accumulator'"
    for call in (options, make):
        with pytest.raises(ValueError, match=message):
            call("acumulator")


@pytest.mark.parametrize("wrong", [3, None, Linear, Training()])
def test_non_model_raises_error_with_hint_to_wrap_module(wrong):
    with pytest.raises(TypeError, match=r"(?s)`model` must be one of .*Network\(MyModule\)"):
        make(wrong)


def test_make_sets_options():
    model = make("b2bsqrt", {"order": 2, "alpha": 0.5, "training.max_epochs": 5, "training.device": "cpu"})
    assert (model.order, model.alpha, model.training.max_epochs) == (2, 0.5, 5)
    assert repr(make("b2bsqrt")) == "B2BsqrtTandem()"


def test_make_copies_a_model_and_does_not_change_it():
    given = Network(Linear, order=0, training=Training(max_epochs=3))
    made = make(given, {"training.max_epochs": 4, "polish": False})
    assert (made.training.max_epochs, made.polish) == (4, False)
    assert (given.training.max_epochs, given.polish) == (3, True)


@pytest.mark.parametrize(
    ("model", "option", "hint"),
    [
        ("tandemformer", "hidden", ""),
        ("tanh", "alpha", ""),
        ("accumulator", "formula", ""),
        ("accumulator", "hiden", " Did you mean 'hidden'?"),
        ("accumulator", "training.epochs", " Did you mean 'training.max_epochs'?"),
        ("accumulator", "training", ""),
        (Network(Linear), "hidden", ""),
    ],
)
def test_unknown_option_raises_error_with_list_of_options(model, option, hint):
    with pytest.raises(ValueError, match="has no option") as raised:
        make(model, {option: 3})
    message = str(raised.value)
    name = model if isinstance(model, str) else "Network"
    assert message.startswith(f"model {name!r} has no option {option!r}.")
    assert hint in message
    listed = message.partition("It has: ")[2]
    kind = MODELS[model] if isinstance(model, str) else Network
    for known in inspect.signature(kind).parameters:
        assert known in listed


def test_paper_settings_are_valid_options():
    assert make("b2bsqrt", PAPER_GAUSSIAN).order is None
    assert make("tandemformer", PAPER_REAL).order == 10
    assert MODELS["tanh"](**PAPER_REAL).polish is False


# Rebuilding


def assert_rebuilt(model, tmp_path, own=None):
    """Save a model, rebuild it, and check that scores and description are equal."""
    files.write(tmp_path / "model", model.tensors(), model.describe())
    tensors, about = files.read(tmp_path / "model")
    again = rebuild(about, tensors, own)
    assert again.describe() == json.loads(json.dumps(model.describe()))
    x, _ = world(seed=1, steps=9).read(np.arange(20))
    np.testing.assert_array_equal(again.scores(x), model.scores(x))
    assert again.report_["history"] == model.report_["history"]
    assert again.batch_size == model.batch_size
    return again


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("order", [0, 2, None])
def test_model_is_rebuilt_from_description_and_tensors(name, order, tmp_path):
    training = Training(max_epochs=np.int64(1), batch_size=30)
    model = small_model(name, order=order, dropout=0.1, polish=order == 0, training=training).fit(world())
    again = assert_rebuilt(model, tmp_path)
    assert type(again) is MODELS[name]
    assert plain_params(again) == plain_params(model)
    assert again.order_ == model.order_
    assert not again.net_.training


def test_model_without_training_options_is_rebuilt(tmp_path):
    model = small_model("accumulator").fit(world()).set_params(training=None)
    assert assert_rebuilt(model, tmp_path).training is None


def test_model_with_searched_order_is_rebuilt(tmp_path, monkeypatch):
    monkeypatch.setattr("stopwise.models.networks.training.order_search.CANDIDATES", (0,))
    model = small_model("accumulator", order="auto").fit(world())
    again = assert_rebuilt(model, tmp_path)
    assert again.order == "auto"
    assert again.report_["order_search"] == model.report_["order_search"]


def test_custom_network_is_rebuilt(tmp_path):
    own = Network(Linear, order=1, params={"gain": 2.0}, training=Training(max_epochs=1))
    model = make(own).fit(world())
    again = assert_rebuilt(model, tmp_path, own)
    assert again.net_.gain == 2
    assert not hasattr(own, "net_")
    with pytest.raises(ValueError, match=r"is of the custom class Network: .*Network\(MyModule\)"):
        rebuild(model.describe(), model.tensors())


def test_custom_model_for_built_in_model_raises():
    model = small_model("tanh").fit(world())
    with pytest.raises(ValueError, match=r"`model` can only be used with a custom model; .* model 'tanh'"):
        rebuild(model.describe(), model.tensors(), small_model("tanh"))


def test_rebuild_of_unknown_model_raises():
    model = small_model("tanh").fit(world())
    with pytest.raises(ValueError, match=r"`model` must be one of .*got 'lstm'"):
        rebuild(model.describe() | {"name": "lstm"}, model.tensors())
