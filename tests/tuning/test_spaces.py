"""Search spaces and their validation."""

import pytest

from stopwise.models import Training
from stopwise.tuning import space_for, spaces
from stopwise.tuning.study import distributions


@pytest.mark.parametrize("model", spaces.NETWORKS)
@pytest.mark.parametrize("steps", [1, 2, 6, 50, 1000])
def test_every_space_contains_the_defaults(model, steps):
    space = spaces.check_space(space_for(model, steps), model)
    known = spaces.defaults(model)
    for name, distribution in distributions(space).items():
        assert distribution._contains(distribution.to_internal_repr(known[name])), name


def test_a_model_without_settings_to_search_is_refused():
    with pytest.raises(ValueError, match="chooses its settings itself"):
        space_for("prefix", 10)


def test_defaults_equal_those_of_the_model():
    known = spaces.defaults("tandemformer")
    assert known["training.learning_rate"] == Training().learning_rate
    assert known["heads"] == 2
    assert known["standardize"] is True
    assert "training.max_epochs" not in known
    assert "alpha" not in spaces.defaults("tanh")


@pytest.mark.parametrize("steps", [1, 2, 3, 12, 50])
def test_orders_are_below_the_length_of_the_series(steps):
    orders = space_for("b2bsqrt", steps)["order"]
    finite = [order for order in orders if isinstance(order, int)]
    assert all(order < steps - 1 for order in finite)  # None stands for T−1
    assert len(set(orders)) == len(orders)


def test_default_space_equals_the_published_one():
    space = space_for("tandemformer", 50)
    assert space["training.learning_rate"] == [1e-4, 1e-3, 1e-2]
    assert space["training.weight_decay"] == [0.0, 1e-5, 1e-4, 1e-3]
    assert space["dropout"] == (0.0, 0.4)
    assert space["blocks"] == (1, 2)
    assert space["heads"] == (1, 3)
    assert space["head_size"] == space["feed_forward"] == space["mlp"] == (8, 32)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"training.lerning_rate": [1]}, "Did you mean 'training.learning_rate'"),
        ({"heads": [1]}, "`space` must be one of"),  # not an option of an LSTM
        ({"hidden": 3}, r"`space`\['hidden'\] must be a list of choices or a tuple"),
        ({"hidden": []}, "must be a list of choices"),
        ({"dropout": (0.4, 0.1)}, "must be a list of choices"),
        ({"random_state": [0, 1]}, "must not contain 'random_state'"),
    ],
)
def test_invalid_space_raises(space, message):
    with pytest.raises(ValueError, match=message):
        spaces.check_space(space, "tanh")


def test_space_that_is_not_a_dict_raises():
    with pytest.raises(TypeError, match="`space` must be a dict"):
        spaces.check_space(["hidden"], "tanh")
