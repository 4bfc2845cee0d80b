"""Progress reports: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_PER_LINE = 10.0


class Reporter:
    """Report the progress of a task with a known number of steps.

    Parameters
    ----------
    title
        Name of the task.
    total
        Number of steps.
    show
        True: a bar on a terminal, otherwise a line every ten seconds. False: nothing. "auto": a bar on a
        terminal, otherwise nothing.

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
        self._started = self._last_print = time.monotonic()
        self._pending, self._skipped = "", 0
        self._bar = None
        if show and terminal:
            self._bar = Progress(
                TextColumn("[bold]{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("[dim]{task.fields[note]}"),
                console=Console(stderr=True),
                transient=True,
            )
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
        elif kind is None and self._pending:  # the task ended before its last step
            self._print(self._pending)

    def skip(self, steps: int) -> None:
        """Count `steps` done before this run; they are excluded from the estimate of the time left."""
        self._skipped += steps
        self._done += steps
        if self._bar:
            self._bar.update(self._task, completed=self._done)
        if self._lines and steps:
            self._pending = f"{self._title}: {self._done}/{self._total}"

    def advance(self, note: str = "", steps: int = 1) -> None:
        """Count `steps` as done; `note` is shown next to the count, such as the current loss."""
        self._done += steps
        if self._bar:
            self._bar.update(self._task, advance=steps, note=note)
        if self._lines:
            self._pending = f"{self._title}: {self._done}/{self._total} {self._time_left()}{note}".rstrip()
            if self._done >= self._total or time.monotonic() - self._last_print >= SECONDS_PER_LINE:
                self._print(self._pending)

    def _time_left(self) -> str:
        """Return the estimated time left as text; "" if it is unknown or short."""
        done = self._done - self._skipped
        if not done:
            return ""
        seconds = (time.monotonic() - self._started) / done * (self._total - self._done)
        if seconds < SECONDS_PER_LINE:
            return ""
        minutes = round(seconds / 60)
        return f"({minutes} min left) " if minutes else f"({seconds:.0f} s left) "

    def _print(self, line: str) -> None:
        self._last_print, self._pending = time.monotonic(), ""
        print(line, file=sys.stderr, flush=True)
