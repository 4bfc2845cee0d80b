"""A lock on a folder, so that one process at a time writes to it."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

LOCK = ".stopwise-lock"
PATIENCE = 60.0  # seconds


class LockedError(TimeoutError):
    """Another process holds the lock."""


@contextmanager
def exclusive(folder: Path, patience: float | None = None) -> Iterator[None]:
    """Hold the lock of a folder; wait for it if another process or thread holds it.

    The system releases the lock when its holder ends, even if it is killed.

    Parameters
    ----------
    folder
        The folder, which must exist. The file `.stopwise-lock` is in it while the lock is held.
    patience
        Seconds after which a `LockedError` is raised; None means `PATIENCE`.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with exclusive(folder):
    ...     [path.name for path in folder.iterdir()]
    ['.stopwise-lock']
    >>> list(folder.iterdir())
    []
    """
    patience = PATIENCE if patience is None else patience
    path, deadline = folder / LOCK, time.monotonic() + patience
    file = _try(path)
    while file is None:
        if time.monotonic() > deadline:
            raise LockedError(
                f"{folder} is in use by another process (waited {patience:g} s). Wait until it ends, or "
                "choose another folder."
            )
        time.sleep(random.uniform(0.001, 0.01))
        file = _try(path)
    try:
        yield
    finally:
        # Deleted while it is locked. A process that waits for this file notices it, see `_try`.
        path.unlink(missing_ok=True)
        file.close()


def _try(path: Path) -> BinaryIO | None:
    """Return the locked file, or None if another process holds the lock."""
    file = open(path, "a+b")  # noqa: SIM115 - the caller closes it
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError as error:
        warnings.warn(
            f"{path.parent} is on a file system without locks ({errno.errorcode.get(error.errno or 0)}): "
            "save to it from one process at a time.",
            stacklevel=4,
        )
        return file
    try:
        same = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        same = False
    if same:
        return file
    file.close()  # the previous holder deleted the file before it was locked here
    return None
