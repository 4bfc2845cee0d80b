"""Series as CSV in long form: one row a sample, columns series, time, label and the features.

The label column may be missing. Columns and rows may stand in any order; an empty feature cell is NaN.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from stopwise.datasets.labelled import LabelledSeries
from stopwise.datasets.npz import check_exists


@dataclass
class _Growing:
    """One series while its rows come in."""

    label: str | None
    first_line: int
    rows: dict[float, list[float]] = field(default_factory=dict)
    lines: dict[float, int] = field(default_factory=dict)


class _Columns:
    """Where the header says that things stand."""

    def __init__(self, path: Path, header: list[str]) -> None:
        names = [name.strip() for name in header]
        found = f"found {', '.join(names)}"
        for name in ("series", "time"):
            if name not in names:
                raise ValueError(
                    f"{path}, line 1: there is no column `{name}`; {found}. The first line must name the "
                    "columns series, time, label (if labelled) and the features."
                )
        if len(set(names)) < len(names) or "" in names:
            raise ValueError(f"{path}, line 1: every column needs a name of its own; {found}. Rename them.")
        self.width = len(names)
        self.series, self.time = names.index("series"), names.index("time")
        self.label = names.index("label") if "label" in names else None
        self.features = [i for i, name in enumerate(names) if name not in ("series", "time", "label")]
        self.names = tuple(names[i] for i in self.features)
        if not self.features:
            raise ValueError(f"{path}, line 1: there is no feature column; {found}. Add one or more.")


def read_csv(path: Path) -> LabelledSeries:
    """Return the series of a long-form CSV file, in order of first appearance, each sorted by time."""
    rows = _rows(path)
    try:
        columns = _Columns(path, next(rows)[1])
    except StopIteration:
        raise ValueError(
            f"{path} is empty. It must begin with a line of column names: series, time, label, ..."
        ) from None
    grown = _grow(path, rows, columns)
    if not grown:
        raise ValueError(f"{path} has column names but no rows. Add one row a sample.")
    series = [np.array([one.rows[time] for time in sorted(one.rows)]) for one in grown.values()]  # (T_i, d)
    lengths = np.array([len(one) for one in series])
    X = np.stack(series) if (lengths == lengths[0]).all() else series
    y = None if columns.label is None else labels_from_text([str(one.label) for one in grown.values()])
    return LabelledSeries(X, y, lengths, tuple(grown), columns.names)


def write_csv(path: Path, X: np.ndarray, y: np.ndarray | None, lengths: np.ndarray | None) -> None:
    """Write padded series (n, T, d) or (n, T) to a long-form CSV file; time counts from 1."""
    cube = X.reshape(*X.shape[:2], -1)  # (n, T, d)
    n, steps, dim = cube.shape
    ends = np.full(n, steps) if lengths is None else lengths
    label = [] if y is None else ["label"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["series", "time", *label, *(f"x{j}" for j in range(dim))])
        for i in range(n):
            mark = [] if y is None else [y[i]]
            for t, sample in enumerate(cube[i, : ends[i]].tolist(), start=1):
                writer.writerow([i, t, *mark, *("" if math.isnan(value) else value for value in sample)])


def labels_from_text(texts: list[str]) -> np.ndarray:
    """Return labels (n,): int64 if every one is a whole number, else the strings as they are.

    Examples
    --------
    >>> labels_from_text(["1", "2.0"]).tolist()
    [1, 2]
    >>> labels_from_text(["1", "walk"]).tolist()
    ['1', 'walk']
    """
    try:
        return np.array([_whole(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(texts)


def _whole(text: str) -> int:
    """Return the whole number that `text` spells, or raise ValueError or OverflowError."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if number != int(number):
            raise ValueError(text) from None
        return int(number)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of the non-empty rows."""
    check_exists(path)
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {reader.line_num}: not valid CSV ({error}). Write it again."
            ) from None
        except UnicodeDecodeError:
            raise ValueError(
                f"{path}, after line {reader.line_num}: not UTF-8 text. Save the file as CSV in UTF-8."
            ) from None


def _grow(path: Path, rows: Iterator[tuple[int, list[str]]], columns: _Columns) -> dict[str, _Growing]:
    """Return the series by name, in order of first appearance."""
    grown: dict[str, _Growing] = {}
    for line, cells in rows:
        where = f"{path}, line {line}"
        if len(cells) != columns.width:
            raise ValueError(
                f"{where}: expected {columns.width} cells, as in the first line; got {len(cells)}. "
                "Leave a cell empty where a value is missing."
            )
        name, time = cells[columns.series], _time(where, cells[columns.time])
        label = None if columns.label is None else cells[columns.label]
        if label == "":
            raise ValueError(
                f"{where}: the label is empty. Fill it in, or drop the column if nothing is labelled."
            )
        one = grown.setdefault(name, _Growing(label, line))
        if label != one.label:
            raise ValueError(
                f"{where}: series {name!r} has label {label!r} here but {one.label!r} on line "
                f"{one.first_line}. A series has one label: correct it, or split the series under two names."
            )
        if time in one.rows:
            raise ValueError(
                f"{where}: series {name!r} already has a sample at time {time:g}, on line {one.lines[time]}. "
                "Remove one of the two."
            )
        one.lines[time] = line
        one.rows[time] = [_feature(where, n, cells[i]) for n, i in zip(columns.names, columns.features)]
    return grown


def _time(where: str, text: str) -> float:
    """Return a time as a number."""
    try:
        time = float(text)
    except ValueError:
        time = math.nan
    if not math.isfinite(time):
        raise ValueError(
            f"{where}, column time: expected a number; got {text!r}. Write times as step numbers or seconds."
        )
    return time


def _feature(where: str, column: str, text: str) -> float:
    """Return a feature as a number; an empty cell is NaN."""
    try:
        return float(text) if text.strip() else math.nan
    except ValueError:
        raise ValueError(
            f"{where}, column {column}: expected a number or an empty cell; got {text!r}. "
            "Turn categories into numbers, or remove the column."
        ) from None
