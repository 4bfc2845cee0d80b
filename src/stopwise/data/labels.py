"""Conversion of labels to class indices, and class frequencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

EMPIRICAL, UNIFORM = "empirical", "uniform"


def learn_classes(y: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct labels (K,) of n series, and the class index (n,) of each series.

    Examples
    --------
    >>> classes, indices = learn_classes(["walk", "sit", "walk"], 3)
    >>> classes.tolist(), indices.tolist()
    (['sit', 'walk'], [1, 0, 1])
    """
    labels = check_labels("`y`", y, n)
    check_classification_targets(labels)
    classes, indices = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"`y` must hold at least 2 classes; got 1 class ({classes[0]!r}).")
    return classes, indices.astype(np.int64)


def check_labels(name: str, y: Any, n: int) -> np.ndarray:
    """Return labels as an array (n,); `name` is used in error messages."""
    if y is None:
        raise ValueError(
            f"{name} is None: EarlyClassifier requires y to be passed, but the target y is None."
        )
    labels = column_or_1d(y, warn=True)
    if len(labels) != n:
        raise ValueError(f"{name} must have one label per series: {n}; got {len(labels)}.")
    return labels


def known_indices(name: str, labels: Any, n: int, classes: np.ndarray) -> np.ndarray:
    """Return the class indices (n,) of labels, which must be among the classes (K,).

    `name` is the name of the argument in error messages.

    Examples
    --------
    >>> known_indices("`y`", ["walk", "sit"], 2, np.array(["sit", "walk"])).tolist()
    [1, 0]
    """
    labels = check_labels(name, labels, n)
    known = classes.tolist()
    unknown = [label for label in np.unique(labels).tolist() if label not in known]
    if unknown:
        raise ValueError(
            f"{name} has labels that were not in training: {', '.join(map(repr, unknown[:5]))}; known "
            f"labels are {', '.join(map(repr, known[:10]))}."
        )
    return np.searchsorted(classes, labels)


def by_index(name: str, values: Any, classes: np.ndarray) -> Any:
    """Convert a dict {label: value} to {class index: value}; return anything else unchanged.

    `name` is the name of the argument in error messages.

    Examples
    --------
    >>> by_index("`error_rate`", {"walk": 0.1}, np.array(["sit", "walk"]))
    {1: 0.1}
    """
    if not isinstance(values, Mapping):
        return values
    places = known_indices(name, list(values), len(values), classes)
    return dict(zip(places.tolist(), values.values()))


def check_prior_setting(prior: Any) -> None:
    """Raise a ValueError if `prior` is not "empirical", "uniform" or a dict."""
    if not isinstance(prior, Mapping) and not (isinstance(prior, str) and prior in (EMPIRICAL, UNIFORM)):
        raise ValueError(
            f"`prior` must be {EMPIRICAL!r} (frequencies of the training data), {UNIFORM!r} or a dict "
            f"{{label: share}}; got {prior!r}."
        )


def class_shares(prior: str | Mapping[Any, float], classes: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return the class frequencies (K,) that `prior` stands for.

    Parameters
    ----------
    prior
        "empirical", "uniform", or {label: share} for every class.
    classes
        (K,) class labels.
    indices
        (n,) class indices of the training series.

    Examples
    --------
    >>> class_shares("empirical", np.array(["a", "b"]), np.array([0, 0, 0, 1])).tolist()
    [0.75, 0.25]
    >>> class_shares({"a": 0.1, "b": 0.9}, np.array(["a", "b"]), np.array([0, 1])).tolist()
    [0.1, 0.9]
    """
    check_prior_setting(prior)
    if isinstance(prior, str):
        counts = np.bincount(indices, minlength=len(classes))
        return counts / counts.sum() if prior == EMPIRICAL else np.full(len(classes), 1 / len(classes))
    known = classes.tolist()
    wrong = [label for label in prior if label not in known] + [one for one in known if one not in prior]
    if wrong:
        raise ValueError(
            f"`prior` must give a share for each of the classes {', '.join(map(repr, known[:10]))} and no "
            f"other; {', '.join(map(repr, wrong[:5]))} is missing or unknown."
        )
    try:
        shares = np.array([float(prior[label]) for label in known])
    except (TypeError, ValueError):
        raise TypeError(f"`prior` must hold numbers; got {dict(prior)!r}.") from None
    if not (shares > 0).all() or not np.isclose(shares.sum(), 1, rtol=1e-6):
        raise ValueError(
            f"`prior` must be positive and sum to 1; got {shares.tolist()} with sum {shares.sum():g}."
        )
    return shares
