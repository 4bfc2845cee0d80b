"""What a worker does with the samples of one key, and what Spark stores between micro-batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from stopwise.decision import Decision
from stopwise.spark.shipping import Shipped, label_type, plain_label
from stopwise.streaming.stream import Stream

STATE = "seen bigint, timer bigint, sequence bigint, ignored bigint, over boolean, stream binary"


@dataclass(frozen=True)
class Settings:
    """The arguments of `decide_stream` that matter on a worker."""

    idle: int  # milliseconds
    force: bool  # a key that is idle gets a forced decision; False: it is dropped
    rearm: bool
    ordered: bool  # samples have a column `place`, by which they are sorted
    numbered: bool  # `place` is a sequence number
    ends: bool  # there is a column `end`


@dataclass(frozen=True)
class Kept:
    """The stored state of a key, in the order of `STATE`.

    Parameters
    ----------
    seen
        Time of the last sample, in milliseconds.
    timer
        When Spark will ask whether the key is idle; None if Spark removes it by itself.
    sequence
        The last sequence number, or None.
    ignored
        Number of late or repeated samples since the last decision.
    over
        True if the series is over, or is decided and not rearmed before its end.
    stream
        State of the stream; None: no samples yet.
    """

    seen: int
    timer: int | None = None
    sequence: int | None = None
    ignored: int = 0
    over: bool = False
    stream: bytes | None = None


class Processor:
    """Decide on the samples of one key after the other.

    It has the methods of pyspark's `StatefulProcessor`, row form. It does not inherit from it, so that this
    module can be imported without pyspark.

    Parameters
    ----------
    shipped
        The classifier.
    settings
        How keys start, end and are freed.
    """

    def __init__(self, shipped: Shipped, settings: Settings) -> None:
        self._shipped, self._settings = shipped, settings

    def init(self, handle: Any) -> None:
        """Declare what is stored by key. Spark removes it when it has not been written for the idle time."""
        self._handle = handle
        time_to_live = None if self._settings.force else self._settings.idle
        self._stored = handle.getValueState("key", STATE, time_to_live)

    def handleInputRows(self, key: tuple[Any, ...], rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        """Take the samples of a key in one micro-batch, and return its decisions."""
        stored, now = self._stored.get(), timerValues.getCurrentProcessingTimeInMs()
        before = Kept(now) if stored is None else Kept(*stored)
        series = Series(self._shipped, self._settings, replace(before, seen=now))
        decisions = series.take(rows)
        self._store(series.kept(), is_new=stored is None)
        return iter([self._row(key, *decision) for decision in decisions])

    def handleExpiredTimer(
        self, key: tuple[Any, ...], timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        """Force the decision on a key that is idle, and free it."""
        stored = self._stored.get()
        if stored is None:
            return iter([])
        kept = Kept(*stored)
        due = kept.seen + self._settings.idle
        if due > timerValues.getCurrentProcessingTimeInMs():
            # There were samples since the timer was set. Setting it with every sample would cost more.
            self._handle.registerTimer(due)
            self._stored.update(_values(replace(kept, timer=due)))
            return iter([])
        self._stored.clear()
        decision = Series(self._shipped, self._settings, kept).finish()
        return iter([] if decision is None else [self._row(key, decision, kept.ignored)])

    def close(self) -> None:
        """Do nothing; there is nothing to close."""

    def _store(self, kept: Kept, is_new: bool) -> None:
        if kept.stream is None and not kept.over and kept.sequence is None:
            # The next sample starts a new series, and there is nothing to remember.
            if kept.timer is not None:
                self._handle.deleteTimer(kept.timer)
            if not is_new:
                self._stored.clear()
            return
        if self._settings.force and kept.timer is None:
            kept = replace(kept, timer=kept.seen + self._settings.idle)
            self._handle.registerTimer(kept.timer)
        self._stored.update(_values(kept))

    def _row(self, key: tuple[Any, ...], decision: Decision, ignored: int) -> Any:
        from pyspark.sql import Row

        label = plain_label(decision.label, label_type(self._shipped.unpack().classes_))
        scores = decision.scores.tolist()
        return Row(
            key=key[0],
            label=label,
            time=decision.time,
            forced=decision.forced,
            scores=scores,
            ignored=ignored,
        )


class Series:
    """The current series of a key while the samples of a micro-batch are taken."""

    def __init__(self, shipped: Shipped, settings: Settings, kept: Kept) -> None:
        self._clf, self._settings, self._kept = shipped.unpack(), settings, kept
        self._sequence, self._ignored, self._over = kept.sequence, kept.ignored, kept.over
        self._stream: Stream | None = None
        if kept.stream is not None:
            self._stream = self._clf.stream(state=unpack(kept.stream))

    def take(self, rows: Iterable[Any]) -> list[tuple[Decision, int]]:
        """Take samples; return the decisions, each with the number of samples ignored before it."""
        if self._settings.ordered:
            rows = sorted(rows, key=lambda row: row.place)
        decisions = []
        for row in rows:
            if not self._is_next(row):
                continue
            decision = None if self._over else self._advance(row.x, row.end)
            if decision is not None:
                decisions.append((decision, self._ignored))
                self._stream, self._ignored = None, 0
                self._over = True
            if self._settings.rearm and self._over and (row.end or not self._settings.ends):
                self._over = False
        return decisions

    def finish(self) -> Decision | None:
        """Return the forced decision, or None if there is nothing to decide."""
        return None if self._over or self._stream is None else self._stream.finish()

    def kept(self) -> Kept:
        """Return what must be stored."""
        stream = None if self._stream is None else pack(self._stream.state())
        return replace(
            self._kept, sequence=self._sequence, ignored=self._ignored, over=self._over, stream=stream
        )

    def _is_next(self, row: Any) -> bool:
        """Return whether a sample is neither late nor repeated."""
        if not self._settings.numbered:
            return True
        if self._sequence is not None and row.place <= self._sequence:
            self._ignored += 1
            return False
        self._sequence = row.place
        return True

    def _advance(self, x: list[float] | None, end: bool) -> Decision | None:
        """Take one sample, or none if x is None; return the decision if there is one."""
        decision = None
        if x is not None:
            if self._stream is None:
                self._stream = self._clf.stream()
            decision = self._stream.update(x)
        if end and decision is None:
            decision = self.finish()
            self._over = True
        return decision


def pack(state: dict[str, np.ndarray]) -> bytes:
    """Return the state of a stream as bytes; `unpack` reads them without running code from them."""
    return to_bytes({name: np.ascontiguousarray(value).reshape(value.shape) for name, value in state.items()})


def unpack(data: bytes) -> dict[str, np.ndarray]:
    """Return the state from the bytes that `pack` returned.

    Examples
    --------
    >>> unpack(pack({"time": np.array(3)}))["time"].item()
    3
    """
    return from_bytes(bytes(data))


def _values(kept: Kept) -> tuple[Any, ...]:
    return (kept.seen, kept.timer, kept.sequence, kept.ignored, kept.over, kept.stream)
