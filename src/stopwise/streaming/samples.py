"""Check the samples that users pass to streams, and convert them to float64.

A stream cannot look at the next sample to notice that this one was misunderstood. So only shapes and types
with one meaning are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

_KINDS = {
    "b": "True or False",
    "U": "text",
    "S": "text",
    "M": "dates",
    "m": "time differences",
    "c": "complex numbers",
}


def one_sample(x: Any, channels: int, names: Sequence[str] | None) -> np.ndarray:
    """Return one sample as a float64 array (1, D).

    Parameters
    ----------
    x
        (D,) numbers; one number if D is 1; or a dict {channel: number}.
    channels
        D, the number of channels.
    names
        The names of the channels, or None if they are unknown.

    Examples
    --------
    >>> one_sample({"v": 2.0, "u": 1.0}, 2, ["u", "v"]).tolist()
    [[1.0, 2.0]]
    """
    array = _numbers(_ordered(x, names))
    if array.shape == (channels,) or (channels == 1 and array.shape == ()):
        return array.reshape(1, channels)
    hint = f" Pass x.reshape({channels})." if array.size == channels else ""
    raise ValueError(
        f"`x` must have {channels} number(s) per sample, as in training: shape ({channels},); got shape "
        f"{array.shape}.{hint}"
    )


def many_samples(x: Any, count: int, channels: int, names: Sequence[str] | None) -> np.ndarray:
    """Return one sample per key as a float64 array (n, D).

    Parameters
    ----------
    x
        (n, D) numbers, also (n,) if D is 1; or a list of n samples.
    count
        n, the number of keys.
    channels, names
        As for `one_sample`.

    Examples
    --------
    >>> many_samples([[1, 2], [3, 4], [5, 6]], 3, 2, None).shape
    (3, 2)
    """
    if isinstance(x, list | tuple):
        x = [_numbers(one) if isinstance(one, list) else one for one in (_ordered(one, names) for one in x)]
    elif names is not None and hasattr(x, "columns"):  # a data frame with one row per key
        x = np.stack([_numbers(x[name]) for name in _check_names(list(x.columns), names)], axis=-1)
    array = _numbers(x)
    if array.shape == (count, channels) or (channels == 1 and array.shape == (count,)):
        return array.reshape(count, channels)
    hint = " It seems to be transposed: pass x.T." if array.shape == (channels, count) else ""
    raise ValueError(
        f"`x` must have {channels} number(s) per sample, as in training, and one row per key: shape "
        f"({count}, {channels}); got shape {array.shape}.{hint}"
    )


def _ordered(x: Any, names: Sequence[str] | None) -> Any:
    """Return the values of a sample with names in the order of the channels; anything else unchanged."""
    if type(x) is np.ndarray:  # first, because it is the fast and frequent case
        return x
    if isinstance(x, Mapping):
        if names is None:
            raise ValueError(
                "`x` can only have names if the model knows those of its channels; it was trained without "
                "names. Pass a list of numbers, in the order of the training data."
            )
        return [x[name] for name in _check_names(list(x), names)]
    if names is not None and hasattr(x, "to_dict") and hasattr(x, "index"):  # a row of a data frame
        return _ordered(x.to_dict(), names) if all(isinstance(name, str) for name in x.index) else x
    return x


def _check_names(found: list[Any], names: Sequence[str]) -> Sequence[str]:
    """Return `names` if they are those found, in any order."""
    unknown, absent = [str(n) for n in found if n not in names], [n for n in names if n not in found]
    if unknown or absent:
        raise ValueError(
            f"`x` must have the channels {', '.join(names)}, as in training (unknown: "
            f"{', '.join(unknown)[:200] or 'none'}; missing: {', '.join(absent) or 'none'}). Rename, remove "
            "or add channels."
        )
    return names


def _numbers(x: Any) -> np.ndarray:
    """Return x as a float64 array; masked values are NaN."""
    if type(x) is np.ndarray:
        return _floats(x)
    if isinstance(x, np.ndarray):
        return _filled(x)
    if isinstance(x, list | tuple) and any(_is_special(one) for one in x):
        x = [_filled(np.ma.asarray(one)) for one in x]
    try:
        array = np.asarray(x)
    except Exception as error:  # anything may have an `__array__` that fails
        raise ValueError(
            f"`x` must be an array of numbers; got a {type(x).__name__} that cannot be converted to one. "
            "All samples must have the same number of values."
        ) from error
    return _filled(array)


def _is_special(one: Any) -> bool:
    """Return whether numpy would silently turn an item of a list into a number."""
    if isinstance(one, np.ndarray):
        return isinstance(one, np.ma.MaskedArray) or one.dtype.kind not in "fiu"
    return isinstance(one, bool | np.bool_)


def _filled(array: np.ndarray) -> np.ndarray:
    numbers = _floats(np.ma.getdata(array))
    if isinstance(array, np.ma.MaskedArray) and np.ma.getmaskarray(array).any():
        numbers = np.where(np.ma.getmaskarray(array), np.nan, numbers)
    return numbers


def _floats(array: np.ndarray) -> np.ndarray:
    kind = array.dtype.kind
    if kind in "fiu":
        if array.itemsize <= 8:
            return array.astype(np.float64, copy=False)
        with np.errstate(over="ignore"):  # infinity is reported by the caller
            return array.astype(np.float64)
    if kind == "O":
        bad = [one for one in array.ravel().tolist() if isinstance(one, bool) or not isinstance(one, Real)]
        if not bad:
            try:
                return array.astype(np.float64)
            except (OverflowError, TypeError, ValueError):
                raise ValueError("`x` must be finite; got a number too large for float64.") from None
        what = f"a {type(bad[0]).__name__}"
    else:
        what = _KINDS.get(kind, f"dtype {array.dtype}")
    raise ValueError(f"`x` must hold real numbers (NaN: missing); got {what}. Convert the sample to floats.")
