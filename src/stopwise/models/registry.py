"""Registry of models and their options, for the command line, tuning and saved files."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator, clone
from torch import Tensor

from stopwise.models.base import Model
from stopwise.models.networks.accumulator import Accumulator
from stopwise.models.networks.lstm import B2BsqrtTandem, TanhTandem
from stopwise.models.networks.tandemformer import Tandemformer
from stopwise.models.networks.training.config import Training
from stopwise.models.prefix.model import Prefix
from stopwise.models.stack import Stack
from stopwise.validation import check_choice

MODELS: dict[str, type[Model]] = {
    "accumulator": Accumulator,
    "auto": Stack,
    "b2bsqrt": B2BsqrtTandem,
    "prefix": Prefix,
    "tandemformer": Tandemformer,
    "tanh": TanhTandem,
}
# Parameters whose values are estimators with their own parameters. None stands for the default instance.
NESTED: dict[str, type[BaseEstimator]] = {"training": Training}

# Settings of the paper, for balanced classes. Usage: B2BsqrtTandem(**PAPER_GAUSSIAN).
PAPER_GAUSSIAN: dict[str, Any] = {"order": None, "llre_ratio": 1.0, "polish": False}
PAPER_REAL: dict[str, Any] = {"order": 10, "loss": "lsel", "llre_ratio": 0.5, "polish": False}


class Option(NamedTuple):
    """Option of a model.

    Parameters
    ----------
    name
        Name of the option. Names of nested options contain a dot, as in ``training.max_epochs``.
    default
        Default value.
    meaning
        Description.
    """

    name: str
    default: Any
    meaning: str


def options(model: str) -> list[Option]:
    """List the options of a model.

    Parameters
    ----------
    model
        Name of the model, a key of `MODELS`.

    Returns
    -------
    options
        Name, default and description of each option. Names of nested options contain a dot, as in
        ``training.max_epochs``.

    Examples
    --------
    >>> from stopwise.models import options
    >>> [option.name for option in options("tanh")][:3]
    ['order', 'hidden', 'formula']
    >>> {option.name: option.default for option in options("tanh")}["training.max_epochs"]
    50
    """
    return _options(MODELS[check_choice("model", model, MODELS)])


def make(model: str | Model, settings: Mapping[str, Any] | None = None) -> Model:
    """Create an unfitted model from a name or from another model, and set options.

    Parameters
    ----------
    model
        Name of the model, a key of `MODELS`, or a model to copy.
    settings
        Values of options by name. Names of nested options contain a dot, as in ``training.max_epochs``.

    Returns
    -------
    model
        A new model. A model passed as argument is not changed.

    Raises
    ------
    ValueError
        If the model has no such name or option.
    TypeError
        If `model` is neither a name nor a model.

    Examples
    --------
    >>> from stopwise.models import make
    >>> make("accumulator", {"order": 2, "training.max_epochs": 5})
    Accumulator(order=2, training=Training(max_epochs=5))
    >>> make("tanh", {"heads": 2})
    Traceback (most recent call last):
    ...
    ValueError: model 'tanh' has no option 'heads'. It is an option of 'tandemformer'. It has: order, ...
    """
    if isinstance(model, Model):
        made = clone(model)
    elif isinstance(model, str):
        made = MODELS[check_choice("model", model, MODELS)]()
    else:
        raise TypeError(
            f"`model` must be one of {', '.join(map(repr, MODELS))} or a stopwise.models.Model; got "
            f"{model!r}. Wrap a custom torch module as stopwise.models.Network(MyModule)."
        )
    known = [option.name for option in _options(type(made))]
    for name in settings or {}:
        if name not in known:
            guess = difflib.get_close_matches(name, known, n=1)
            others = [other for other, kind in MODELS.items() if name in {one.name for one in _options(kind)}]
            hint = f" Did you mean {guess[0]!r}?" if guess else ""
            hint = hint or (f" It is an option of {', '.join(map(repr, others))}." if others else "")
            raise ValueError(
                f"model {made.name or type(made).__name__!r} has no option {name!r}.{hint} It has: "
                f"{', '.join(known)}."
            )
    return made.set_params(**{name.replace(".", "__"): value for name, value in (settings or {}).items()})


def rebuild(description: Mapping[str, Any], tensors: dict[str, Tensor], own: Any = None) -> Model:
    """Rebuild a fitted model from its description and tensors.

    Parameters
    ----------
    description
        Description returned by `Model.describe`.
    tensors
        Tensors returned by `Model.tensors`.
    own
        Unfitted instance of a custom model. It is required because code is never read from a file. Must be
        None for a built-in model.
    """
    name = description["name"]
    if name is None:
        if not isinstance(own, Model):
            raise ValueError(
                f"the saved model is of the custom class {description['class']}: pass an unfitted instance "
                "as `model`, for example load(path, model=Network(MyModule))."
            )
        model = clone(own)
        if type(model).__name__ != description["class"]:
            raise ValueError(f"`model` must be a {description['class']}; got {type(model).__name__}.")
    else:
        if own is not None:
            raise ValueError(
                f"`model` can only be used with a custom model; this folder holds the built-in model "
                f"{name!r}. Omit `model`."
            )
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
            found.append(Option(name, parameter.default, _meaning(kind, name)))  # type: ignore[arg-type]
    return found


@cache
def _meaning(kind: type[BaseEstimator], name: str) -> str:
    """Return the description of a parameter from the docstring of a class, as one line."""
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
