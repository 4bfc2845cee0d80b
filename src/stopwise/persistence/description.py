"""JSON description of a fitted classifier, saved together with its tensors."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from stopwise import rules
from stopwise.data.fingerprints import Fingerprints
from stopwise.data.held_out import HeldOut
from stopwise.data.inputs import MISSING, Inputs, check_standardize
from stopwise.data.labels import check_prior_setting
from stopwise.persistence.digests import canonical, digest_tensors
from stopwise.persistence.folder import ModelFolderError, Stored
from stopwise.rules import Rule
from stopwise.rules.arrays import check_prior
from stopwise.validation import check_choice, check_integer, check_names

LABEL_TYPES = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|object|<U\d{1,9}")


def describe(clf: Any) -> dict[str, Any]:
    """Return the description of a fitted `EarlyClassifier` as plain values; `restore` reads it."""
    for rule in (clf.rule, clf.rule_):
        if rule is not None:
            rule.check_saveable()
    _check_labels_saveable(clf.classes_)
    params = {name: getattr(clf, name) for name in ("standardize", "missing", "progress", "random_state")}
    return {
        "scoring": scoring_digest(clf),
        "params": params | {"rule": None if clf.rule is None else clf.rule.to_dict()},
        "classes": _classes_to_json(clf.classes_),
        "prior": clf.prior if isinstance(clf.prior, str) else None,
        "shares": clf.prior_.tolist(),
        "steps": clf.n_steps_,
        "channel_names": None if clf.channel_names_ is None else list(clf.channel_names_),
        "inputs": clf.inputs_.to_dict(),
        "model": clf.model_.describe(),
        "rule": clf.rule_.to_dict(),
        # Whether the fit had held-out scores, also if they are not saved.
        "held_out": clf._held_out is not None or clf._held_out_lost,
    }


def scoring_digest(clf: Any) -> str:
    """Return the hash of all that determines the scores: weights, settings of the model, inputs and classes.

    Stream states carry it, so that they are only accepted by the model that created them. The stopping rule
    is not part of it: streams go on under a new rule. A model that cannot be saved gets a random value, so
    its stream states are valid only in this process.
    """
    try:
        tensors = clf.model_.tensors()
    except TypeError:
        return secrets.token_hex(32)
    return _scoring(
        clf.model_.describe(), clf.inputs_.to_dict(), _classes_to_json(clf.classes_), dict(tensors)
    )


def check_scoring(about: Mapping[str, Any], tensors: dict[str, Tensor]) -> str:
    """Return the scoring digest of a description; raise an error if it does not fit the tensors."""
    if about["scoring"] != _scoring(about["model"], about["inputs"], about["classes"], tensors):
        raise ModelFolderError(
            "the weights do not belong to this description: the scoring digest differs. Save the model again."
        )
    return about["scoring"]


def parameters(about: dict[str, Any], rule: type[Rule] | None) -> dict[str, Any]:
    """Return the constructor arguments except the model; `rule` is the class of a custom rule, or None."""
    params = dict(about["params"])
    check_standardize(params["standardize"])
    check_choice("missing", params["missing"], MISSING)
    check_integer("random_state", params["random_state"], 0)
    params["rule"] = None if params["rule"] is None else read_rule(params["rule"], rule)
    if about["prior"] is not None:
        check_prior_setting(about["prior"])
        return params | {"prior": about["prior"]}
    names = _classes_from_json(about["classes"]).tolist()
    return params | {"prior": dict(zip(names, about["shares"]))}


def restore(clf: Any, stored: Stored, rule: type[Rule] | None) -> None:
    """Set the fitted attributes of a classifier except the model."""
    about = stored.about
    clf.classes_ = _classes_from_json(about["classes"])
    clf.prior_ = np.array(check_prior(about["shares"], len(clf.classes_)))
    clf.n_steps_ = check_integer("steps", about["steps"], 1)
    clf.inputs_ = Inputs.from_dict(about["inputs"])
    clf.n_channels_ = clf.inputs_.channels
    _check_sizes(clf, about["model"]["fitted"])
    names = about["channel_names"]
    clf.channel_names_ = None if names is None else check_names("channel_names", names, clf.n_channels_)
    clf.rule_ = read_rule(about["rule"], rule)
    # A rule for another number of classes raises an error here instead of at the first decision.
    clf.rule_.with_prior(clf.prior_).accept(np.zeros((1, len(clf.classes_))), 1)
    seen = stored.fingerprints
    clf._seen = None if seen is None else Fingerprints.from_text(seen)
    clf._held_out = None if stored.held_out is None else _held_out(stored.held_out, len(clf.classes_))
    if not isinstance(about["held_out"], bool):
        raise ValueError(f"`held_out` must be true or false; got {about['held_out']!r:.50}.")
    clf._held_out_lost = about["held_out"] and clf._held_out is None


def _held_out(tensors: Mapping[str, Tensor], classes: int) -> HeldOut:
    return HeldOut.from_arrays({name: tensor.numpy() for name, tensor in tensors.items()}, classes)


def check_custom_rule(about: dict[str, Any], custom: type[Rule] | None) -> None:
    """Raise an error if the class of a custom rule is given, but no rule of the description is of it."""
    if custom is None:
        return
    named = [values.get("rule") for values in (about["rule"], about["params"]["rule"]) if values is not None]
    if custom.__name__ not in named:
        own = [name for name in named if name not in rules.__all__]
        remedy = (
            f"Pass the class {own[0]!s:.80}." if own else "Omit `rule`; to change the rule, set `clf.rule_`."
        )
        raise ModelFolderError(
            f"`rule` must be the class of a custom rule of this folder, which holds {named[0]!s:.80}; got "
            f"{custom.__name__}. {remedy}"
        )


def read_rule(values: dict[str, Any], custom: type[Rule] | None) -> Rule:
    """Return the rule that `to_dict` described: a rule of stopwise, or of the class `custom`."""
    if custom is not None and values.get("rule") == custom.__name__:
        return custom.from_dict(values)
    if values.get("rule") not in rules.__all__:
        raise ModelFolderError(
            f"the stopping rule {values.get('rule')} is not part of stopwise: pass its class as `rule`."
        )
    return rules.from_dict(values)


def _scoring(
    model: Mapping[str, Any], inputs: dict[str, Any], classes: dict[str, Any], tensors: dict[str, Tensor]
) -> str:
    # Nested settings are those of training.
    params = {name: value for name, value in model["params"].items() if not isinstance(value, dict)}
    about = {"name": model["name"], "class": model["class"], "params": params, "fitted": model["fitted"]}
    return digest_tensors(tensors, canonical({"model": about, "inputs": inputs, "classes": classes}))


def _check_sizes(clf: Any, fitted: Mapping[str, Any]) -> None:
    """Raise a ValueError if the model has other numbers of classes or channels than the description."""
    expected = {"classes": len(clf.classes_), "channels": clf.inputs_.model_channels}
    for name, count in expected.items():
        if fitted[name] != count:
            raise ValueError(f"the model has {fitted[name]!r:.20} {name}, but the description has {count}.")


def _check_labels_saveable(classes: np.ndarray) -> None:
    """Raise an error if the labels would change when they are saved and loaded."""
    values = classes.tolist()
    if not all(isinstance(value, bool | int | float | str) for value in values):
        raise ModelFolderError(
            f"labels of type {type(values[0]).__name__} cannot be saved: use numbers or strings."
        )
    _classes_from_json(_classes_to_json(classes))


def _classes_to_json(classes: np.ndarray) -> dict[str, Any]:
    values = classes.tolist()
    # The shortest type that holds the labels: they may come from an array with longer strings.
    kind = f"<U{max(map(len, values))}" if classes.dtype.kind == "U" else str(classes.dtype)
    return {"dtype": kind, "values": values}


def _classes_from_json(stored: dict[str, Any]) -> np.ndarray:
    kind, values = stored["dtype"], stored["values"]
    if not isinstance(kind, str) or not LABEL_TYPES.fullmatch(kind):
        raise ModelFolderError(f"labels of type {kind!r:.50} cannot be read: use numbers or strings.")
    longest = max((len(value) for value in values if isinstance(value, str)), default=1)
    # The type is compared before memory is allocated for it.
    if kind[:2] == "<U" and kind != f"<U{longest}":
        raise ModelFolderError(f"labels of type {kind!r} have at most {longest} characters.")
    classes = np.array(values, dtype=kind)
    if classes.ndim != 1 or len(classes) < 2 or _json_type(classes.tolist()) != _json_type(values):
        raise ModelFolderError(f"`classes` must be at least 2 labels of type {kind}; got {values!r:.100}.")
    if not (classes[:-1] < classes[1:]).all():
        raise ModelFolderError(f"`classes` must be distinct and sorted; got {values!r:.100}.")
    return classes


def _json_type(values: Any) -> list[tuple[type, Any]]:
    return [(type(value), value) for value in values]
