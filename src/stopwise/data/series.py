"""`SeriesSet`: a common interface to arrays, memory maps and lists of series of unequal length.

Batches are read when they are needed, so X can be larger than memory.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np

from stopwise.data.axes import check_not_long
from stopwise.validation import check_lengths, check_names, inside


class SeriesSet:
    """A set of n series with up to T steps and D channels, read in batches.

    Parameters
    ----------
    X
        (n, T, D) or (n, T): an array, a memory map, or any object with `shape`, `dtype` and indexing by
        integer arrays; or a list of n arrays (T_i, D) or (T_i,) of unequal length; or a `SeriesSet`.
        `X` is neither copied nor changed.
    lengths
        (n,) lengths, for series of unequal length that are padded to one array. None: every series has T
        steps.
    channel_names
        The D names of the channels. None: those of a `SeriesSet`, else unknown.

    Attributes
    ----------
    lengths
        (n,) number of steps of each series.
    channels, channel_names
        Number of channels D, and their names, or None.
    places
        (n,) index of each series in the original `X`.
    dtype
        Type of the arrays that `batch` returns: float32 if it represents the data exactly, else float64.

    Examples
    --------
    >>> series = SeriesSet([[1.0, 2.0, 3.0], [4.0]])
    >>> len(series), series.steps, series.channels, series.lengths.tolist()
    (2, 3, 1, [3, 1])

    Indexing returns a view of some of the series. No data are read:

    >>> series[[1]].shape
    (1, 1, 1)
    """

    _data: Any
    dtype: type[np.floating]
    places: np.ndarray
    lengths: np.ndarray
    channels: int
    channel_names: tuple[str, ...] | None

    def __init__(self, X: Any, lengths: Any = None, channel_names: Sequence[str] | None = None) -> None:
        if isinstance(getattr(X, "series", None), SeriesSet):
            raise TypeError(f"`X` is a {type(X).__name__}: pass its `series`, and its `y` as labels.")
        if isinstance(X, SeriesSet):
            self.__dict__ |= X.__dict__
        else:
            self._data, self.lengths, self._width = _gather(X)
            self.channels, self.channel_names = self._width, None
            self._columns: np.ndarray | None = None  # which channels of the data, in which order; None: all
            self.dtype = _floating(self._data)
            self.places = np.arange(len(self.lengths))
        if channel_names is not None:
            self.channel_names = check_names("channel_names", channel_names, self.channels)
        if lengths is not None:
            if isinstance(self._data, list):
                raise ValueError(
                    "`lengths` can only be used with a padded array; a list of series already has lengths. "
                    "Remove `lengths`."
                )
            self.lengths = check_lengths(lengths, len(self), self._data.shape[1])

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def steps(self) -> int:
        """T, the number of steps of the longest series."""
        return int(self.lengths.max())

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, T, D), where T is the number of steps of the longest series."""
        return len(self), self.steps, self.channels

    def with_channels(self, names: Sequence[str]) -> SeriesSet:
        """Return a view with the channels in the order of `names`. No data are read.

        Parameters
        ----------
        names
            The names of all channels, in any order.

        Examples
        --------
        >>> series = SeriesSet([[[1.0, 2.0]]], channel_names=["u", "v"])
        >>> series.with_channels(["v", "u"]).batch(np.array([0]))[0].tolist()
        [[[2.0, 1.0]]]
        """
        own = list(self.channel_names or ())
        unknown, absent = [n for n in own if n not in names], [n for n in names if n not in own]
        if unknown or absent:
            raise ValueError(
                f"`X` must have the channels {', '.join(names)}, as in training; it has "
                f"{', '.join(own) or 'no names'} (unknown: {', '.join(unknown) or 'none'}; missing: "
                f"{', '.join(absent) or 'none'}). Rename, remove or add channels."
            )
        view = SeriesSet(self)
        order = np.array([own.index(name) for name in names])
        view._columns = order if self._columns is None else self._columns[order]
        view.channel_names = tuple(names)
        return view

    def rows_of(self, numbers: int) -> int:
        """Return how many series together hold about `numbers` values; at least 1."""
        return max(1, numbers // (self.steps * self.channels))

    def __getitem__(self, rows: Any) -> SeriesSet:
        chosen = np.atleast_1d(np.arange(len(self))[rows])
        if not len(chosen):
            raise ValueError(f"`X` must have at least 1 series; the index {rows!r} selects 0 series.")
        view = SeriesSet(self)
        view.places, view.lengths = self.places[chosen], self.lengths[chosen]
        return view

    def __getstate__(self) -> dict[str, Any]:
        """Pickle a memory map as a reference to its file, so that several processes can share it."""
        data = [_Mapped.of(x) for x in self._data] if isinstance(self._data, list) else _Mapped.of(self._data)
        return self.__dict__ | {"_data": data}

    def __setstate__(self, state: dict[str, Any]) -> None:
        data = state["_data"]
        opened = [_Mapped.open(x) for x in data] if isinstance(data, list) else _Mapped.open(data)
        self.__dict__ |= state | {"_data": opened}

    def batch(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Read some of the series, without any conversion except of the type.

        Parameters
        ----------
        rows
            (B,) indices of the series.

        Returns
        -------
        x
            (B, T, D) values, float32 or float64, zero after the end of each series. T is the length of the
            longest of these series.
        lengths
            (B,) lengths of these series.

        Examples
        --------
        >>> x, lengths = SeriesSet([[1.0, 2.0, 3.0], [4.0]]).batch(np.array([0, 1]))
        >>> x[..., 0].tolist(), lengths.tolist()
        ([[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]], [3, 1])
        """
        lengths, places = self.lengths[rows], self.places[rows]
        steps = int(lengths.max())
        if isinstance(self._data, list):
            x = np.zeros((len(places), steps, self._width), dtype=self.dtype)
            for own, i, length in zip(x, places, lengths):
                own[:length] = np.reshape(self._data[i], (length, self._width))
            return self._ordered(x), lengths
        part = np.asarray(self._data[places])[:, :steps]
        x = self._ordered(part.astype(self.dtype, copy=False).reshape(len(places), steps, self._width))
        if (lengths < steps).any():
            x = np.where(inside(lengths, steps)[..., None], x, x.dtype.type(0))
        return x, lengths

    def _ordered(self, x: np.ndarray) -> np.ndarray:
        """Return the channels of x (B, T, D) in their order."""
        return x if self._columns is None else np.ascontiguousarray(x[..., self._columns])


class _Mapped:
    """A reference to a memory map that can be pickled: file, offset, type and shape."""

    def __init__(self, data: np.memmap) -> None:
        order = "C" if data.flags.c_contiguous else "F"
        self.arguments: tuple[Any, ...] = (data.filename, data.dtype, "r", data.offset, data.shape, order)

    @staticmethod
    def of(data: Any) -> Any:
        """Return a reference to a complete memory map, and anything else (also a part of a map) unchanged."""
        # A view of a map has the file and offset of the whole map, so it cannot be opened by these. Its base
        # is the map, not an mmap object.
        whole = isinstance(data, np.memmap) and isinstance(data.base, mmap.mmap)
        # Changes of a copy-on-write map are not written to the file.
        return _Mapped(data) if whole and data.filename is not None and data.mode != "c" else data

    @staticmethod
    def open(data: Any) -> Any:
        """Open the memory map of a reference; the inverse of `of`."""
        return np.memmap(*data.arguments) if isinstance(data, _Mapped) else data


def _gather(X: Any) -> tuple[Any, np.ndarray, int]:
    """Return the data (an array-like or a list of arrays), the lengths (n,) and the number of channels."""
    check_not_long(X)
    if hasattr(X, "toarray"):
        raise TypeError("`X` must be dense; got a sparse matrix or array. Use X.toarray().")
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)  # masked values are missing values
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        X = list(X)
    if isinstance(X, list | tuple) and X:
        rows = [row if isinstance(row, np.ndarray) else _array(row) for row in X]
        shapes = {row.shape for row in rows}
        if len(shapes) > 1 or any(isinstance(row, np.ndarray) for row in X):
            return _gather_list(rows)
    data = _numbers(X if _reads_in_parts(X) else _array(X))
    shape = tuple(data.shape)
    if len(shape) not in (2, 3):
        raise ValueError(
            f"`X` must have shape (n, T) or (n, T, D): series, steps, channels; got shape {shape}. "
            "Reshape your data: X[None] for one series, X[:, None] for series of one step."
        )
    for axis, what in enumerate(["sample(s)", "feature(s)", "channel(s)"][: len(shape)]):
        if shape[axis] < 1:
            raise ValueError(f"`X` has 0 {what} (shape={shape}) while a minimum of 1 is required.")
    return data, np.full(shape[0], shape[1], dtype=np.int64), shape[2] if len(shape) == 3 else 1


def _floating(data: Any) -> type[np.floating]:
    """Return float32 if it represents all data exactly, else float64."""
    kinds = {one.dtype for one in (data if isinstance(data, list) else [data])}
    return np.float32 if all(np.can_cast(kind, np.float32, "safe") for kind in kinds) else np.float64


def _gather_list(rows: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray, int]:
    """Do the same as `_gather` for a list of arrays (T_i, D) or (T_i,)."""
    channels = {row.shape[1] if row.ndim == 2 else 1 if row.ndim == 1 else 0 for row in rows}
    if len(channels) > 1 or channels == {0}:
        shapes = sorted({row.shape for row in rows}, key=str)[:3]
        raise ValueError(
            "`X` as a list must hold arrays (T_i, D) with the same D >= 1, or arrays (T_i,); "
            f"got shapes such as {', '.join(map(str, shapes))}."
        )
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    if lengths.min() < 1:
        raise ValueError(f"`X` has a series with 0 steps (index {int(lengths.argmin())}); remove it.")
    return [_numbers(row) for row in rows], lengths, channels.pop()


def _reads_in_parts(X: Any) -> bool:
    """Return whether X can be indexed by rows directly; data frames cannot, they are indexed by columns."""
    typed = isinstance(getattr(X, "dtype", None), np.dtype)
    return typed and hasattr(X, "shape") and hasattr(X, "__getitem__") and not hasattr(X, "iloc")


def _array(X: Any) -> np.ndarray:
    try:
        return np.asarray(X)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            "`X` must be an array (n, T, D) or (n, T), or a list of arrays (T_i, D); "
            f"got a {type(X).__name__} that cannot be converted to an array: {error}"
        ) from error


def _numbers(data: Any) -> Any:
    """Return the data if it holds real numbers; convert an object array of numbers to float64."""
    kind = data.dtype.kind
    if kind in "fiub":
        return data
    if kind == "c":
        raise ValueError(
            "`X` must be real. Complex data not supported; pass real and imaginary parts as channels."
        )
    if kind != "O":
        raise ValueError(f"`X` must hold numbers; got dtype {data.dtype}. Convert it with X.astype(float).")
    try:
        return np.asarray(data).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"`X` must hold numbers; got dtype {data.dtype}: {error}.") from error
