"""Writing aside: a file appears under its name only when it is whole."""

from __future__ import annotations

import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_aside(*targets: Path) -> Iterator[list[Path]]:
    """Yield one temporary path beside each target; move them into place when the block ends well.

    If the block fails, the temporary files vanish and the targets stay as they were.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with written_aside(folder / "a.txt") as [aside]:
    ...     _ = aside.write_text("whole")
    >>> [path.name for path in folder.iterdir()]
    ['a.txt']
    """
    for path in targets:
        if not path.parent.is_dir():
            raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}. Make it first.")
    # The ending stays last: some writers judge the format by it.
    asides = [path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}") for path in targets]
    try:
        yield asides
        for aside, target in zip(asides, targets):
            os.replace(aside, target)
    finally:
        for aside in asides:
            aside.unlink(missing_ok=True)


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file at once or not at all, even if the machine stops: the data is on disk before it moves.

    What a process that was killed had left aside is removed, so one process at a time may write to a path.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_durably(folder / "a.txt", b"whole")
    >>> (folder / "a.txt").read_text()
    'whole'
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        left.unlink(missing_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(aside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
