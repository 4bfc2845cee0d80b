"""Series from .ts files, the format of the UCR and UEA archives.

After lines of comment (#) and of metadata (@) up to ``@data``, each line is a series: the channels, separated
by colons, each a list of numbers separated by commas, and last the label. A missing value is ``?`` or NaN.

Read here and not by a library: those that read it fix other versions of much of what stopwise stands on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stopwise.datasets.csv_long import labels_from_text
from stopwise.datasets.labelled import LabelledSeries
from stopwise.datasets.npz import check_exists

# The archives' own files begin some comments with %.
_COMMENTS = ("#", "%")


@dataclass
class _Header:
    """What the metadata says of the lines that follow; None where it says nothing."""

    labelled: bool = True
    classes: tuple[str, ...] = ()
    univariate: bool | None = None
    equal: bool | None = None


def read_ts(path: Path) -> LabelledSeries:
    """Return the series of a .ts file, (n, T, d) or a list of (T_i, d), in the file's order."""
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
        raise ValueError(f"{path} has no series after @data. It is cut short: copy or download it again.")
    lengths = np.array([len(one) for one in series])
    X = np.stack(series) if (lengths == lengths[0]).all() else series
    return LabelledSeries(X, labels_from_text(labels) if header.labelled else None, lengths)


def _read_header(path: Path, lines: list[str]) -> tuple[_Header, int]:
    """Return what the metadata says, and the number of lines up to and with @data."""
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
                f"{where}: series with time stamps are not read. Write the samples alone, in order of time."
            )
        if tag == "targetlabel" and _flag(where, tag, values):
            raise ValueError(f"{where}: the targets are numbers to predict, not classes; nothing to decide.")
        if tag == "univariate":
            header.univariate = _flag(where, tag, values)
        elif tag == "equallength":
            header.equal = _flag(where, tag, values)
        elif tag == "classlabel":
            header.labelled, header.classes = _flag(where, tag, values), tuple(values[1:])
    raise ValueError(f"{path} has no line @data. It is cut short, or not a .ts file.")


def _flag(where: str, tag: str, values: list[str]) -> bool:
    """Return the truth value that stands after a tag."""
    if not values or values[0].lower() not in ("true", "false"):
        raise ValueError(f"{where}: @{tag} must be followed by true or false; got {' '.join(values)!r}.")
    return values[0].lower() == "true"


def _read_series(where: str, text: str, header: _Header) -> tuple[np.ndarray, str]:
    """Return one series (T, d) and its label, "" without labels."""
    channels, label = text.split(":"), ""
    if header.labelled:
        label = channels.pop().strip()
        if not channels:
            raise ValueError(f"{where}: expected channels and, after a colon, the label; got no colon.")
        if not label or (header.classes and label not in header.classes):
            raise ValueError(
                f"{where}: the label is {label!r:.40}, which is not one of those @classLabel names: "
                f"{', '.join(header.classes[:20])}. The line is cut short, or the header wrong."
            )
    if header.univariate and len(channels) > 1:
        raise ValueError(f"{where}: @univariate is true, yet there are {len(channels)} channels.")
    columns = [_read_channel(f"{where}, channel {c}", channel) for c, channel in enumerate(channels, 1)]
    sizes = [len(column) for column in columns]
    if min(sizes) != max(sizes):
        raise ValueError(f"{where}: all channels must be of one length; got {sizes}. Fill with ? at the end.")
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
    """Refuse a series that differs from the first where it must not."""
    if not before:
        return
    first = before[0]
    if one.shape[1] != first.shape[1]:
        raise ValueError(f"{where}: expected {first.shape[1]} channel(s), as before; got {one.shape[1]}.")
    if header.equal and len(one) != len(first):
        raise ValueError(
            f"{where}: @equalLength is true and series so far have {len(first)} steps; this has {len(one)}. "
            "The line is cut short, or the header wrong."
        )
