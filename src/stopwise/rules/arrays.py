"""Array helpers shared by the stopping rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def frozen_floats(name: str, value: Any) -> np.ndarray:
    """Return a read-only float64 copy of `value`, so that it cannot change after validation."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"`{name}` must be a number or a rectangular array of numbers; got {value!r}."
        ) from None
    array.setflags(write=False)
    return array


def best_other(scores: np.ndarray) -> np.ndarray:
    """Return, for each class, the highest score among the other classes, (..., K)."""
    top = scores.argmax(-1)[..., None]  # (..., 1)
    rest = scores.copy()
    np.put_along_axis(rest, top, -np.inf, -1)
    others = np.repeat(np.take_along_axis(scores, top, -1), scores.shape[-1], -1)  # (..., K)
    np.put_along_axis(others, top, rest.max(-1, keepdims=True), -1)
    return others


def check_prior(prior: Any, classes: int | None = None) -> np.ndarray:
    """Return prior probabilities as a read-only array (K,); `classes` is the expected K, if known."""
    array = frozen_floats("prior", prior)
    if array.ndim != 1 or len(array) < 2 or (classes is not None and len(array) != classes):
        wanted = "(K,) with K >= 2" if classes is None else f"({classes},), one per class"
        raise ValueError(f"`prior` must have shape {wanted}; got shape {array.shape}.")
    if not (array > 0).all() or not math.isclose(array.sum(), 1, rel_tol=1e-6):
        raise ValueError(
            f"`prior` must be positive and sum to 1; got {array.tolist()} with sum {array.sum():g}. "
            "Divide counts by their sum, and drop classes that cannot occur."
        )
    return array


def check_prior_fits(prior: np.ndarray | None, classes: int) -> None:
    """Raise ValueError if the prior (K,) and the scores have different numbers of classes."""
    if prior is not None and len(prior) != classes:
        raise ValueError(
            f"`prior` is for {len(prior)} classes; the scores have {classes}. Give one probability per class."
        )


def add_log_prior(scores: np.ndarray, prior: np.ndarray | None) -> np.ndarray:
    """Return `S + log prior` in float64, (..., K): log posteriors up to a constant. None means no prior."""
    if prior is None:
        return scores
    check_prior_fits(prior, scores.shape[-1])
    return np.asarray(scores, dtype=np.float64) + np.log(prior)


def check_class_labels(classes: Sequence[Any] | None, count: int) -> list[Any]:
    """Return the labels of the K classes; if `classes` is None, the labels are the class indices."""
    if classes is None:
        return list(range(count))
    labels = classes.tolist() if isinstance(classes, np.ndarray) else list(classes)
    if len(labels) != count or len(set(labels)) != count:
        raise ValueError(
            f"`classes` must hold {count} distinct labels, one per class of `scores`; got {labels}."
        )
    return labels
