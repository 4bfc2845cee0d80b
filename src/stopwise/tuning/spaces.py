"""Search spaces: one dict per model.

A list is a choice. A tuple (low, high) is a range, of integers if both ends are integers. Names are options
of the model, with a dot for nested ones, and parameters of `EarlyClassifier`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from stopwise.estimator import EarlyClassifier
from stopwise.models import MODELS, options
from stopwise.validation import check_choice, check_integer

Space = dict[str, list[Any] | tuple[Any, Any]]

# The published space for the real datasets, with these differences: the published range of the LLRe ratio
# starts at 0.4, and `polish` and `standardize` are added here.
TRAINING: Space = {
    "training.learning_rate": [1e-4, 1e-3, 1e-2],
    "training.weight_decay": [0.0, 1e-5, 1e-4, 1e-3],
    "training.optimizer": ["adam", "rmsprop"],
    "dropout": (0.0, 0.4),
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
# With order None the network is an LSTM, otherwise it reads a window of order + 1 samples, so `order` covers
# both. Products of samples are exact for Gaussian processes (None: half of the features), but unstable for
# other data.
ACCUMULATOR: Space = {"hidden": [16, 32, 64, 128, 256], "products": [None, 0]}
NETWORKS: dict[str, Space] = {
    "accumulator": ACCUMULATOR,
    "b2bsqrt": LSTM,
    "tandemformer": TANDEMFORMER,
    "tanh": LSTM,
}
SMALL_ORDERS = (0, 1, 2, 5, 10)
# Parameters of `EarlyClassifier` that can be searched or fixed.
OF_CLASSIFIER = ("prior", "standardize", "missing")
# Settings that `tune` controls itself.
TAKEN = ("training.max_epochs", "training.validation_fraction", "model", "random_state", "progress", "rule")


def space_for(model: str, steps: int) -> Space:
    """Return the default search space of a model.

    The dict can be modified and passed to `tune`.

    Parameters
    ----------
    model
        Name of a network in `stopwise.models.MODELS`.
    steps
        Number of steps T of the longest series, which limits the Markov order.

    Returns
    -------
    space
        A dict of setting names. A list is a choice; a tuple (low, high) is a range.

    Examples
    --------
    >>> from stopwise.tuning import space_for
    >>> space = space_for("b2bsqrt", steps=50)
    >>> space["training.learning_rate"], space["dropout"], space["hidden"]
    ([0.0001, 0.001, 0.01], (0.0, 0.4), [16, 32, 64, 128, 256])
    >>> space["order"]
    ['auto', 0, 1, 2, 5, 10, 12, None]
    """
    check_tunable(model)
    steps = check_integer("steps", steps, 1)
    finite = sorted({order for order in (*SMALL_ORDERS, steps // 4) if order < steps - 1})
    return {"order": ["auto", *finite, None], **TRAINING, **NETWORKS[model]}


def check_tunable(model: str) -> None:
    """Raise a ValueError if the model is unknown or has no settings to search."""
    if check_choice("model", model, MODELS) not in NETWORKS:
        raise ValueError(
            f"`model`={model!r} cannot be tuned: it chooses its settings itself, by held-out likelihood. Use "
            f"one of {', '.join(map(repr, NETWORKS))}, or fit the model without tuning."
        )


def defaults(model: str) -> dict[str, Any]:
    """Return the default values of all settings of a model that can be searched or fixed."""
    known = {option.name: option.default for option in options(model)}
    own = inspect.signature(EarlyClassifier).parameters
    return {
        name: value
        for name, value in (known | {name: own[name].default for name in OF_CLASSIFIER}).items()
        if name not in TAKEN
    }


def check_space(space: Any, model: str) -> Space:
    """Return the space; raise if a name is unknown or an entry is not a choice or a range."""
    if not isinstance(space, Mapping):
        raise TypeError(f"`space` must be a dict, as returned by space_for(); got {type(space).__name__}.")
    check_names("space", space, model)
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


def check_names(argument: str, names: Mapping[str, Any], model: str) -> None:
    """Raise if a setting is not an option of the model, or is controlled by `tune`."""
    known = list(defaults(model))
    for name in names:
        if name in TAKEN:
            raise ValueError(f"`{argument}` must not contain {name!r}, because tune() sets it.")
        check_choice(argument, name, known)
