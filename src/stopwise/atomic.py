"""Atomic writes: a file appears under its name only when it is complete."""

from __future__ import annotations

import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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

    Temporary files that a killed process left behind are deleted, so only one process at a time may write
    to a path.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_durably(folder / "a.txt", b"complete")
    >>> (folder / "a.txt").read_text()
    'complete'
    """
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        leftover.unlink(missing_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
