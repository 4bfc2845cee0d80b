"""Samples as rows of CSV, with columns by name or without a header."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from stopwise.streaming.sample_lines import Key, Number, Sample, sequence_number

FLAGS = {"": False, "0": False, "false": False, "1": True, "true": True}


@dataclass(frozen=True)
class Columns:
    """What is known of the columns before the header is read.

    Parameters
    ----------
    count
        D, the number of channels of the model.
    names
        Names of the channels, or None if they are unknown.
    drop
        Columns to ignore.
    echo
        Columns to copy to the decisions.
    chosen
        Whether the user chose columns by name, which only CSV has.
    """

    count: int
    names: Sequence[str] | None = None
    drop: Sequence[str] = ()
    echo: Sequence[str] = ()
    chosen: bool = False


@dataclass(frozen=True)
class Header:
    """The positions of the columns in a row."""

    width: int
    channels: list[int]
    key: int | None = None
    seq: int | None = None
    end: int | None = None
    extra: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: list[str], columns: Columns) -> Header:
        """Return the header that the first row describes; raise a ValueError if it is not a header.

        The column ``key`` or ``series`` names the stream, ``seq`` or (with ``series``) ``time`` is the
        sequence number, ``end`` is 1 or true in the last row of a stream. With ``series``, ``label`` is
        copied to the decisions. All other columns are channels.

        Examples
        --------
        >>> Header.of(["v", "key", "u"], Columns(2, names=["u", "v"]))
        Header(width=3, channels=[2, 0], key=1, seq=None, end=None, extra={})
        """
        if len(set(fields)) < len(fields) or "" in fields:
            raise ValueError(f"the columns of a header need distinct names; got {', '.join(fields)[:200]}")
        lost = [name for name in (*columns.drop, *columns.echo) if name not in fields]
        if lost:
            raise ValueError(
                f"--drop and --echo must name columns; there is no column {', '.join(lost)} among "
                f"{', '.join(fields)[:200]}"
            )
        own = set(columns.names or ())
        long = "series" in fields and "key" not in fields and "series" not in own
        key, seq = ("series", "time") if long else ("key", "seq")
        echo = {*columns.echo, *(["label"] if long else [])} - own
        reserved = ({key, seq, "end"} | echo | set(columns.drop)) - own
        channels = [name for name in fields if name not in reserved]
        names = channels if columns.names is None else columns.names
        unknown, absent = [n for n in channels if n not in names], [n for n in names if n not in fields]
        if unknown or absent or len(names) != columns.count:
            wanted = f"{columns.count} channel(s)" + (f" {', '.join(columns.names or ())}" if own else "")
            surplus = ", ".join(unknown)[:200] or "none"
            raise ValueError(
                f"the first row must be numbers or name the model's {wanted}, and key, seq, end; got "
                f"{', '.join(fields)[:200]} (unknown: {surplus}; missing: "
                f"{', '.join(absent) or 'none'}). Other columns: --drop or --echo"
            )

        def place(name: str) -> int | None:
            return fields.index(name) if name in fields and name not in own else None

        extra = {name: fields.index(name) for name in fields if name in echo}
        return cls(
            len(fields),
            [fields.index(name) for name in names],
            place(key),
            place(seq),
            place("end"),
            extra,
        )

    def sample(self, line: int, fields: list[str]) -> Sample:
        """Return the sample of a row; raise a ValueError if the row does not fit the header."""
        if len(fields) != self.width:
            raise ValueError(f"expected {self.width} fields, as in the first row; got {len(fields)}")
        flag = "" if self.end is None else fields[self.end].lower()
        if flag not in FLAGS:
            raise ValueError(f"end must be 1, true, 0, false or empty; got {flag!r:.60}")
        return Sample(
            line,
            Key.of(None if self.key is None else fields[self.key]),
            [_number(fields[i]) for i in self.channels],
            FLAGS[flag],
            None if self.seq is None else _sequence(fields[self.seq]),
            {name: fields[i] for name, i in self.extra.items()},
        )


def split(text: str) -> list[str]:
    """Return the fields of a row; raise a ValueError if it is not CSV."""
    try:
        return [field.strip() for field in next(csv.reader([text], strict=True), [])]
    except csv.Error as error:
        raise ValueError(f"not CSV ({error})") from None


def is_numbers(fields: list[str]) -> bool:
    """Return whether all fields are numbers or empty, so that the row is not a header."""
    try:
        return bool([_number(one) for one in fields])
    except ValueError:
        return False


def _number(text: str) -> float:
    """Return a number, NaN if the field is empty."""
    try:
        if "_" not in text:  # Python's own spelling of large numbers
            return float(text or "nan")
    except ValueError:
        pass
    raise ValueError(f"not a number: {text!r:.60}")


def _sequence(text: str) -> Number | None:
    if not text:
        return None
    value = _number(text)
    return sequence_number(int(value) if math.isfinite(value) and value == int(value) else value)
