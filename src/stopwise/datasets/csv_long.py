"""Long-form CSV files: one row per sample, with the columns series, time, label and one per channel.

The label column is optional. Columns and rows may be in any order; an empty channel cell is NaN.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from stopwise.datasets.columns import Columns, refuse_identifiers
from stopwise.datasets.labeled import LabeledSeries, from_list
from stopwise.datasets.npz import check_exists
from stopwise.datasets.time_grid import warn_of_gaps

RESERVED = ("series", "time", "label")


@dataclass
class _PartialSeries:
    """The rows of one series read so far."""

    label: str | None
    group: str | None
    first_line: int
    rows: dict[float, list[float]] = field(default_factory=dict)
    lines: dict[float, int] = field(default_factory=dict)


class _CsvHeader:
    """The positions of the columns."""

    def __init__(self, path: Path, header: list[str], columns: Columns) -> None:
        names = [name.strip() for name in header]
        found = f"found {', '.join(names)}"
        for name in ("series", "time"):
            if name not in names:
                raise ValueError(
                    f"{path}, line 1: there is no column `{name}`; {found}. The first line must name the "
                    "columns series, time, label (if there are labels) and one per channel."
                )
        columns.check(f"{path}, line 1", [name for name in names if name not in RESERVED])
        if len(set(names)) < len(names) or "" in names:
            raise ValueError(f"{path}, line 1: every column needs a unique name; {found}. Rename them.")
        self.width = len(names)
        self.series, self.time = names.index("series"), names.index("time")
        self.label = names.index("label") if "label" in names else None
        self.groups = None if columns.groups is None else names.index(columns.groups)
        chosen = columns.chosen([name for name in names if name not in RESERVED])
        self.channels = {name: names.index(name) for name in chosen}
        if not self.channels:
            raise ValueError(f"{path}, line 1: there is no channel column; {found}. Add at least one.")


def read_csv(path: Path, columns: Columns) -> LabeledSeries:
    """Return the series of a long-form CSV file, in order of first appearance, each sorted by time."""
    rows = _rows(path)
    try:
        header = _CsvHeader(path, next(rows)[1], columns)
    except StopIteration:
        raise ValueError(
            f"{path} is empty. It must begin with a line of column names: series, time, label, ..."
        ) from None
    found = _collect(path, rows, header)
    if not found:
        raise ValueError(f"{path} has column names but no rows. Add one row per sample.")
    series = [np.array([one.rows[time] for time in sorted(one.rows)]) for one in found.values()]  # (T_i, d)
    y = None if header.label is None else labels_from_text([str(one.label) for one in found.values()])
    groups = None if header.groups is None else np.array([one.group for one in found.values()])
    if columns.channels is None:
        refuse_identifiers(str(path), list(header.channels), series)
    warn_of_gaps(str(path), list(found), [np.array(sorted(one.rows)) for one in found.values()])
    return replace(from_list(series, y, tuple(found), tuple(header.channels)), groups=groups)


def write_csv(path: Path, X: np.ndarray, y: np.ndarray | None, lengths: np.ndarray | None) -> None:
    """Write padded series (n, T, d) or (n, T) to a long-form CSV file; times are counted from 1."""
    cube = X.reshape(*X.shape[:2], -1)  # (n, T, d)
    n, steps, channels = cube.shape
    lengths = np.full(n, steps) if lengths is None else lengths
    label_column = [] if y is None else ["label"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["series", "time", *label_column, *(f"x{j}" for j in range(channels))])
        for i in range(n):
            label = [] if y is None else [y[i]]
            for t, sample in enumerate(cube[i, : lengths[i]].tolist(), start=1):
                writer.writerow([i, t, *label, *("" if math.isnan(value) else value for value in sample)])


def labels_from_text(texts: list[str]) -> np.ndarray:
    """Return labels (n,): int64 if every text is an integer, else the texts unchanged.

    Examples
    --------
    >>> labels_from_text(["1", "2.0"]).tolist()
    [1, 2]
    >>> labels_from_text(["1", "walk"]).tolist()
    ['1', 'walk']
    """
    try:
        return np.array([_integer(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(texts)


def _integer(text: str) -> int:
    """Return `text` as an integer, or raise ValueError or OverflowError."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if number != int(number):
            raise ValueError(text) from None
        return int(number)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each non-empty row."""
    check_exists(path)
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {reader.line_num}: not valid CSV ({error}). Write the file again."
            ) from None
        except UnicodeDecodeError:
            raise ValueError(
                f"{path}, after line {reader.line_num}: not UTF-8 text. Save the file as CSV in UTF-8."
            ) from None


def _collect(
    path: Path, rows: Iterator[tuple[int, list[str]]], header: _CsvHeader
) -> dict[str, _PartialSeries]:
    """Return the series by name, in order of first appearance."""
    found: dict[str, _PartialSeries] = {}
    for line, cells in rows:
        where = f"{path}, line {line}"
        if len(cells) != header.width:
            raise ValueError(
                f"{where}: expected {header.width} cells, as in the first line; got {len(cells)}. "
                "Leave a cell empty if its value is missing."
            )
        name, time = cells[header.series], _time(where, cells[header.time])
        label = None if header.label is None else cells[header.label]
        if label == "":
            raise ValueError(
                f"{where}: the label is empty. Fill it in, or remove the column if there are no labels."
            )
        group = None if header.groups is None else cells[header.groups]
        one = found.setdefault(name, _PartialSeries(label, group, line))
        if group != one.group:
            raise ValueError(
                f"{where}: series {name!r} has group {group!r} here but {one.group!r} on line "
                f"{one.first_line}. A series belongs to one group."
            )
        if label != one.label:
            raise ValueError(
                f"{where}: series {name!r} has label {label!r} here but {one.label!r} on line "
                f"{one.first_line}. Correct the label, or give the two series different names."
            )
        if time in one.rows:
            raise ValueError(
                f"{where}: series {name!r} already has a sample at time {time:g}, on line {one.lines[time]}. "
                "Remove one of the two."
            )
        one.lines[time] = line
        one.rows[time] = [_value(where, channel, cells[i]) for channel, i in header.channels.items()]
    return found


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


def _value(where: str, column: str, text: str) -> float:
    """Return the value of a channel as a number; an empty cell is NaN."""
    try:
        return float(text) if text.strip() else math.nan
    except ValueError:
        raise ValueError(
            f"{where}, column {column}: expected a number or an empty cell; got {text!r}. "
            "Encode categories as numbers, or remove the column."
        ) from None
