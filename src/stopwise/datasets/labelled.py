"""What a file of series holds: series, labels, lengths and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.validation import check_lengths

Series = np.ndarray | list[np.ndarray]


@dataclass(frozen=True, eq=False, repr=False)
class LabelledSeries:
    """Series with their labels, as read from a file.

    Parameters
    ----------
    X
        (n, T, d) or (n, T) array when all series are of one length, else a list of (T_i, d) or (T_i,) arrays.
    y
        (n,) labels, or None where the file has none.
    lengths
        (n,) numbers of steps.
    names
        The n names of the series, or None where the file has none.
    features
        The d names of the features, or None where the file has none.

    Examples
    --------
    >>> import numpy as np
    >>> LabelledSeries(X=np.zeros((3, 20, 2)), y=np.array([0, 1, 1]), lengths=np.array([20, 20, 20]))
    LabelledSeries(3 series of 20 steps, 2 classes)
    """

    X: Series
    y: np.ndarray | None
    lengths: np.ndarray
    names: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        low, high = int(self.lengths.min()), int(self.lengths.max())
        steps = f"{low}" if low == high else f"{low} to {high}"
        labels = "no labels" if self.y is None else f"{len(np.unique(self.y))} classes"
        return f"LabelledSeries({len(self)} series of {steps} steps, {labels})"


def from_padded(
    path: Path, X: np.ndarray, y: np.ndarray | None, lengths: np.ndarray | None
) -> LabelledSeries:
    """Check what was read from `path` and cut padded series at their own ends where lengths vary."""
    try:
        n, steps = check_array("X", X).shape[:2]
        if y is not None:
            check_labels(y, n)
        ends = check_lengths(lengths, n, steps)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    if (ends == steps).all():
        return LabelledSeries(X, y, ends)
    return LabelledSeries([series[:end] for series, end in zip(X, ends)], y, ends)


def to_padded(X: Any, lengths: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return series as one array padded with zeros at the end, and lengths, None if all are full."""
    if not isinstance(X, list | tuple):
        array = check_array("X", np.asarray(X))
        ends = check_lengths(lengths, *array.shape[:2])
        return array, (None if (ends == array.shape[1]).all() else ends)
    if lengths is not None:
        raise ValueError(
            "`lengths` goes with a padded array; a list of series knows its lengths. Leave it out."
        )
    return _pad(X)


def _pad(series: Sequence[Any]) -> tuple[np.ndarray, np.ndarray | None]:
    """Pad a list of (T_i,) or (T_i, d) arrays."""
    arrays = [np.asarray(one) for one in series]
    if not arrays:
        raise ValueError("`X` must hold at least one series; got an empty list.")
    for i, one in enumerate(arrays):
        if one.ndim not in (1, 2) or not len(one) or one.shape[1:] != arrays[0].shape[1:]:
            raise ValueError(
                f"`X` as a list must hold arrays (T_i, d) with T_i >= 1 and one d for all, or arrays (T_i,); "
                f"series 0 has shape {arrays[0].shape}, series {i} has shape {one.shape}."
            )
    ends = np.array([len(one) for one in arrays])
    shape = (len(arrays), ends.max(), *arrays[0].shape[1:])
    padded = check_array("X", np.zeros(shape, np.result_type(*arrays)))
    for row, one in zip(padded, arrays):
        row[: len(one)] = one
    return padded, (None if (ends == ends.max()).all() else ends)


def check_array(name: str, X: np.ndarray) -> np.ndarray:
    """Return `X` if it is a non-empty array (n, T, d) or (n, T) of real numbers."""
    if X.dtype.kind not in "fiub":
        raise ValueError(f"`{name}` must hold real numbers; got dtype {X.dtype}.")
    if X.ndim not in (2, 3) or 0 in X.shape:
        raise ValueError(
            f"`{name}` must have shape (n, T, d) or (n, T), none of them 0; got shape {X.shape}."
        )
    return X


def check_labels(y: np.ndarray, n: int) -> np.ndarray:
    """Return `y` if it is an array (n,) of whole numbers or strings."""
    if y.shape != (n,):
        raise ValueError(f"`y` must have shape ({n},), one label per series; got shape {y.shape}.")
    if y.dtype.kind == "U" and (y == "").any():
        raise ValueError("`y` must not hold an empty string; name the class, or leave `y` out.")
    if y.dtype.kind not in "iuU":
        raise ValueError(
            f"`y` must hold whole numbers or strings; got dtype {y.dtype}. Convert with y.astype."
        )
    return y
