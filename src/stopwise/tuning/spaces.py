"""What is searched: one table a model.

A list is a choice; a tuple (low, high) is a range, of whole numbers if both ends are. Names are those of
`EarlyClassifier`'s parameters and of the network's further arguments, side by side.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from stopwise.estimator import EarlyClassifier
from stopwise.models.networks.modules import MODELS, Accumulator, LSTMIntegrator, Tandemformer
from stopwise.validation import check_choice, check_integer

Space = dict[str, list[Any] | tuple[Any, Any]]

# As published for the real sets, but for the LLRe ratio, which began at 0.4 there; the polish and the scaling
# of the channels are ours.
TRAINING: Space = {
    "learning_rate": [1e-4, 1e-3, 1e-2],
    "weight_decay": [0.0, 1e-5, 1e-4, 1e-3],
    "dropout": (0.0, 0.4),
    "optimizer": ["adam", "rmsprop"],
    "llre_ratio": (0.0, 1.0),
    "polish": [True, False],
    "standardize": [True, "together"],
}
TANDEMFORMER: Space = {
    "blocks": (1, 2),
    "heads": (1, 3),
    "head_size": (8, 32),
    "feed_forward": (8, 32),
    "mlp": (8, 32),
    "positions": ["none", "sinusoidal", "learned"],
}
LSTM: Space = {"hidden": [16, 32, 64, 128, 256]}
# With the longest order the body is an LSTM, else a window of order + 1 samples: so `order` tells both.
# Products of samples are exact for Gaussian processes (None: half of the features) and wild elsewhere.
ACCUMULATOR: Space = {"hidden": [16, 32, 64, 128, 256], "products": [None, 0]}
NETWORKS: dict[str, Space] = {
    "accumulator": ACCUMULATOR,
    "b2bsqrt": LSTM,
    "tandemformer": TANDEMFORMER,
    "lstm": LSTM,
}
MAKERS = {
    "accumulator": Accumulator,
    "b2bsqrt": LSTMIntegrator,
    "tandemformer": Tandemformer,
    "lstm": LSTMIntegrator,
}
SMALL_ORDERS = (0, 1, 2, 5, 10)
# What a trial sets by itself.
TAKEN = ("model", "max_epochs", "seed", "progress", "validation_fraction")


def space_for(model: str, steps: int) -> Space:
    """Return what is searched for a model, on series of so many steps: change it as you like.

    Parameters
    ----------
    model
        A name in `stopwise.models.networks.modules.MODELS`.
    steps
        T, which bounds the Markov order.

    Examples
    --------
    >>> space = space_for("b2bsqrt", steps=50)
    >>> space["learning_rate"], space["dropout"], space["hidden"]
    ([0.0001, 0.001, 0.01], (0.0, 0.4), [16, 32, 64, 128, 256])
    >>> space["order"]
    ['auto', 0, 1, 2, 5, 10, 12, None]
    """
    check_choice("model", model, MODELS)
    steps = check_integer("steps", steps, 1)
    finite = sorted({order for order in (*SMALL_ORDERS, steps // 4) if order < steps - 1})
    return {"order": ["auto", *finite, None], **TRAINING, **NETWORKS[model]}


def defaults(model: str) -> dict[str, Any]:
    """Return the default of everything that can be searched or fixed for a model."""
    network = inspect.signature(MAKERS[model]).parameters.values()
    known = {p.name: p.default for p in network if p.kind is p.KEYWORD_ONLY}
    known |= {
        name: p.default
        for name, p in inspect.signature(EarlyClassifier).parameters.items()
        if name not in (*TAKEN, "model_params")
    }
    if model != "accumulator":
        known.pop("activation", None)  # the model's name tells it
    return known


def flatten(settings: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return settings with the network's arguments beside the others, every name checked.

    Examples
    --------
    >>> flatten({"loss": "lllr", "model_params": {"hidden": 8}}, "lstm")
    {'loss': 'lllr', 'hidden': 8}
    """
    flat = {name: value for name, value in settings.items() if name != "model_params"}
    flat |= settings.get("model_params") or {}
    _check_names("fixed", flat, model)
    return flat


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings for `EarlyClassifier`: the network's arguments go into `model_params`.

    Examples
    --------
    >>> nest({"order": 2, "hidden": 8})
    {'order': 2, 'model_params': {'hidden': 8}}
    """
    own = inspect.signature(EarlyClassifier).parameters
    params = {name: value for name, value in flat.items() if name not in own}
    settings = {name: value for name, value in flat.items() if name in own}
    return settings | ({"model_params": params} if params else {})


def check_space(space: Any, model: str) -> Space:
    """Return a space if every name is known and every entry is a choice or a range."""
    if not isinstance(space, Mapping):
        raise TypeError(f"`space` must be a dict such as space_for() returns; got {type(space).__name__}.")
    _check_names("space", space, model)
    for name, values in space.items():
        ranged = isinstance(values, tuple) and len(values) == 2 and all(map(_is_number, values))
        if not (ranged and values[0] <= values[1]) and not (isinstance(values, list) and values):
            raise ValueError(
                f"`space`[{name!r}] must be a list of choices or a tuple (low, high) of numbers; "
                f"got {values!r}."
            )
    return dict(space)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_names(argument: str, names: Mapping[str, Any], model: str) -> None:
    known = list(defaults(model))
    for name in names:
        if name in TAKEN:
            raise ValueError(f"`{argument}` must not hold {name!r}: tuning sets it by itself.")
        check_choice(argument, name, known)
