"""Which classes occur in labeled series, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

SHOWN_NAMES = 10


def absent(y: np.ndarray, names: Sequence[Any]) -> list[Any]:
    """Return the names of the classes that no series has, for class indices y (n,)."""
    return [name for k, name in enumerate(names) if k not in y]


def check_several_classes(y: np.ndarray, names: Sequence[Any]) -> None:
    """Raise a ValueError if all series are of the same class."""
    missing = absent(y, names)
    if len(missing) >= len(names) - 1 and len(y):
        raise ValueError(
            f"`y` must contain several classes; all series are of class {names[int(y[0])]!r}. Missing: "
            f"{listed(missing)}. Give series of these classes too."
        )


def check_every_class(y: np.ndarray, names: Sequence[Any]) -> None:
    """Raise a ValueError if a class has no series."""
    missing = absent(y, names)
    if missing:
        raise ValueError(
            f"`y` must contain every class; missing: {listed(missing)}. Hold out more series, stratified by "
            "class."
        )


def listed(names: Sequence[Any]) -> str:
    """Return names as text, at most the first ten.

    Examples
    --------
    >>> listed(["ash", "elm"])
    "'ash', 'elm'"
    """
    text = ", ".join(map(repr, names[:SHOWN_NAMES]))
    return text + (f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else "")
