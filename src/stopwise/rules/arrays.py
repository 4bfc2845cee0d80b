"""Array helpers that several rules share."""

from __future__ import annotations

from typing import Any

import numpy as np


def frozen_floats(name: str, value: Any) -> np.ndarray:
    """Return a read-only float64 copy of `value`, so that a rule cannot change after it was checked."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"`{name}` must be a number or a rectangular array of numbers; got {value!r}."
        ) from None
    array.setflags(write=False)
    return array


def best_other(scores: np.ndarray) -> np.ndarray:
    """Return for each class the highest score among the other classes, (..., K)."""
    top = scores.argmax(-1)[..., None]  # (..., 1)
    rest = scores.copy()
    np.put_along_axis(rest, top, -np.inf, -1)
    others = np.repeat(np.take_along_axis(scores, top, -1), scores.shape[-1], -1)  # (..., K)
    np.put_along_axis(others, top, rest.max(-1, keepdims=True), -1)
    return others
