"""A fitted classifier in words: what is saved of it beside the weights, as plain JSON values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stopwise import rules
from stopwise.data.fingerprints import Fingerprints
from stopwise.persistence.folder import CheckpointError


def described(clf: Any) -> dict[str, Any]:
    """Return what `parameters` and `restore` read of a fitted `EarlyClassifier`."""
    params = clf.get_params(deep=False)
    params["rule"] = None if clf.rule is None else clf.rule.to_dict()
    if not isinstance(clf.model, str):
        params["model"] = None
    return {
        "params": params,
        "classes": _classes_to_json(clf.classes_),
        "order": clf.order_,
        "steps": clf.n_steps_,
        "channels": clf.n_channels_,
        "fill": clf._fill.tolist(),
        "rule": clf.rule_.to_dict(),
        "history": clf.history_,
        "polish": clf.polish_,
        "order_search": clf.order_search_,
        "fingerprints": clf._seen.to_text(),
    }


def parameters(about: dict[str, Any], model: Callable[..., Any] | None) -> dict[str, Any]:
    """Return the constructor's arguments; `model` is the network's maker where it was the user's own."""
    params = dict(about["params"])
    params["rule"] = None if params["rule"] is None else rules.from_dict(params["rule"])
    if params["model"] is None and model is None:
        raise CheckpointError("the network is one of your own: pass what made it as `model`.")
    return params | {"model": params["model"] or model}


def restore(clf: Any, about: dict[str, Any]) -> None:
    """Set what fitting set, but for the network."""
    clf.classes_ = _classes_from_json(about["classes"])
    clf.order_, clf.n_steps_, clf.n_channels_ = about["order"], about["steps"], about["channels"]
    clf._fill = np.array(about["fill"], dtype=np.float32)
    clf.rule_ = rules.from_dict(about["rule"])
    clf.history_, clf.polish_ = about["history"], about["polish"]
    clf.order_search_ = about["order_search"]
    clf._seen = Fingerprints.from_text(about.get("fingerprints", ""))  # older models have none


def _classes_to_json(classes: np.ndarray) -> dict[str, Any]:
    values = classes.tolist()
    if not all(isinstance(value, bool | int | float | str) for value in values):
        raise CheckpointError(
            f"Labels of type {type(values[0]).__name__} cannot be saved: use numbers or strings."
        )
    return {"dtype": str(classes.dtype), "values": values}


def _classes_from_json(stored: dict[str, Any]) -> np.ndarray:
    return np.array(stored["values"], dtype=np.dtype(stored["dtype"]))
