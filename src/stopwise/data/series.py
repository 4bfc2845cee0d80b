"""One view of all that users hand in as X: arrays, lists of unequal length, memory maps.

Batches are read when they are needed, so X may be larger than memory.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from stopwise.validation import check_choice, check_lengths

MISSING = ("error", "mask")


class Series:
    """n series of up to T steps and D channels, read in batches.

    Parameters
    ----------
    X
        (n, T, D) or (n, T): an array, a memory map, or any object with `shape`, `dtype` and indexing by
        integer arrays; or a list of n arrays (T_i, D) or (T_i,) of unequal length; or a `Series`.
        It is neither copied nor changed.
    lengths
        (n,) lengths, for series of unequal length padded into one array.

    Examples
    --------
    >>> series = Series([[1.0, 2.0, 3.0], [4.0]])
    >>> len(series), series.steps, series.channels, series.lengths.tolist()
    (2, 3, 1, [3, 1])

    Indexing gives a view of some of the series, which reads nothing yet:

    >>> series[[1]].shape
    (1, 1, 1)
    """

    _data: Any
    _rows: np.ndarray
    lengths: np.ndarray
    channels: int

    def __init__(self, X: Any, lengths: Any = None) -> None:
        if isinstance(X, Series):
            self._data, self._rows, self.lengths, self.channels = X._data, X._rows, X.lengths, X.channels
        else:
            self._data, self.lengths, self.channels = _gather(X)
            self._rows = np.arange(len(self.lengths))  # the places in the data of the series seen here
        if lengths is not None:
            if isinstance(self._data, list):
                raise ValueError(
                    "`lengths` goes with a padded array; a list of series knows its lengths. Leave it out."
                )
            self.lengths = check_lengths(lengths, len(self), self._data.shape[1])

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def steps(self) -> int:
        """T, the longest length."""
        return int(self.lengths.max())

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, T, D), T being the longest length."""
        return len(self), self.steps, self.channels

    def __getitem__(self, rows: Any) -> Series:
        chosen = np.atleast_1d(np.arange(len(self))[rows])
        if not len(chosen):
            raise ValueError(f"`X` has 0 series under the index {rows!r}; at least 1 is needed.")
        view = Series(self)
        view._rows, view.lengths = self._rows[chosen], self.lengths[chosen]
        return view

    def __getstate__(self) -> dict[str, Any]:
        """A memory map is pickled as the place of its file: processes that train together share it."""
        data = [_Mapped.of(x) for x in self._data] if isinstance(self._data, list) else _Mapped.of(self._data)
        return self.__dict__ | {"_data": data}

    def __setstate__(self, state: dict[str, Any]) -> None:
        data = state["_data"]
        opened = [_Mapped.open(x) for x in data] if isinstance(data, list) else _Mapped.open(data)
        self.__dict__ |= state | {"_data": opened}

    def batch(self, rows: np.ndarray, missing: str = "error") -> tuple[np.ndarray, np.ndarray]:
        """Read some series.

        Parameters
        ----------
        rows
            (B,) indices.
        missing
            "error": NaN is an error. "mask": NaN stays, for the caller to fill.

        Returns
        -------
        x, lengths
            (B, T, D) float32, zero past each series' end, T being the longest of these; and (B,).
        """
        check_choice("missing", missing, MISSING)
        lengths, places = self.lengths[rows], self._rows[rows]
        steps = int(lengths.max())
        with np.errstate(over="ignore"):  # too large for float32: told below
            if isinstance(self._data, list):
                x = np.zeros((len(places), steps, self.channels), dtype=np.float32)
                for own, i, length in zip(x, places, lengths):
                    own[:length] = np.reshape(self._data[i], (length, self.channels))
            else:
                part = np.asarray(self._data[places])[:, :steps]
                x = np.require(part, np.float32, ["C", "W"]).reshape(len(places), steps, self.channels)
                past = np.arange(steps) >= lengths[:, None]
                if past.any():
                    x = np.where(past[..., None], np.float32(0), x)
        _check_values(x, places, missing)
        return x, lengths

    def moments(self, most: int, missing: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation (D,) of each channel over at most `most` series.

        A constant channel has deviation 0; missing values and steps past the end count nowhere.
        """
        rows = np.arange(len(self))
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(seed).choice(len(self), most, replace=False))
        count, mean, squares = np.zeros((3, self.channels))
        for start in range(0, len(rows), 256):
            x = _masked(*self.batch(rows[start : start + 256], missing)).reshape(-1, self.channels)
            new = np.isfinite(x).sum(0)
            own = np.nansum(x, axis=0) / np.maximum(new, 1)
            gap, both = own - mean, np.maximum(count + new, 1)
            # Squares around the means met so far (Chan's update): those of large offsets would cancel.
            squares += np.nansum((x - own) ** 2, axis=0) + gap**2 * count * new / both
            mean += gap * new / both
            count += new
        deviation = np.sqrt(squares / np.maximum(count, 1))
        tiny = 1e-7 * np.maximum(np.abs(mean), 1e-30)
        return mean, np.where(deviation > tiny, deviation, 0.0)


class _Mapped:
    """The place of a memory map: what is pickled of it."""

    def __init__(self, data: np.memmap) -> None:
        order = "C" if data.flags.c_contiguous else "F"
        self.arguments: tuple[Any, ...] = (data.filename, data.dtype, "r", data.offset, data.shape, order)

    @staticmethod
    def of(data: Any) -> Any:
        """Return the place of a whole memory map, and anything else (a part of a map too) as it is."""
        # A view's base is the map it is a view of, yet it tells that map's offset and file.
        whole = isinstance(data, np.memmap) and isinstance(data.base, mmap.mmap)
        # Changes of a copy-on-write map are not in the file.
        return _Mapped(data) if whole and data.filename is not None and data.mode != "c" else data

    @staticmethod
    def open(data: Any) -> Any:
        """Undo `of`."""
        return np.memmap(*data.arguments) if isinstance(data, _Mapped) else data


def hold(x: np.ndarray, fill: np.ndarray) -> np.ndarray:
    """Fill NaN with the last seen value and add channels that tell what was observed.

    Parameters
    ----------
    x
        (B, T, D) with NaN where nothing was observed.
    fill
        (D,) values before the first observation.

    Returns
    -------
    held
        (B, T, 2D): the held values, then 1 where observed and 0 where not.

    Examples
    --------
    >>> hold(np.array([[[np.nan], [2.0], [np.nan]]]), fill=np.zeros(1))[0].tolist()
    [[0.0, 0.0], [2.0, 1.0], [2.0, 0.0]]
    """
    observed = ~np.isnan(x)
    steps = np.arange(1, x.shape[1] + 1)[:, None]  # (T, 1)
    last = np.maximum.accumulate(np.where(observed, steps, 0), axis=1)  # (B, T, D), 0 = never yet
    padded = np.concatenate([np.broadcast_to(fill, (len(x), 1, x.shape[2])).astype(x.dtype), x], axis=1)
    return np.concatenate([np.take_along_axis(padded, last, axis=1), observed.astype(x.dtype)], axis=2)


def _masked(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return x (B, T, D) in float64 with NaN past each series' end."""
    past = np.arange(x.shape[1]) >= lengths[:, None]
    return np.where(past[..., None], np.nan, x.astype(np.float64))


def _gather(X: Any) -> tuple[Any, np.ndarray, int]:
    """Return the data (an array-like or a list of arrays), the lengths (n,) and the channels."""
    if hasattr(X, "toarray"):
        raise TypeError("`X` must be dense; got a sparse matrix or array. Use X.toarray().")
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)  # masked is missing
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


