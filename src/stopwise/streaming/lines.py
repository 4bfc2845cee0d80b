"""Reading samples from lines of text: JSON lines or CSV, with or without stream keys."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

KEY_COLUMN = "key"


@dataclass(frozen=True)
class Sample:
    """A line with a sample of a stream; if `x` is None, the line ends the stream."""

    line: int
    key: str | int | float | None
    x: list[float] | None


@dataclass(frozen=True)
class Malformed:
    """A line that cannot be read, and the reason."""

    line: int
    reason: str


def read_samples(lines: Iterable[str]) -> Iterator[Sample | Malformed]:
    """Read lines one at a time, and yield a sample or an error for each.

    The first non-empty line determines the format:

    - JSON lines: ``{"key": "a", "x": [1, 2]}``, ``{"x": [1, 2]}`` or ``[1, 2]``. A null is a missing value.
      ``{"key": "a", "end": true}`` ends a stream.
    - CSV with a header: the column ``key``, if there is one, holds the key of the stream; all other columns
      are channels. An empty field is a missing value.
    - CSV without a header: all columns are channels.

    Parameters
    ----------
    lines
        Lines of text. The next line is only requested after the result of the last one was used.

    Yields
    ------
    result
        A `Sample`, or `Malformed` if the line cannot be read. Empty lines are skipped.

    Examples
    --------
    >>> list(read_samples(['{"key": "a", "x": [1, null]}', "oops"]))[0]
    Sample(line=1, key='a', x=[1.0, nan])
    >>> [sample.x for sample in read_samples(["key,u,v", "a,1,2", "b,3,"])]
    [[1.0, 2.0], [3.0, nan]]
    """
    numbered = ((number, text.strip()) for number, text in enumerate(lines, 1))
    filled = ((number, text) for number, text in numbered if text)
    first = next(filled, None)
    if first is None:
        return
    if first[1][0] in "{[":
        yield _json(*first)
        for number, text in filled:
            yield _json(number, text)
        return
    fields = _fields(first[1])
    header = None if all(_is_number(field) for field in fields) else fields
    if header is None:
        yield _row(*first, None)
    for number, text in filled:
        yield _row(number, text, header)


def _json(line: int, text: str) -> Sample | Malformed:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return Malformed(line, f"not JSON ({error.msg} at column {error.colno})")
    if isinstance(value, list):
        value = {"x": value}
    if not isinstance(value, dict):
        return Malformed(line, f'expected {{"key": …, "x": [numbers]}} or [numbers]; got {text:.60}')
    key = value.get("key")
    if not (key is None or isinstance(key, str | int | float)) or isinstance(key, bool):
        return Malformed(line, f"the key must be a string or a number; got {key!r:.60}")
    if value.get("end") is True:
        return Sample(line, key, None)
    numbers = value.get("x")
    if isinstance(numbers, int | float) and not isinstance(numbers, bool):
        numbers = [numbers]
    if not isinstance(numbers, list) or not all(_is_json_number(one) for one in numbers):
        return Malformed(line, f'"x" must be a list of numbers (null: missing); got {numbers!r:.60}')
    return Sample(line, key, [math.nan if one is None else float(one) for one in numbers])


def _row(line: int, text: str, header: list[str] | None) -> Sample | Malformed:
    fields = _fields(text)
    if header is not None and len(fields) != len(header):
        return Malformed(line, f"expected {len(header)} fields, as in the header; got {len(fields)}")
    names = header or [""] * len(fields)
    numbers = [field for name, field in zip(names, fields) if name != KEY_COLUMN]
    bad = next((field for field in numbers if not _is_number(field)), None)
    if bad is not None:
        return Malformed(line, f"not a number: {bad!r:.60}")
    key = fields[names.index(KEY_COLUMN)] if KEY_COLUMN in names else None
    return Sample(line, key, [float(field) if field else math.nan for field in numbers])


def _fields(text: str) -> list[str]:
    return [field.strip() for field in next(csv.reader([text]))]


def _is_number(field: str) -> bool:
    try:
        float(field or "nan")
    except ValueError:
        return False
    return True


def _is_json_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
