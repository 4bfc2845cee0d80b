"""Labels as class indices: those of the training say which classes there are, others must be among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d


def learn_classes(y: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes (K,) among the labels of n series, and each one's index (n,).

    Examples
    --------
    >>> classes, indices = learn_classes(["walk", "sit", "walk"], 3)
    >>> classes.tolist(), indices.tolist()
    (['sit', 'walk'], [1, 0, 1])
    """
    if y is None:
        raise ValueError("`y` is None: EarlyClassifier requires y to be passed, but the target y is None.")
    labels = column_or_1d(y, warn=True)
    if len(labels) != n:
        raise ValueError(f"`y` must have one label per series: {n}; got {len(labels)}.")
    check_classification_targets(labels)
    classes, indices = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"`y` must hold at least 2 classes; got 1 class ({classes[0]!r}). There is nothing to tell apart."
        )
    return classes, indices.astype(np.int64)


def known_indices(name: str, labels: Any, n: int, classes: np.ndarray) -> np.ndarray:
    """Return the indices (n,) of labels that must be among the classes (K,); `name` is for the message.

    Examples
    --------
    >>> known_indices("y", ["walk", "sit"], 2, np.array(["sit", "walk"])).tolist()
    [1, 0]
    """
    labels = np.asarray(labels)
    if labels.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one label per series; got {labels.shape}.")
    known = classes.tolist()
    unknown = [label for label in np.unique(labels).tolist() if label not in known]
    if unknown:
        raise ValueError(
            f"{name} has labels that were not in training: {', '.join(map(repr, unknown[:5]))}; known "
            f"are {', '.join(map(repr, known[:10]))}."
        )
    return np.searchsorted(classes, labels)
