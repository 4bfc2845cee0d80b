"""Locks between processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LockedError(OSError):
    """Another process holds the lock."""


@contextmanager
def locked(path: Path, what: str = "this path") -> Iterator[None]:
    """Hold an exclusive lock on a file, which is created if it does not exist.

    The kernel releases the lock when the process ends, also if it is killed. The file stays: deleting it
    would let two processes lock two different files of the same name.

    Parameters
    ----------
    path
        The lock file.
    what
        What the lock protects, for the error message.

    Raises
    ------
    LockedError
        If another process holds the lock.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / ".lock"
    >>> with locked(path, "the folder"):
    ...     with locked(path, "the folder"):
    ...         pass
    Traceback (most recent call last):
    ...
    stopwise.locking.LockedError: the folder is in use by another process. Wait until it ends...
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(
                f"{what} is in use by another process. Wait until it ends, or choose another path."
            ) from None
        yield
    finally:
        os.close(file)
