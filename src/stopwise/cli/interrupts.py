"""Signals that end a command between two steps of its work, never in the middle of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked the command to end.

    Parameters
    ----------
    number
        Number of the signal.
    at_once
        Whether the signal was repeated, so that the work in progress may be incomplete.
    """

    def __init__(self, number: int, at_once: bool) -> None:
        super().__init__(number)
        self.number, self.at_once = number, at_once


class Interrupts:
    """Turn SIGINT, SIGTERM and SIGHUP into `Interrupted`, raised only while the program waits for input.

    So the work on a sample is always complete. A second signal is raised at once. A signal that the process
    ignores, as with `nohup`, stays ignored.
    """

    def __init__(self) -> None:
        self._caught: int | None = None
        self._waiting = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            for number in ENDING:
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark the time in which a signal may interrupt the program."""
        self._waiting = True
        try:
            if self._caught is not None:
                raise Interrupted(self._caught, at_once=False)
            yield
        finally:
            self._waiting = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        repeated, self._caught = self._caught is not None, number
        if self._waiting or repeated:
            raise Interrupted(number, at_once=repeated and not self._waiting)
