"""JSON description of a fitted classifier, saved together with its tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise import rules
from stopwise.data.fingerprints import Fingerprints
from stopwise.data.inputs import Inputs
from stopwise.persistence.folder import ModelFolderError
from stopwise.rules import Rule
from stopwise.validation import check_names


def describe(clf: Any) -> dict[str, Any]:
    """Return the description of a fitted `EarlyClassifier` as plain values; `restore` reads it."""
    for rule in (clf.rule, clf.rule_):
        if rule is not None:
            rule.check_saveable()
    params = {name: getattr(clf, name) for name in ("standardize", "missing", "progress", "random_state")}
    return {
        "params": params | {"rule": None if clf.rule is None else clf.rule.to_dict()},
        "classes": _classes_to_json(clf.classes_),
        "prior": clf.prior if isinstance(clf.prior, str) else None,
        "shares": clf.prior_.tolist(),
        "steps": clf.n_steps_,
        "channel_names": None if clf.channel_names_ is None else list(clf.channel_names_),
        "inputs": clf.inputs_.to_dict(),
        "model": clf.model_.describe(),
        "rule": clf.rule_.to_dict(),
        "fingerprints": clf._seen.to_text(),
    }


def parameters(about: dict[str, Any], rule: type[Rule] | None) -> dict[str, Any]:
    """Return the constructor arguments except the model; `rule` is the class of a custom rule, or None."""
    params = dict(about["params"])
    params["rule"] = None if params["rule"] is None else read_rule(params["rule"], rule)
    if about["prior"] is not None:
        return params | {"prior": about["prior"]}
    names = _classes_from_json(about["classes"]).tolist()
    return params | {"prior": dict(zip(names, about["shares"]))}


def restore(clf: Any, about: dict[str, Any], rule: type[Rule] | None) -> None:
    """Set the fitted attributes of a classifier except the model."""
    clf.classes_ = _classes_from_json(about["classes"])
    clf.prior_ = np.array(about["shares"], dtype=np.float64)
    clf.n_steps_, clf.inputs_ = about["steps"], Inputs.from_dict(about["inputs"])
    clf.n_channels_ = clf.inputs_.channels
    names = about["channel_names"]
    clf.channel_names_ = None if names is None else check_names("channel_names", names, clf.n_channels_)
    clf.rule_ = read_rule(about["rule"], rule)
    clf._seen = Fingerprints.from_text(about["fingerprints"])


def read_rule(values: dict[str, Any], custom: type[Rule] | None) -> Rule:
    """Return the rule that `to_dict` described: a rule of stopwise, or of the class `custom`."""
    if custom is not None and values.get("rule") == custom.__name__:
        return custom.from_dict(values)
    if custom is None and values.get("rule") not in rules.__all__:
        raise ModelFolderError(
            f"the stopping rule {values.get('rule')} is not part of stopwise: pass its class as `rule`."
        )
    return rules.from_dict(values)


def _classes_to_json(classes: np.ndarray) -> dict[str, Any]:
    values = classes.tolist()
    if not all(isinstance(value, bool | int | float | str) for value in values):
        raise ModelFolderError(
            f"labels of type {type(values[0]).__name__} cannot be saved: use numbers or strings."
        )
    return {"dtype": str(classes.dtype), "values": values}


def _classes_from_json(stored: dict[str, Any]) -> np.ndarray:
    return np.array(stored["values"], dtype=np.dtype(stored["dtype"]))
