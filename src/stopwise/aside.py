"""Writing aside: a file appears under its name only when it is whole."""

from __future__ import annotations

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
