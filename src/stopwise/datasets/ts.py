"""Series from .ts files, the format of the UCR and UEA archives.

A file begins with comments (#) and metadata (@) up to ``@data``. Each further line is a series: its channels,
separated by colons, then its label. A channel is a list of numbers separated by commas; a missing value is
``?`` or NaN.

The libraries that read this format pin versions of packages that stopwise depends on too, so stopwise has its
own reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stopwise.datasets.csv_long import labels_from_text
from stopwise.datasets.labeled import LabeledSeries, from_list
from stopwise.datasets.npz import check_exists

# Some files of the archives use % for comments.
_COMMENTS = ("#", "%")


@dataclass
class _Header:
    """The metadata of a file; None if a flag is not specified."""

    has_labels: bool = True
    classes: tuple[str, ...] = ()
    univariate: bool | None = None
    equal_length: bool | None = None


def read_ts(path: Path) -> LabeledSeries:
    """Return the series of a .ts file, (n, T, d) or a list of (T_i, d), in the order of the file."""
    check_exists(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text. Copy or download the file again.") from None
    header, start = _read_header(path, lines)
    series: list[np.ndarray] = []
    labels: list[str] = []
    for number, line in enumerate(lines[start:], start + 1):
        text = line.strip()
        if not text or text.startswith(_COMMENTS):
            continue
        one, label = _read_series(f"{path}, line {number}", text, header)
        _check_like_first(f"{path}, line {number}", one, series, header)
        series.append(one)
        labels.append(label)
    if not series:
        raise ValueError(f"{path} has no series after @data. It is truncated: copy or download it again.")
    return from_list(series, labels_from_text(labels) if header.has_labels else None)


def _read_header(path: Path, lines: list[str]) -> tuple[_Header, int]:
    """Return the metadata, and the number of lines up to and including @data."""
    header = _Header()
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(_COMMENTS):
            continue
        where = f"{path}, line {number}"
        if not text.startswith("@"):
            raise ValueError(
                f"{where}: expected metadata (@...) or a comment (#...) before @data; got {text[:40]!r}. "
                "Is this a .ts file?"
            )
        tag, *values = text[1:].split()
        tag = tag.lower()
        if tag == "data":
            return header, number
        if tag == "timestamps" and _flag(where, tag, values):
            raise ValueError(
                f"{where}: series with timestamps are not supported. Write the samples only, sorted by time."
            )
        if tag == "targetlabel" and _flag(where, tag, values):
            raise ValueError(f"{where}: the targets are numbers (regression); expected class labels.")
        if tag == "univariate":
            header.univariate = _flag(where, tag, values)
        elif tag == "equallength":
            header.equal_length = _flag(where, tag, values)
        elif tag == "classlabel":
            header.has_labels, header.classes = _flag(where, tag, values), tuple(values[1:])
    raise ValueError(f"{path} has no line @data. It is truncated, or not a .ts file.")


def _flag(where: str, tag: str, values: list[str]) -> bool:
    """Return the boolean that follows a tag."""
    if not values or values[0].lower() not in ("true", "false"):
        raise ValueError(f"{where}: @{tag} must be followed by true or false; got {' '.join(values)!r}.")
    return values[0].lower() == "true"


def _read_series(where: str, text: str, header: _Header) -> tuple[np.ndarray, str]:
    """Return one series (T, d) and its label, "" if there are no labels."""
    channels, label = text.split(":"), ""
    if header.has_labels:
        label = channels.pop().strip()
        if not channels:
            raise ValueError(f"{where}: expected channels and, after a colon, the label; got no colon.")
        if not label or (header.classes and label not in header.classes):
            raise ValueError(
                f"{where}: the label is {label!r:.40}, which is not among the classes of @classLabel: "
                f"{', '.join(header.classes[:20])}. The line is truncated, or the header is wrong."
            )
    if header.univariate and len(channels) > 1:
        raise ValueError(f"{where}: @univariate is true, but there are {len(channels)} channels.")
    columns = [_read_channel(f"{where}, channel {c}", channel) for c, channel in enumerate(channels, 1)]
    sizes = [len(column) for column in columns]
    if min(sizes) != max(sizes):
        raise ValueError(f"{where}: all channels must have the same length; got {sizes}. Pad with ?.")
    return np.stack(columns, axis=1), label


def _read_channel(where: str, text: str) -> np.ndarray:
    """Return the numbers (T,) of one channel."""
    cells = text.split(",")
    try:
        return np.array([np.nan if cell.strip() == "?" else float(cell) for cell in cells])
    except ValueError:
        bad = next(cell for cell in cells if cell.strip() != "?" and not _is_number(cell))
        raise ValueError(
            f"{where}: expected numbers or ? separated by commas; got {bad.strip()!r:.40}."
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_like_first(where: str, one: np.ndarray, before: list[np.ndarray], header: _Header) -> None:
    """Raise an error if a series differs from the first one in channels or, if required, in length."""
    if not before:
        return
    first = before[0]
    if one.shape[1] != first.shape[1]:
        raise ValueError(
            f"{where}: expected {first.shape[1]} channel(s), as in the first series; got {one.shape[1]}."
        )
    if header.equal_length and len(one) != len(first):
        raise ValueError(
            f"{where}: @equalLength is true and the first series has {len(first)} steps; this one has "
            f"{len(one)}. The line is truncated, or the header is wrong."
        )
