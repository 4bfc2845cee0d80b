"""Atomic writes: a file appears under its name only when it is complete."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(*targets: Path) -> Iterator[list[Path]]:
    """Yield one temporary path next to each target; rename them to the targets when the block succeeds.

    If the block fails, the temporary files are deleted and the targets stay unchanged.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_write(folder / "a.txt") as [temporary]:
    ...     _ = temporary.write_text("complete")
    >>> [path.name for path in folder.iterdir()]
    ['a.txt']
    """
    for path in targets:
        if not path.parent.is_dir():
            raise FileNotFoundError(
                f"cannot write {path}: there is no folder {path.parent}. Create it first."
            )
    # The suffix stays last: some writers choose the format by it.
    temporaries = [path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}") for path in targets]
    try:
        yield temporaries
        for temporary, target in zip(temporaries, targets):
            os.replace(temporary, target)
    finally:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file atomically, and flush the data to disk first so that it survives a power failure.

    Several processes may write to the same path; the last one wins. Temporary files that killed processes
    left behind are deleted.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_durably(folder / "a.txt", b"complete")
    >>> (folder / "a.txt").read_text()
    'complete'
    """
    remove_leftovers(path.parent, re.escape(path.name))
    part, file = _new_part(path)
    try:
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def remove_leftovers(folder: Path, names: str) -> None:
    """Delete temporary files of `write_durably` whose writers were killed.

    A writer locks its temporary file, and the system releases the lock when the process ends. So a file that
    can be locked has no writer any more.

    Parameters
    ----------
    folder
        The folder.
    names
        Regular expression of the names of the files that were to be written.
    """
    pattern = re.compile(leftover_pattern(names))
    for leftover in [file for file in folder.iterdir() if pattern.fullmatch(file.name)]:
        with suppress(OSError), open(leftover, "r+b") as file:  # in use, or already deleted
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()


def leftover_pattern(names: str) -> str:
    """Return the regular expression of temporary files of `write_durably`; `names` as there."""
    return rf"\.(?:{names})\.[0-9a-f]{{16}}\.part"


def _new_part(path: Path) -> tuple[Path, BinaryIO]:
    """Create and lock a temporary file next to `path`."""
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        file = open(part, "xb")  # noqa: SIM115 - the caller closes it
        if _is_mine(file) and part.exists():
            return part, file
        file.close()  # `remove_leftovers` of another process was faster than the lock


def _is_mine(file: BinaryIO) -> bool:
    """Lock a new file; return False if another process has locked it to delete it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks on this file system: leftovers are not deleted either
        return True
    return True
