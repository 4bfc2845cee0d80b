"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINE_SECONDS = 10.0


class Reporter:
    """Report steps of known number.

    Parameters
    ----------
    title
        What the work is.
    total
        How many steps it has.
    show
        True: a bar on a terminal, a line every ten seconds elsewhere. False: nothing. "auto": a bar on a
        terminal, nothing elsewhere.

    Examples
    --------
    >>> with Reporter("training", total=2, show=False) as reporter:
    ...     reporter.advance("loss 0.5")
    """

    def __init__(self, title: str, total: int, show: bool | str) -> None:
        if show not in (True, False, "auto"):
            raise ValueError(f"`progress` must be True, False or 'auto'; got {show!r}.")
        terminal = sys.stderr.isatty()
        self._title, self._total, self._done = title, total, 0
        self._lines = show is True and not terminal
        self._started = self._spoken = time.monotonic()
        self._unsaid, self._skipped = "", 0
        self._bar = None
        if show and terminal:
            columns = ("[bold]{task.description}", "[dim]{task.fields[note]}")
            self._bar = Progress(
                TextColumn(columns[0]), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                TextColumn(columns[1]), console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task(title, total=total, note="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        elif kind is None and self._unsaid:  # the work ended before its last step
            self._say(self._unsaid)

    def skip(self, steps: int) -> None:
        """Say that `steps` were done before this work began: they tell nothing of its speed."""
        self._skipped += steps
        self._done += steps
        if self._bar:
            self._bar.update(self._task, completed=self._done)
        if self._lines and steps:
            self._unsaid = f"{self._title}: {self._done}/{self._total}"

    def advance(self, note: str = "", steps: int = 1) -> None:
        """Say that `steps` more are done; `note` tells the newest figures."""
        self._done += steps
        if self._bar:
            self._bar.update(self._task, advance=steps, note=note)
        if self._lines:
            self._unsaid = f"{self._title}: {self._done}/{self._total} {self._left()}{note}".rstrip()
            if self._done >= self._total or time.monotonic() - self._spoken >= LINE_SECONDS:
                self._say(self._unsaid)

    def _left(self) -> str:
        """Return the time left, where enough of it is left to want to know."""
        done = self._done - self._skipped
        if not done:  # nothing tells the speed yet
            return ""
        seconds = (time.monotonic() - self._started) / done * (self._total - self._done)
        if seconds < LINE_SECONDS:
            return ""
        minutes = round(seconds / 60)
        return f"({minutes} min left) " if minutes else f"({seconds:.0f} s left) "

    def _say(self, line: str) -> None:
        self._spoken, self._unsaid = time.monotonic(), ""
        print(line, file=sys.stderr, flush=True)
