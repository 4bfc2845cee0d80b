"""Names and indices of classes in plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stopwise.data.labels import check_labels
from stopwise.plots.style import plain
from stopwise.validation import check_class_indices

LONGEST_LABEL = 36  # letters that fit on the axis of a panel


def class_names(classes: Sequence[Any] | None, count: int) -> list[str]:
    """Return the names of the classes as texts for a figure; without labels, they are the indices.

    Examples
    --------
    >>> class_names(None, 2), class_names(["sit", "walk"], 2)
    (['0', '1'], ['sit', 'walk'])
    """
    if classes is None:
        return [str(i) for i in range(count)]
    if len(classes) != count or len(set(map(str, classes))) != count:
        raise ValueError(
            f"`classes` must hold {count} different labels, one per class of the scores; got "
            f"{list(classes)!r:.80}."
        )
    return [plain(label) for label in classes]


def llr_label(first: str, second: str) -> str:
    r"""Return the label of an axis of LLRs, in two lines if it is long.

    Examples
    --------
    >>> llr_label("class 1", "class 0"), llr_label("the true class", "its best rival")
    ('LLR of class 1 over class 0 (nats)', 'LLR of the true class\nover its best rival (nats)')
    """
    label = f"LLR of {first} over {second} (nats)"
    return label if len(label) <= LONGEST_LABEL else f"LLR of {first}\nover {second} (nats)"


def class_indices(y: Any, n: int, count: int, classes: Sequence[Any] | None) -> np.ndarray:
    """Return class indices (n,) from labels, or if `classes` is None, from indices.

    Examples
    --------
    >>> class_indices(["walk", "sit"], 2, 2, ["walk", "sit"]).tolist()
    [0, 1]
    """
    if classes is None:
        return check_class_indices(y, n, count)
    places = {label: i for i, label in enumerate(np.asarray(classes).tolist())}
    labels = check_labels("`y`", y, n).tolist()
    unknown = [label for label in labels if label not in places]
    if unknown:
        raise ValueError(
            f"`y` must hold labels in `classes`, {', '.join(map(repr, list(places)[:10]))}; got "
            f"{unknown[0]!r}."
        )
    return np.array([places[label] for label in labels])
