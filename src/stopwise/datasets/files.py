"""Reading and writing series as .npz archives, pairs of .npy files or CSV; .ts files can only be read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.atomic import atomic_write
from stopwise.datasets.columns import Columns
from stopwise.datasets.csv_long import read_csv, write_csv
from stopwise.datasets.labeled import LabeledSeries, check_storable_labels, from_padded, to_padded
from stopwise.datasets.npz import check_exists, read_npy, read_npz
from stopwise.datasets.ts import read_ts
from stopwise.validation import check_choice

LAYOUTS = ("steps-first", "channels-first")
_FORMATS = (
    "The name must end in .npz (arrays X, y and, if they vary, lengths), .csv (columns series, time, label "
    "and one per channel) or _X.npy (with a second file _y.npy)"
)


def read(
    path: str | os.PathLike[str],
    *,
    channels: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    groups: str | None = None,
    layout: str = "steps-first",
) -> LabeledSeries:
    """Read labeled series from a file.

    Files are never unpickled, so a data file cannot run code.

    Parameters
    ----------
    path
        The file. The end of its name determines the format:

        - ``name.npz`` with the arrays X, (n, T, d) or (n, T); y, (n,); and, if the series are padded at the
          end, lengths, (n,). y is optional.
        - ``name_X.npy``, or just ``name``, for the pair ``name_X.npy`` and ``name_y.npy``, and
          ``name_lengths.npy`` if the series are padded. X is memory-mapped, so it may be larger than memory.
          ``name_y.npy`` is optional.
        - ``name.csv`` with one row per sample and the columns series, time, label and one per channel, in
          any order. Series are listed in the order of their first rows and sorted by time. Labels become
          integers if all of them are. An empty channel cell is NaN; the label column is optional.
        - ``name.ts``, the format of the UCR and UEA archives, univariate or multivariate, with series of
          equal or unequal length.
    channels
        Columns of a .csv file to use as channels, in this order. None: all columns that are not used
        otherwise. A column with one integer per series looks like an identifier and is refused.
    drop
        Columns of a .csv file to ignore.
    groups
        Name of the groups, such as the patient of each series: a column of a .csv file, an array of an
        .npz file, or ``name_GROUPS.npy``.
    layout
        "steps-first": X is (n, T, d). "channels-first": X is (n, d, T), as aeon and sktime store series;
        only .npz and .npy files.

    Returns
    -------
    data
        A `LabeledSeries`. Its `X` is a list if the series differ in length.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is damaged, has another format, or is inconsistent; the message says where.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "steps.csv"
    >>> _ = path.write_text('''series,time,label,speed
    ... a,1,walk,0.9
    ... a,2,walk,1.1
    ... b,1,run,3.0
    ... ''')
    >>> data = read(path)
    >>> data
    LabeledSeries(2 series of 1 to 2 steps, 2 classes)
    >>> data.X[0].tolist(), str(data.y[0]), data.names
    ([[0.9], [1.1]], 'walk', ('a', 'b'))
    """
    path = Path(path)
    check_choice("layout", layout, LAYOUTS)
    columns = Columns(None if channels is None else tuple(channels), tuple(drop), groups)
    if path.suffix in (".csv", ".ts") and layout != "steps-first":
        raise ValueError(f"{path}: `layout` can only be used with .npz and .npy files; omit it.")
    if path.suffix == ".csv":
        return read_csv(path, columns)
    if channels is not None or drop:
        raise ValueError(f"{path}: `channels` and `drop` can only be used with .csv files; omit them.")
    if path.suffix == ".ts":
        if groups is not None:
            raise ValueError(f"{path}: `groups` cannot be used with .ts files; omit it.")
        return read_ts(path)
    if path.suffix == ".npz":
        arrays = read_npz(path, ["X", *([groups] if groups else [])], ["y", "lengths"])
        X = _steps_first(path, arrays["X"], layout)
        found = from_padded(path, X, arrays.get("y"), arrays.get("lengths"))
        return replace(found, groups=_checked_groups(path, arrays[groups], len(found)) if groups else None)
    if path.suffix == ".npy" or _pair(path)["X"].exists():
        return _read_pair(path, groups, layout)
    check_exists(path)
    raise ValueError(f"{path}: unknown file format. {_FORMATS}, or .ts.")


def write(path: str | os.PathLike[str], X: Any, y: Any = None, lengths: Any = None) -> None:
    """Write labeled series to a file that `read` can read.

    Writes are atomic: if one is interrupted, existing files stay unchanged.

    Parameters
    ----------
    path
        The file. The end of its name determines the format: ``name.npz``, ``name.csv``, or ``name_X.npy``
        (or just ``name``) for a pair of .npy files.
    X
        Series: an array (n, T, d) or (n, T), or a list of arrays (T_i, d) or (T_i,).
    y
        (n,) labels, integers or strings. If None, the series have no labels.
    lengths
        (n,) numbers of steps, if `X` is an array of series padded at the end. If None, all series of an
        array have T steps. It must be None for a list.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    ValueError
        If the format is unknown, or the arrays are inconsistent. No file is written then.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.npz"
    >>> write(path, [np.ones((3, 1)), np.ones((5, 1))], y=[0, 1])
    >>> read(path)
    LabeledSeries(2 series of 3 to 5 steps, 2 classes)
    """
    path = Path(path)
    X, lengths = to_padded(X, lengths)
    labels = None if y is None else check_storable_labels(y, len(X))
    arrays = {"X": X, "y": labels, "lengths": lengths}
    present = {name: array for name, array in arrays.items() if array is not None}
    if path.suffix == ".npz":
        with atomic_write(path) as [temporary]:
            np.savez(temporary, **present)
    elif path.suffix == ".csv":
        with atomic_write(path) as [temporary]:
            write_csv(temporary, X, labels, lengths)
    elif path.suffix in (".npy", ""):
        _write_pair(_pair(path), present)
    else:
        raise ValueError(f"{path}: unknown file format. {_FORMATS}.")


def _pair(path: Path) -> dict[str, Path]:
    """Return the paths of a pair of .npy files, by the name of the array."""
    stem = path.name
    if path.suffix == ".npy":
        if not path.name.endswith("_X.npy"):
            raise ValueError(
                f"{path}: the name of a file of series must end in _X.npy, and that of its labels in _y.npy. "
                "Rename the file."
            )
        stem = path.name.removesuffix("_X.npy")
    return {name: path.with_name(f"{stem}_{name}.npy") for name in ("X", "y", "lengths")}


def _steps_first(path: Path, X: np.ndarray, layout: str) -> np.ndarray:
    """Return X as (n, T, d) or (n, T)."""
    if layout == "steps-first":
        return X
    if X.ndim != 3:
        raise ValueError(f"{path}: layout 'channels-first' needs X of shape (n, d, T); got {X.shape}.")
    return X.transpose(0, 2, 1)


def _checked_groups(path: Path, groups: np.ndarray, n: int) -> np.ndarray:
    if groups.shape != (n,):
        raise ValueError(f"{path}: the groups must have shape ({n},), one per series; got {groups.shape}.")
    return groups


def _read_pair(path: Path, groups: str | None, layout: str) -> LabeledSeries:
    """Read a pair of .npy files, the series memory-mapped."""
    files = _pair(path)
    X = _steps_first(files["X"], read_npy(files["X"]), layout)
    y, lengths = (
        np.array(read_npy(files[name])) if files[name].exists() else None for name in ("y", "lengths")
    )
    found = from_padded(files["X"], X, y, lengths)
    if groups is None:
        return found
    file = files["X"].with_name(files["X"].name.removesuffix("X.npy") + f"{groups}.npy")
    return replace(found, groups=_checked_groups(file, np.array(read_npy(file)), len(found)))


def _write_pair(files: dict[str, Path], arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays to their files; delete files of an earlier pair that have no array now."""
    with atomic_write(*(files[name] for name in arrays)) as temporaries:
        for temporary, array in zip(temporaries, arrays.values()):
            np.save(temporary, array, allow_pickle=False)
    for name in files.keys() - arrays.keys():
        files[name].unlink(missing_ok=True)
