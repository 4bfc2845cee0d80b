"""Argument checks shared by the whole package.

An error message names the argument, says what was expected and what was given, and how to fix it.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np


def warn(message: str) -> None:
    """Give a UserWarning that points to the line outside stopwise that led to it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "stopwise":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as an int within [low, high]."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"`{name}` must be an integer; got {value!r} ({type(value).__name__}).")
    number = int(value)
    if number < low or (high is not None and number > high):
        wanted = f">= {low}" if high is None else f"in [{low}, {high}]"
        raise ValueError(f"`{name}` must be {wanted}; got {value}.")
    return number


def check_real(
    name: str,
    value: Any,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Return `value` as a float within the interval; `open_low` and `open_high` exclude the bounds."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"`{name}` must be a number; got {value!r} ({type(value).__name__}).")
    value = float(value)
    above = value > low if open_low else value >= low
    below = value < high if open_high else value <= high
    if not (above and below):
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        raise ValueError(f"`{name}` must be in {left}{low:g}, {high:g}{right}; got {value:g}.")
    return value


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`; the error message suggests the closest choice."""
    choices = list(choices)
    if isinstance(value, str) and value in choices:
        return value
    guess = difflib.get_close_matches(str(value), choices, n=1)
    hint = f" Did you mean {guess[0]!r}?" if guess else ""
    raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}; got {value!r}.{hint}")


def check_scores(scores: Any, lengths: Any = None, *, name: str = "scores") -> tuple[np.ndarray, np.ndarray]:
    """Return scores as a float array (n, T, K) and the lengths (n,).

    Scores must be finite up to the end of each series; padding after it may hold anything.
    """
    array = np.asarray(scores)
    if array.ndim != 3:
        raise ValueError(
            f"`{name}` must have shape (n, T, K): series, steps, classes; got shape {array.shape}. "
            "For a single series, pass scores[None]."
        )
    n, steps, classes = array.shape
    if steps < 1 or classes < 2:
        raise ValueError(f"`{name}` needs at least 1 step and 2 classes; got shape {array.shape}.")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"`{name}` must hold real numbers; got dtype {array.dtype}.")
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    lengths = check_lengths(lengths, n, steps)
    # A finite sum implies finite terms. An infinite sum may be an overflow, so then each term is checked.
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum(dtype=np.float64)
    if not np.isfinite(total) and not np.isfinite(array[inside(lengths, steps)]).all():
        raise ValueError(
            f"`{name}` must be finite up to the end of every series; it contains NaN or infinity. "
            "If the series are padded to a common length, pass `lengths`."
        )
    return array, lengths


def check_lengths(lengths: Any, n: int, steps: int) -> np.ndarray:
    """Return lengths as an int array (n,), each in [1, steps]; None means that every series has all steps."""
    if lengths is None:
        return np.full(n, steps, dtype=np.int64)
    array = np.asarray(lengths)
    if array.shape != (n,):
        raise ValueError(f"`lengths` must have shape ({n},), one per series; got shape {array.shape}.")
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"`lengths` must be integers; got dtype {array.dtype}.")
    if n and (array.min() < 1 or array.max() > steps):
        raise ValueError(
            f"`lengths` must be in [1, {steps}], the number of steps; got values from {array.min()} "
            f"to {array.max()}."
        )
    return array.astype(np.int64, copy=False)


def inside(lengths: np.ndarray, steps: int) -> np.ndarray:
    """Return the mask (n, T) of the steps that lie inside each series, for lengths (n,) and T steps."""
    return np.arange(steps) < lengths[:, None]


def check_one_per_item(y: Any, n: int, *, name: str = "y", item: str = "series") -> np.ndarray:
    """Return y as an array (n,) of any type, one label per item."""
    array = np.asarray(y)
    if array.shape != (n,):
        raise ValueError(f"`{name}` must have shape ({n},), one label per {item}; got shape {array.shape}.")
    return array


def check_class_indices(y: Any, n: int, classes: int, *, name: str = "y") -> np.ndarray:
    """Return y as an int array (n,) of class indices 0..K-1."""
    array = check_one_per_item(y, n, name=name)
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(
            f"`{name}` must hold class indices 0..{classes - 1} here; got dtype {array.dtype}. "
            "Map labels with np.unique(y, return_inverse=True)."
        )
    if n and (array.min() < 0 or array.max() >= classes):
        raise ValueError(
            f"`{name}` must hold class indices in [0, {classes - 1}], as there are {classes} classes; "
            f"got values from {array.min()} to {array.max()}."
        )
    return array.astype(np.int64, copy=False)


def check_names(argument: str, names: Any, count: int) -> tuple[str, ...]:
    """Return `names` as a tuple if they are `count` distinct, non-empty strings.

    Examples
    --------
    >>> check_names("channel_names", ["u", "v"], 2)
    ('u', 'v')
    """
    texts = tuple(names) if not isinstance(names, str) else (names,)
    if len(texts) != count or len(set(texts)) < count or not all(isinstance(n, str) and n for n in texts):
        raise ValueError(f"`{argument}` must be {count} distinct, non-empty strings; got {list(texts)}.")
    return texts
