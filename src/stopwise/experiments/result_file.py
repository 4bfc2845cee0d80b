"""Result files of sweeps: JSON lines, one finished job per line, written by appending only."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_records(path: Path) -> dict[str, dict[str, Any]]:
    """Return the records of a result file by name; {} if there is no file.

    If several records have the same name, the last one is returned. Invalid lines, such as the last line of a
    process that was killed while writing, are ignored.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "runs.jsonl"
    >>> for error in (0.3, 0.1):
    ...     append_record(path, {"name": "tanh", "result": {"error": error}})
    >>> read_records(path)
    {'tanh': {'name': 'tanh', 'result': {'error': 0.1}}}
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    records = {}
    for line in lines:
        try:
            record = json.loads(line)
            records[record["name"]] = record
        except (ValueError, KeyError, TypeError):
            continue
    return records


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Append a record as one line and flush it to disk.

    Several processes may append to one file at the same time: a line is a single write to a descriptor in
    append mode, so lines do not interleave.

    Parameters
    ----------
    path
        The result file.
    record
        Plain JSON values, with a key "name".
    """
    line = json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        # If the last line was truncated, start a new line.
        size = os.lseek(descriptor, 0, os.SEEK_END)
        if size:
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            if os.read(descriptor, 1) != b"\n":
                line = b"\n" + line
        if os.write(descriptor, line) < len(line):
            raise OSError(f"cannot write a result to {path}: the disk is full. Free some space and resume.")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
