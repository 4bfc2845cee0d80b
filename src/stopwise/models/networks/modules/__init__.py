"""Temporal integrators: networks that turn a growing series into the evidence for each class.

Each is one file with the fast form it needs beside it. `build` makes one by its public name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from stopwise.models.networks.modules.accumulator import Accumulator
from stopwise.models.networks.modules.activations import b2bsqrt
from stopwise.models.networks.modules.base import Evidence, Integrator, WindowIntegrator
from stopwise.models.networks.modules.lstm import LSTMIntegrator
from stopwise.models.networks.modules.transformer import Tandemformer
from stopwise.validation import check_choice

__all__ = [
    "MODELS",
    "Accumulator",
    "Evidence",
    "Integrator",
    "LSTMIntegrator",
    "Tandemformer",
    "WindowIntegrator",
    "b2bsqrt",
    "build",
]

MODELS = ("accumulator", "b2bsqrt", "tandemformer", "lstm")


def build(
    model: str | Callable[..., Integrator],
    *,
    features: int,
    classes: int,
    order: int,
    longest: bool,
    formula: str = "tandem",
    **params: Any,
) -> Integrator:
    """Build an integrator.

    Parameters
    ----------
    model
        A name in `MODELS`, or a callable that takes features, classes and order (an `Integrator` class).
    features, classes, order, formula
        As for `WindowIntegrator`.
    longest
        Whether the order is the longest the series allow: the accumulator then reads all samples so far
        (body="lstm") and not a window of the last ones.
    params
        Further arguments of the model.

    Examples
    --------
    >>> type(build("b2bsqrt", features=2, classes=2, order=3, longest=False)).__name__
    'LSTMIntegrator'
    """
    if not isinstance(model, str):
        return _own(model, features, classes, order, formula, params)
    check_choice("model", model, MODELS)
    if model == "accumulator":
        _check_params(Accumulator, params)
        return _accumulator(features, classes, order, longest, formula, params)
    if model == "tandemformer":
        _check_params(Tandemformer, params)
        return Tandemformer(features, classes, order, formula, **params)
    _check_params(LSTMIntegrator, params, taken="activation")
    activation = "b2bsqrt" if model == "b2bsqrt" else "tanh"
    return LSTMIntegrator(features, classes, order, formula, activation=activation, **params)


def _check_params(maker: type[Integrator], params: dict[str, Any], taken: str = "") -> None:
    """Refuse what is not a keyword argument of a network, or is `taken` by the model's name."""
    known = [p.name for p in inspect.signature(maker).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in params:
        check_choice("model_params", name, [one for one in known if one != taken])


def _accumulator(
    features: int, classes: int, order: int, longest: bool, formula: str, params: dict[str, Any]
) -> Accumulator:
    if formula != "tandem":
        raise ValueError(
            f"`formula` must be 'tandem' for model='accumulator', which adds increments; got {formula!r}."
        )
    params = {"body": "lstm" if longest else "window"} | params
    if params["body"] == "lstm" and not longest:
        raise ValueError(
            f"`order` must be None with body='lstm', which reads all samples so far; got order={order}. "
            "Use body='window' for a finite order."
        )
    return Accumulator(features, classes, order, **params)


def _own(
    model: Callable[..., Integrator],
    features: int,
    classes: int,
    order: int,
    formula: str,
    params: dict[str, Any],
) -> Integrator:
    if not callable(model):
        raise TypeError(
            f"`model` must be one of {', '.join(map(repr, MODELS))} or a callable that makes an Integrator "
            f"from (features, classes, order); got {model!r}."
        )
    if formula != "tandem":
        raise ValueError(
            f"`formula` is not handed to a model of your own; got {formula!r}. Let the model choose it, or "
            "take it from `model_params`."
        )
    try:
        inspect.signature(model).bind(features, classes, order, **params)
    except TypeError as error:
        raise TypeError(
            f"`model` must take (features, classes, order) and the `model_params` "
            f"{', '.join(map(repr, params)) or '(none given)'}; {error}."
        ) from error
    net = model(features, classes, order, **params)
    if not isinstance(net, Integrator):
        raise TypeError(f"`model` must make an Integrator; it made a {type(net).__name__}.")
    return net
