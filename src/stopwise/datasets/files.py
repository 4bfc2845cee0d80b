"""Series of one's own: from and to .npz archives, pairs of .npy files and long-form CSV; from .ts files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.atomic import written_aside
from stopwise.datasets.csv_long import read_csv, write_csv
from stopwise.datasets.labelled import LabelledSeries, check_labels, from_padded, to_padded
from stopwise.datasets.npz import check_exists, read_npy, read_npz
from stopwise.datasets.ts import read_ts

_KINDS = (
    "The file must end in .npz (arrays X, y and, if they vary, lengths), .csv (columns series, time, label "
    "and the features) or _X.npy (beside it _y.npy)"
)


def read(path: str | os.PathLike[str]) -> LabelledSeries:
    """Read labelled series from a file; its ending says how.

    Nothing in a file is ever unpickled: a data file cannot run code.

    Parameters
    ----------
    path
        - ``name.npz`` with the arrays X, (n, T, d) or (n, T), y, (n,), and, where series are padded at their
          end, lengths, (n,); y may be missing.
        - ``name_X.npy``, or ``name``: the pair ``name_X.npy`` and ``name_y.npy``, and ``name_lengths.npy``
          where series are padded. X is memory-mapped: it may be larger than memory.
        - ``name.csv`` with one row a sample and the columns series, time, label and any number of features,
          in any order. Series keep the order of their first rows and are sorted by time. Labels become whole
          numbers if all of them are. An empty feature cell is NaN; the label column may be missing.
        - ``name.ts``, the format of the UCR and UEA archives, univariate or not, of equal length or not.

    Returns
    -------
    LabelledSeries
        With X as a list where series differ in length.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    ValueError
        When the file is damaged, of another format, or does not make sense; the message says where.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "walks.csv"
    >>> _ = path.write_text('''series,time,label,speed
    ... a,1,walk,0.9
    ... a,2,walk,1.1
    ... b,1,run,3.0
    ... ''')
    >>> data = read(path)
    >>> data
    LabelledSeries(2 series of 1 to 2 steps, 2 classes)
    >>> data.X[0].tolist(), str(data.y[0]), data.names
    ([[0.9], [1.1]], 'walk', ('a', 'b'))
    """
    path = Path(path)
    if path.suffix == ".csv":
        return read_csv(path)
    if path.suffix == ".ts":
        return read_ts(path)
    if path.suffix == ".npz":
        arrays = read_npz(path, ["X"], ["y", "lengths"])
        return from_padded(path, arrays["X"], arrays.get("y"), arrays.get("lengths"))
    if path.suffix == ".npy" or _pair(path)["X"].exists():
        return _read_pair(path)
    check_exists(path)
    raise ValueError(f"{path}: unknown kind of file. {_KINDS}, or .ts.")


def write(path: str | os.PathLike[str], X: Any, y: Any = None, lengths: Any = None) -> None:
    """Write labelled series to a file that `read` reads back; the ending says how.

    Files are written aside and moved into place when whole: a run that is interrupted leaves what was there.

    Parameters
    ----------
    path
        ``name.npz``, ``name.csv``, or ``name_X.npy`` (also: ``name`` without ending) for a pair of
        .npy files.
    X
        Series: an array (n, T, d) or (n, T), or a list of arrays (T_i, d) or (T_i,).
    y
        (n,) labels, whole numbers or strings; None if there are none.
    lengths
        (n,) numbers of steps, where X is an array padded at the end of the series.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.npz"
    >>> write(path, [np.ones((3, 1)), np.ones((5, 1))], y=[0, 1])
    >>> read(path)
    LabelledSeries(2 series of 3 to 5 steps, 2 classes)
    """
    path = Path(path)
    X, ends = to_padded(X, lengths)
    labels = None if y is None else check_labels(np.asarray(y), len(X))
    arrays = {"X": X, "y": labels, "lengths": ends}
    present = {name: array for name, array in arrays.items() if array is not None}
    if path.suffix == ".npz":
        with written_aside(path) as [aside]:
            np.savez(aside, **present)
    elif path.suffix == ".csv":
        with written_aside(path) as [aside]:
            write_csv(aside, X, labels, ends)
    elif path.suffix in (".npy", ""):
        _write_pair(_pair(path), present)
    else:
        raise ValueError(f"{path}: unknown kind of file. {_KINDS}.")


def _pair(path: Path) -> dict[str, Path]:
    """Return the files of a pair by what they hold."""
    stem = path.name
    if path.suffix == ".npy":
        if not path.name.endswith("_X.npy"):
            raise ValueError(
                f"{path}: the name of the series' file must end in _X.npy, beside it _y.npy. Rename it."
            )
        stem = path.name.removesuffix("_X.npy")
    return {name: path.with_name(f"{stem}_{name}.npy") for name in ("X", "y", "lengths")}


def _read_pair(path: Path) -> LabelledSeries:
    """Read a pair of .npy files, the series memory-mapped."""
    files = _pair(path)
    X = read_npy(files["X"])
    y, lengths = (
        np.array(read_npy(files[name])) if files[name].exists() else None for name in ("y", "lengths")
    )
    return from_padded(files["X"], X, y, lengths)


def _write_pair(files: dict[str, Path], arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays to their files; a file of an older pair that no longer applies goes."""
    with written_aside(*(files[name] for name in arrays)) as asides:
        for aside, array in zip(asides, arrays.values()):
            np.save(aside, array, allow_pickle=False)
    for name in files.keys() - arrays.keys():
        files[name].unlink(missing_ok=True)
