"""Progress reports: a bar on a terminal or in a notebook, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_PER_LINE = 10.0
# Speed is averaged over this number of seconds for the estimate of the time left.
SPEED_SECONDS = 120.0


class Stages:
    """Report the progress of a task of several stages with one bar.

    Parameters
    ----------
    shares
        Names of the stages, in order, and the approximate share of the time of each.
    show
        True: a bar on a terminal or in a notebook, otherwise a line every ten seconds. False: nothing.
        "auto": as True on a terminal or in a notebook, otherwise nothing.

    Examples
    --------
    >>> with Stages({"training": 3, "polishing": 1}, show=False) as stages:
    ...     with stages.stage("training", 2) as stage:
    ...         stage.advance("loss 0.5")
    """

    def __init__(self, shares: Mapping[str, float], show: bool | str) -> None:
        if show not in (True, False, "auto"):
            raise ValueError(f"`progress` must be True, False or 'auto'; got {show!r}.")
        self.show = show
        self._shares, self._whole = dict(shares), sum(shares.values())
        self._finished = self._skipped = 0.0  # in units of the shares
        terminal, notebook = sys.stderr.isatty(), _is_notebook()
        # In a notebook, rich needs ipywidgets to update the bar.
        bar = bool(show) and (terminal or (notebook and find_spec("ipywidgets") is not None))
        self._lines = not bar and (show is True or (show == "auto" and notebook))
        self._started = self._last_print = time.monotonic()
        self._pending = ""
        self._bar: Progress | None = None
        if bar:
            self._bar = Progress(
                TextColumn("[bold]{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
                TimeRemainingColumn(),
                TextColumn("[dim]{task.fields[note]}"),
                console=Console(stderr=not notebook),
                transient=True,
                speed_estimate_period=SPEED_SECONDS,
            )
            self._task = self._bar.add_task(next(iter(shares), ""), total=self._whole, note="", count="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        elif kind is None and self._pending:  # a stage ended before its last step
            self._print(self._pending)

    def stage(self, name: str, total: int) -> Stage:
        """Return the next stage, which has `total` steps; `name` is one of the keys of the shares."""
        return Stage(self, name, total, self._shares[name])

    def plan(self, name: str, share: float) -> None:
        """Add a stage that was not known at the start."""
        self._shares[name] = share
        self._whole += share
        if self._bar:
            self._bar.update(self._task, total=self._whole)

    def _update(self, stage: Stage, done: float, note: str, *, skipped: float = 0.0) -> None:
        """Show that `done` of the whole are done; `skipped` of them were done before this run."""
        self._skipped += skipped
        if self._bar:
            self._bar.update(
                self._task,
                completed=done,
                description=stage.name,
                note=note,
                count=f"{stage.done}/{stage.total}",
            )
        if self._lines:
            left = "" if skipped else self._time_left(done)
            self._pending = f"{stage.name}: {stage.done}/{stage.total} {left}{note}".rstrip()
            last = stage.done >= stage.total and not skipped
            if last or (not skipped and time.monotonic() - self._last_print >= SECONDS_PER_LINE):
                self._print(self._pending)

    def _time_left(self, done: float) -> str:
        """Return the estimated time left as text; "" if it is unknown or short."""
        own = done - self._skipped
        if own <= 0:
            return ""
        seconds = (time.monotonic() - self._started) / own * (self._whole - done)
        if seconds < SECONDS_PER_LINE:
            return ""
        minutes = round(seconds / 60)
        return f"({minutes} min left) " if minutes else f"({seconds:.0f} s left) "

    def _print(self, line: str) -> None:
        self._last_print, self._pending = time.monotonic(), ""
        print(line, file=sys.stderr, flush=True)


class Stage:
    """One stage of a task. When it ends before its last step, the rest counts as done."""

    def __init__(self, stages: Stages, name: str, total: int, share: float) -> None:
        self._stages, self.name, self.total, self._share = stages, name, total, share
        self.done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            left = self._share * (1 - min(1.0, self.done / max(1, self.total)))
            self._stages._skipped += left  # took no time: no part of the speed
            self._stages._finished += self._share

    def skip(self, steps: int) -> None:
        """Count `steps` done before this run; they are excluded from the estimate of the time left."""
        if steps:
            self.done += steps
            skipped = self._share * steps / max(1, self.total)
            self._stages._update(self, self._reached(), "", skipped=skipped)

    def advance(self, note: str = "", steps: int = 1) -> None:
        """Count `steps` as done; `note` is shown next to the count, such as the current loss."""
        self.done += steps
        self._stages._update(self, self._reached(), note)

    def _reached(self) -> float:
        return self._stages._finished + self._share * min(1.0, self.done / max(1, self.total))


class Reporter(Stage):
    """Report the progress of a task with a known number of steps.

    Parameters
    ----------
    title
        Name of the task.
    total
        Number of steps.
    show
        As for `Stages`.

    Examples
    --------
    >>> with Reporter("training", total=2, show=False) as reporter:
    ...     reporter.advance("loss 0.5")
    """

    def __init__(self, title: str, total: int, show: bool | str) -> None:
        super().__init__(Stages({title: 1.0}, show), title, total, 1.0)

    def __enter__(self) -> Self:
        self._stages.__enter__()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._stages.__exit__(kind, error, trace)


def _is_notebook() -> bool:
    """Whether the code runs in a Jupyter notebook."""
    return "ipykernel" in sys.modules and Console(stderr=True).is_jupyter
