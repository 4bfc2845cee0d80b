"""Models by name, and their options: what the command line, tuning and saved files read."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator, clone
from torch import Tensor

from stopwise.models.base import Model
from stopwise.models.networks.accumulator import Accumulator
from stopwise.models.networks.lstm import B2BsqrtTandem, TanhTandem
from stopwise.models.networks.tandemformer import Tandemformer
from stopwise.models.networks.training.config import Training
from stopwise.validation import check_choice

MODELS: dict[str, type[Model]] = {
    "accumulator": Accumulator,
    "b2bsqrt": B2BsqrtTandem,
    "tandemformer": Tandemformer,
    "tanh": TanhTandem,
}
# Parameters that are objects with parameters of their own; None in their place stands for the default one.
NESTED: dict[str, type[BaseEstimator]] = {"training": Training}

# The paper's settings, for classes that come equally often: B2BsqrtTandem(**PAPER_GAUSSIAN).
PAPER_GAUSSIAN: dict[str, Any] = {"order": None, "llre_ratio": 1.0, "polish": False}
PAPER_REAL: dict[str, Any] = {"order": 10, "loss": "lsel", "llre_ratio": 0.5, "polish": False}


class Option(NamedTuple):
    """One option of a model: its name, nested ones with a dot, its default and what it does."""

    name: str
    default: Any
    meaning: str


def options(model: str) -> list[Option]:
    """Return the options of a model, those of nested objects with a dot.

    Examples
    --------
    >>> [option.name for option in options("tanh")][:3]
    ['order', 'hidden', 'formula']
    >>> {option.name: option.default for option in options("tanh")}["training.max_epochs"]
    50
    """
    return _options(MODELS[check_choice("model", model, MODELS)])


def make(model: str | Model, settings: Mapping[str, Any] | None = None) -> Model:
    """Return a model of its own: made by name, or copied, with some options set.

    Parameters
    ----------
    model
        A name in `MODELS`, or a model.
    settings
        Options by name, nested ones with a dot.

    Examples
    --------
    >>> make("accumulator", {"order": 2, "training.max_epochs": 5})
    Accumulator(order=2, training=Training(max_epochs=5))
    >>> make("tanh", {"heads": 2})
    Traceback (most recent call last):
    ...
    ValueError: model 'tanh' has no option 'heads'. It has: order, hidden, formula, layer_norm, ...
    """
    if isinstance(model, Model):
        made = clone(model)
    elif isinstance(model, str):
        made = MODELS[check_choice("model", model, MODELS)]()
    else:
        raise TypeError(
            f"`model` must be one of {', '.join(map(repr, MODELS))} or a stopwise.models.Model; got "
            f"{model!r}. Wrap a torch module of your own as stopwise.models.Network(MyModule)."
        )
    known = [option.name for option in _options(type(made))]
    for name in settings or {}:
        if name not in known:
            guess = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {guess[0]!r}?" if guess else ""
            raise ValueError(
                f"model {made.name or type(made).__name__!r} has no option {name!r}.{hint} It has: "
                f"{', '.join(known)}."
            )
    return made.set_params(**{name.replace(".", "__"): value for name, value in (settings or {}).items()})


def rebuild(description: Mapping[str, Any], tensors: dict[str, Tensor], own: Any = None) -> Model:
    """Return the fitted model that `Model.describe` described.

    Parameters
    ----------
    description, tensors
        What `describe` and `tensors` returned.
    own
        The unfitted model, where it is of the user's own: code is never read from a file.
    """
    name = description["name"]
    if name is None:
        if not isinstance(own, Model):
            raise ValueError(
                f"the model is a {description['class']} of your own: pass it unfitted as `model`, for "
                "example load(path, model=Network(MyModule))."
            )
        model = clone(own)
        if type(model).__name__ != description["class"]:
            raise ValueError(f"`model` must be a {description['class']}; got {type(model).__name__}.")
    else:
        if own is not None:
            raise ValueError(f"`model` goes with a model of your own; this folder holds {name!r}.")
        kind = MODELS[check_choice("model", name, MODELS)]
        params = dict(description["params"])
        for nested, made in NESTED.items():
            if params.get(nested) is not None:
                params[nested] = made(**params[nested])
        model = kind(**params)
    model.restore(description["fitted"], tensors)
    model.report_ = description["report"]
    return model


def _options(kind: type[BaseEstimator]) -> list[Option]:
    found = []
    for name, parameter in inspect.signature(kind).parameters.items():
        if name in NESTED:
            nested = _options(NESTED[name])
            found += [option._replace(name=f"{name}.{option.name}") for option in nested]
        else:
            found.append(Option(name, parameter.default, _meaning(kind, name)))
    return found


def _meaning(kind: type[BaseEstimator], name: str) -> str:
    """Return what the docstring of a class says of a parameter, in one line."""
    _, _, section = (inspect.getdoc(kind) or "").partition("Parameters\n----------\n")
    for names, text in re.findall(r"^(\w[\w, ]*)\n((?:[ ]+.*\n?|\n(?=[ ]))+)", section, flags=re.M):
        if name in names.split(", "):
            meaning = " ".join(text.split())
            elsewhere = re.match(r"As for `(\w+)`", meaning) or re.search(r"as for `(\w+)`\.$", meaning)
            for other in MODELS.values():
                if elsewhere and other.__name__ == elsewhere[1] and other is not kind:
                    return _meaning(other, name)
            return meaning
    return ""