def _gather_list(rows: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray, int]:
    """`_gather` for a list of arrays (T_i, D) or (T_i,)."""
    channels = {row.shape[1] if row.ndim == 2 else 1 if row.ndim == 1 else 0 for row in rows}
    if len(channels) > 1 or channels == {0}:
        shapes = sorted({row.shape for row in rows}, key=str)[:3]
        raise ValueError(
            "`X` as a list must hold arrays (T_i, D) with one D >= 1 for all, or arrays (T_i,); "
            f"got shapes such as {', '.join(map(str, shapes))}."
        )
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    if lengths.min() < 1:
        raise ValueError(f"`X` has a series with 0 steps (number {int(lengths.argmin())}); drop it.")
    return [_numbers(row) for row in rows], lengths, channels.pop()


def _reads_in_parts(X: Any) -> bool:
    """Whether X can be indexed by rows as it is; data frames are indexed by columns."""
    typed = isinstance(getattr(X, "dtype", None), np.dtype)
    return typed and hasattr(X, "shape") and hasattr(X, "__getitem__") and not hasattr(X, "iloc")


def _array(X: Any) -> np.ndarray:
    try:
        return np.asarray(X)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            "`X` must be an array (n, T, D) or (n, T), or a list of arrays (T_i, D); "
            f"got a {type(X).__name__} that makes no array: {error}"
        ) from error


def _numbers(data: Any) -> Any:
    """Return the data if it holds real numbers; objects that are numbers become float64."""
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


def _check_values(x: np.ndarray, rows: np.ndarray, missing: str) -> None:
    """Refuse what a network cannot take; a finite sum shows at one glance that all is well."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(x.sum()):
            return
    bad = ~np.isfinite(x) if missing == "error" else np.isinf(x)
    if not bad.any():
        return
    series, step, channel = (int(i) for i in np.argwhere(bad)[0])
    what = "NaN" if np.isnan(x[series, step, channel]) else "infinity (or a value too large for float32)"
    cure = (
        "Where values are missing, set missing='mask'."
        if what == "NaN"
        else "Clip or rescale the data, or put NaN with missing='mask'."
    )
    raise ValueError(
        f"`X` must be finite; series {int(rows[series])} has {what} at step {step + 1}, "
        f"channel {channel}. {cure}"
    )
