"""Decide on keyed streams of samples that arrive as lines, and keep their states in a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwise.decision import Decision
from stopwise.streaming.answers import describe
from stopwise.streaming.lines import Malformed, Pause
from stopwise.streaming.reading import Item
from stopwise.streaming.sample_lines import Key, Sample
from stopwise.streaming.state_file import load_states, save_states
from stopwise.streaming.stream import Stream
from stopwise.streaming.streams import Streams


@dataclass
class Counts:
    """What happened so far."""

    samples: int = 0
    ignored: int = 0
    late: int = 0
    ends: int = 0
    decisions: int = 0
    forced: int = 0
    dropped: int = 0
    rejected: int = 0

    @property
    def useless(self) -> bool:
        """Whether there was input, but none of it could be used."""
        return self.rejected > 0 and not (self.samples or self.late or self.ends)

    def __str__(self) -> str:
        return (
            f"{self.samples} samples ({self.ignored} after a decision), {self.late} late or repeated, "
            f"{self.decisions} decisions ({self.forced} forced), {self.dropped} streams dropped, "
            f"{self.rejected} lines rejected"
        )


class StreamServer:
    """Take samples, write decisions and save the states of the streams.

    No line ends the service. What cannot be used is reported, counted and has no effect.

    Parameters
    ----------
    streams
        Function that creates the streams: it is called with `on_drop`, and with `on_idle` if streams can be
        idle.
    write
        Function that writes a decision, a dict of plain values.
    note
        Function that reports a message.
    path
        File of the states; None: they are not saved. If it exists, the streams resume from it.
    save_every
        Number of samples between saves.
    strict
        True: raise a ValueError at the first line that cannot be used.
    force_idle
        What happens to idle streams without a decision. True: it is forced. False: they are dropped. None:
        streams are never idle.
    """

    def __init__(
        self,
        streams: Callable[..., Streams],
        write: Callable[[dict[str, Any]], None],
        note: Callable[[str], None],
        *,
        path: Path | None = None,
        save_every: int = 1000,
        strict: bool = False,
        force_idle: bool | None = None,
    ) -> None:
        self._write, self._note = write, note
        self.path, self.save_every, self.strict = path, save_every, strict
        self.counts = Counts()
        self._seqs: dict[Key, Any] = {}
        self._unsaved = 0
        self._taken = 0  # also in earlier runs
        self._outbox: list[dict[str, Any]] = []  # decisions that are made but not written yet
        idle = {} if force_idle is None else {"on_idle": self._force if force_idle else self._drop_idle}
        self.streams = streams(on_drop=self._drop, **idle)
        if path is not None and path.exists():
            self._resume(path)

    def serve(self, items: Iterable[Item]) -> None:
        """Process all lines; at the end, save the states, or force a decision on every open stream."""
        self._flush()
        for item in items:
            if isinstance(item, Malformed):
                self._reject(item.line, item.reason)
            elif isinstance(item, Pause):
                self.streams.expire()
                self._forget_sequences()
            else:
                self._accept(item)
            self._flush()
            if self._unsaved >= self.save_every:
                self._save_or_note()
        if self.path is not None:
            self.save()
            return
        for key in self.streams:
            if self.streams.decided(key) is None:
                self._answer(key, self.streams.finish(key))
        self._flush()

    def save(self) -> None:
        """Write all states, and the decisions that could not be written."""
        if self.path is not None:
            save_states(self.path, self.streams, self._seqs, self._taken, self._outbox)
            self._unsaved = 0

    def _save_or_note(self) -> None:
        """Save in the middle of a run, which a full disk must not end."""
        try:
            self.save()
        except OSError as error:
            self._unsaved = 0
            self._note(f"the states could not be saved ({error}); those of the last save are kept")

    def _accept(self, sample: Sample) -> None:
        try:
            self._take(sample)
        except MemoryError:
            raise
        except Exception as error:  # no line ends the service, whatever is wrong with it
            reason = str(error.args[0]) if isinstance(error, ValueError | KeyError) and error.args else ""
            self._reject(sample.line, reason or f"{type(error).__name__}: {error}")

    def _take(self, sample: Sample) -> None:
        key, streams = sample.key, self.streams
        streams.expire()
        if key not in streams:
            self._seqs.pop(key, None)  # of an earlier stream with the same key
        if sample.seq is not None and sample.seq <= self._seqs.get(key, -math.inf):
            self.counts.late += 1
            return
        if sample.x is not None:
            made = streams.update({key: sample.x})
            self._taken += 1
            self._unsaved += 1
            self.counts.samples += 1
            if sample.seq is not None:
                self._seqs[key] = sample.seq
                self._forget_sequences()
            if key in made:
                self._answer(key, made[key], sample.extra)
            elif streams.decided(key) is not None:
                self.counts.ignored += 1
        if sample.end:
            self._end(sample)

    def _forget_sequences(self) -> None:
        """Remove the sequence numbers of streams that are gone, now and then."""
        if len(self._seqs) > 2 * len(self.streams) + 1000:
            self._seqs = {key: seq for key, seq in self._seqs.items() if key in self.streams}

    def _end(self, sample: Sample) -> None:
        key, streams = sample.key, self.streams
        if key not in streams:
            raise ValueError(f"there is no stream {key!r} to end: it is unknown or already finished")
        open_ = streams.decided(key) is None
        decision = streams.finish(key)
        self.counts.ends += 1
        self._unsaved += 1
        if open_:
            self._answer(key, decision, sample.extra)

    def _answer(self, key: Hashable, decision: Decision, extra: dict[str, Any] | None = None) -> None:
        self.counts.decisions += 1
        self.counts.forced += decision.forced
        value = key.value if isinstance(key, Key) else key
        answer = describe(None if value is None else {"key": value}, decision, self.streams.digest, extra)
        self._outbox.append(answer)

    def _flush(self) -> None:
        """Write the decisions; one that fails stays in the outbox, which is saved with the states."""
        while self._outbox:
            self._write(self._outbox[0])
            del self._outbox[0]

    def _reject(self, line: int, reason: str) -> None:
        self.counts.rejected += 1
        if self.strict:
            raise ValueError(f"line {line}: {reason}")
        self._note(f"line {line} skipped: {reason}")

    def _drop(self, key: Hashable, stream: Stream) -> None:
        self.counts.dropped += stream.decided is None
        self._note(
            f"stream {key!r} was dropped after {stream.time} samples: there are more streams than "
            "--max-streams"
        )

    def _drop_idle(self, key: Hashable, stream: Stream) -> None:
        self.counts.dropped += 1
        self._note(f"stream {key!r} was dropped after {stream.time} samples: it was idle")

    def _force(self, key: Hashable, stream: Stream) -> None:
        self._answer(key, stream.finish())

    def _resume(self, path: Path) -> None:
        self._seqs, self._taken, self._outbox = load_states(path, self.streams)
        self._note(
            f"resuming {len(self.streams)} streams as they were after sample {self._taken}; later samples "
            "were not saved and must be sent again"
        )
