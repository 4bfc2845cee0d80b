"""One view of all that users hand in as X: arrays, lists of unequal length, memory maps.

Batches are read when they are needed, so X may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    lengths
        (n,) lengths, for series of unequal length padded into one array.

    Examples
    --------
    >>> series = Series([[1.0, 2.0, 3.0], [4.0]])
    >>> len(series), series.steps, series.channels, series.lengths.tolist()
    (2, 3, 1, [3, 1])
    """

    def __init__(self, X: Any, lengths: Any = None) -> None:
        if isinstance(X, Series):
            X, lengths = X._data, X.lengths if lengths is None else lengths
        self._data, own_lengths, self.channels = _gather(X)
        self.lengths = own_lengths
        if lengths is not None and not isinstance(self._data, list):
            self.lengths = check_lengths(lengths, len(own_lengths), int(own_lengths.max()))
        self.steps = int(self.lengths.max())

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, T, D), T being the longest length."""
        return len(self), self.steps, self.channels

    def __getitem__(self, rows: Any) -> Series:
        rows = np.arange(len(self))[rows]
        if isinstance(self._data, list):
            return Series([self._data[i] for i in rows])
        return Series(self._data[rows], self.lengths[rows])

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
        lengths = self.lengths[rows]
        steps = int(lengths.max())
        if isinstance(self._data, list):
            x = np.zeros((len(rows), steps, self.channels), dtype=np.float32)
            for place, i in enumerate(rows):
                with np.errstate(over="ignore"):
                    x[place, : lengths[place]] = self._data[i]
        else:
            part = np.asarray(self._data[rows])[:, :steps]
            with np.errstate(over="ignore"):
                x = part.astype(np.float32, copy=False).reshape(len(rows), steps, self.channels)
            past = np.arange(steps) >= lengths[:, None]
            if past.any():
                x = np.where(past[..., None], np.float32(0), x)
        _check_values(x, rows, missing)
        return x, lengths

    def batches(self, size: int, missing: str = "error") -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Read all series in order: rows, x and lengths of each batch."""
        for start in range(0, len(self), size):
            rows = np.arange(start, min(start + size, len(self)))
            yield rows, *self.batch(rows, missing)

    def moments(self, most: int, missing: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation (D,) of each channel over at most `most` series.

        A constant channel has deviation 1; missing values and steps past the end count nowhere.
        """
        rows = np.arange(len(self))
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(seed).choice(len(self), most, replace=False))
        total, square = np.zeros(self.channels), np.zeros(self.channels)
        count = np.zeros(self.channels)
        # Sums around a first guess of the mean: squares of large offsets would cancel otherwise.
        guess = np.nan_to_num(_masked(*self.batch(rows[:1], missing)).reshape(-1, self.channels)[0])
        for start in range(0, len(rows), 256):
            x = _masked(*self.batch(rows[start : start + 256], missing)) - guess  # (B, T, D)
            count += np.isfinite(x).sum((0, 1))
            total += np.nansum(x, axis=(0, 1))
            square += np.nansum(x * x, axis=(0, 1))
        count = np.maximum(count, 1)
        mean = total / count
        deviation = np.sqrt(np.maximum(square / count - mean**2, 0))
        tiny = 1e-7 * np.maximum(np.abs(mean + guess), 1e-30)
        return mean + guess, np.where(deviation > tiny, deviation, 1.0)


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
    if isinstance(X, list | tuple) and len({np.shape(row)[:1] for row in X}) > 1:
        return _gather_unequal(X)
    data = X if _reads_in_parts(X) else np.asarray(X)
    if np.dtype(data.dtype).kind == "c":
        raise ValueError("`X` must be real. Complex data not supported; pass real and imaginary parts as channels.")
    if np.dtype(data.dtype).kind not in "fiub":
        data = _to_float(data)
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


def _gather_unequal(X: Any) -> tuple[list[np.ndarray], np.ndarray, int]:
    rows = [_to_float(np.asarray(row)) for row in X]
    rows = [row[:, None] if row.ndim == 1 else row for row in rows]
    channels = {row.shape[1] if row.ndim == 2 else -1 for row in rows}
    if len(channels) > 1 or channels == {-1}:
        shapes = sorted({np.shape(row) for row in X}, key=str)[:3]
        raise ValueError(
            f"`X` as a list must hold arrays (T_i, D) with one D for all; got shapes such as {shapes}."
        )
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    if lengths.min() < 1:
        raise ValueError(f"`X` has a series with 0 steps (number {int(lengths.argmin())}); drop it.")
    return rows, lengths, channels.pop()


def _reads_in_parts(X: Any) -> bool:
    """Whether X can be indexed by rows as it is; data frames are indexed by columns."""
    return hasattr(X, "shape") and hasattr(X, "dtype") and hasattr(X, "__getitem__") and not hasattr(X, "iloc")


def _to_float(data: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(data).astype(np.float64 if data.dtype.kind not in "f" else data.dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`X` must hold numbers; got dtype {data.dtype}: {error}.") from error


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
        f"`X` must be finite; series {int(rows[series])} has {what} at step {step + 1}, channel {channel}. {cure}"
    )
