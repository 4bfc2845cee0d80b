"""Reading lines of text from a file or a pipe, with bounded memory."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import BinaryIO

CHUNK = 1 << 16  # bytes to read at once
MAX_LINE = 1 << 20  # default of the maximum length of a line, in bytes
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Line:
    """A non-empty line: its number, counted from 1, and its text."""

    number: int
    text: str


@dataclass(frozen=True)
class Malformed:
    """A line that cannot be read, and the reason."""

    line: int
    reason: str


@dataclass(frozen=True)
class Pause:
    """No line arrived for a while."""


def read_lines(
    file: BinaryIO,
    max_line: int = MAX_LINE,
    *,
    pause: float | None = None,
    waiting: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Iterator[Line | Malformed | Pause]:
    """Yield the non-empty lines of a binary file as they arrive.

    Parameters
    ----------
    file
        File, pipe or terminal, opened in binary mode. It is not read ahead of what has arrived.
    max_line
        Maximum length of a line in bytes. A longer line is skipped without being held in memory.
    pause
        Seconds after which a `Pause` is yielded if no line arrives. None: wait for the next line.
    waiting
        Context in which the program waits for input.

    Yields
    ------
    line
        A `Line`; `Malformed` if it is too long or not UTF-8; or a `Pause`. A byte order mark at the
        beginning is skipped.

    Examples
    --------
    >>> import io
    >>> list(read_lines(io.BytesIO(b"one\\n\\ntwo\\r\\n")))
    [Line(number=1, text='one'), Line(number=3, text='two')]
    """
    held, number, too_long = bytearray(), 0, False
    while True:
        with waiting():
            chunk = _read(file, pause)
        if chunk is None:
            yield Pause()
            continue
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            number += 1
            if too_long or len(held) + len(part) > max_line:
                yield _too_long(number, max_line)
            elif (line := _decoded(number, bytes(held) + part)) is not None:
                yield line
            held, too_long = bytearray(), False
        held += rest
        if len(held) > max_line:
            held, too_long = bytearray(), True
        if not chunk:
            break
    if too_long:
        yield _too_long(number + 1, max_line)
    elif (line := _decoded(number + 1, bytes(held))) is not None:
        yield line


def _read(file: BinaryIO, pause: float | None) -> bytes | None:
    """Return the bytes that have arrived, b"" at the end of the file, or None if nothing arrives in time."""
    if pause is not None and not select.select([file], [], [], pause)[0]:
        return None
    # read1 returns what is there; reading at least its buffer size leaves nothing for `select` to miss.
    return file.read1(CHUNK) if hasattr(file, "read1") else file.read(CHUNK)


def _decoded(number: int, line: bytes) -> Line | Malformed | None:
    """Return the text of a line; None if it is empty."""
    if number == 1:
        line = line.removeprefix(BOM)
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        return Malformed(number, f"not UTF-8 text (byte 0x{line[error.start]:02x} at {error.start + 1})")
    return Line(number, text) if text else None


def _too_long(number: int, max_line: int) -> Malformed:
    return Malformed(number, f"longer than {max_line} bytes (see --max-line)")
