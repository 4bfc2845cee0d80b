"""Labeled series read from a file, and checks of the arrays that are read and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.data.series import SeriesSet
from stopwise.validation import check_lengths, check_one_per_item

Series = np.ndarray | list[np.ndarray] | SeriesSet


@dataclass(frozen=True, eq=False, repr=False)
class LabeledSeries:
    """Series with their labels, as read from a file.

    Parameters
    ----------
    X
        (n, T, d) or (n, T) array if all series have the same length, else a list of (T_i, d) or (T_i,)
        arrays; a `SeriesSet` if it comes from a data frame.
    y
        (n,) labels, or None if the file has none.
    lengths
        (n,) numbers of steps.
    names
        The n names of the series, or None if the file has none.
    channels
        The d names of the channels, or None if the file has none.
    groups
        (n,) group of each series, such as the patient, or None.

    Examples
    --------
    >>> import numpy as np
    >>> LabeledSeries(X=np.zeros((3, 20, 2)), y=np.array([0, 1, 1]), lengths=np.array([20, 20, 20]))
    LabeledSeries(3 series of 20 steps, 2 classes)
    """

    X: Series
    y: np.ndarray | None
    lengths: np.ndarray
    names: tuple[str, ...] | None = None
    channels: tuple[str, ...] | None = None
    groups: np.ndarray | None = None

    @property
    def series(self) -> SeriesSet:
        """X as a `SeriesSet` with the names of the channels, which classifiers match by name."""
        return SeriesSet(self.X, channel_names=self.channels)

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        low, high = int(self.lengths.min()), int(self.lengths.max())
        steps = f"{low}" if low == high else f"{low} to {high}"
        labels = "no labels" if self.y is None else f"{len(np.unique(self.y))} classes"
        return f"LabeledSeries({len(self)} series of {steps} steps, {labels})"


def from_list(
    series: list[np.ndarray],
    y: np.ndarray | None,
    names: tuple[str, ...] | None = None,
    channels: tuple[str, ...] | None = None,
) -> LabeledSeries:
    """Return series (T_i, d) as one array if all have the same length, else as a list."""
    lengths = np.array([len(one) for one in series])
    X = np.stack(series) if (lengths == lengths[0]).all() else series
    return LabeledSeries(X, y, lengths, names, channels)


def from_padded(path: Path, X: np.ndarray, y: np.ndarray | None, lengths: np.ndarray | None) -> LabeledSeries:
    """Check arrays read from `path`; if the lengths vary, split X into a list without padding."""
    try:
        n, steps = check_array("X", X).shape[:2]
        if y is not None:
            check_storable_labels(y, n)
        lengths = check_lengths(lengths, n, steps)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    if (lengths == steps).all():
        return LabeledSeries(X, y, lengths)
    return LabeledSeries([series[:length] for series, length in zip(X, lengths)], y, lengths)


def to_padded(X: Any, lengths: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return series as one array padded with zeros at the end, and their lengths, None if all are equal."""
    if not isinstance(X, list | tuple):
        array = check_array("X", np.asarray(X))
        lengths = check_lengths(lengths, *array.shape[:2])
        return array, (None if (lengths == array.shape[1]).all() else lengths)
    if lengths is not None:
        raise ValueError(
            "`lengths` can only be used with a padded array; in a list, each series has its own length. "
            "Omit `lengths`."
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
                "`X` as a list must hold arrays (T_i, d) with T_i >= 1 and the same d, or arrays (T_i,); "
                f"series 0 has shape {arrays[0].shape}, series {i} has shape {one.shape}."
            )
    lengths = np.array([len(one) for one in arrays])
    shape = (len(arrays), lengths.max(), *arrays[0].shape[1:])
    padded = check_array("X", np.zeros(shape, np.result_type(*arrays)))
    for row, one in zip(padded, arrays):
        row[: len(one)] = one
    return padded, (None if (lengths == lengths.max()).all() else lengths)


def check_array(name: str, X: np.ndarray) -> np.ndarray:
    """Return `X` if it is a non-empty array (n, T, d) or (n, T) of real numbers."""
    if X.dtype.kind not in "fiub":
        raise ValueError(f"`{name}` must hold real numbers; got dtype {X.dtype}.")
    if X.ndim not in (2, 3) or 0 in X.shape:
        raise ValueError(
            f"`{name}` must have shape (n, T, d) or (n, T), none of them 0; got shape {X.shape}."
        )
    return X


def check_storable_labels(y: Any, n: int) -> np.ndarray:
    """Return `y` as an array (n,) of integers or strings, which every file format can hold."""
    y = check_one_per_item(y, n)
    if y.dtype.kind == "U" and (y == "").any():
        raise ValueError("`y` must not contain empty strings; name the class, or omit `y`.")
    if y.dtype.kind not in "iuU":
        raise ValueError(
            f"`y` must hold integers or strings; got dtype {y.dtype}. Convert it with `y.astype`."
        )
    return y
