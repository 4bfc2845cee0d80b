"""Many keyed streams at once, batched through one step of the model."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stopwise.decision import Decision
from stopwise.models.step import State
from stopwise.streaming.engine import STATE_VERSION, Engine
from stopwise.streaming.stream import Stream
from stopwise.validation import check_integer

logger = logging.getLogger("stopwise")

FIRST_ROWS = 16  # rows at first; they double as keys are added


class Streams:
    """Keyed streams; made by `EarlyClassifier.streams`.

    A key is added with its first sample and removed by `finish` or `forget`. If there are too many, the least
    recently updated stream is dropped with a warning. A decided key stays, so that its later samples are
    ignored, and counts like any other.

    Parameters
    ----------
    engine
        What all streams of a classifier share.
    max_streams
        The most keys held at a time.
    on_drop
        Called with the key and the `Stream` of each that is dropped; None logs a warning.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=300, channels=3, length=10, seed=0)
    >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
    >>> streams = clf.streams()
    >>> decided = {}
    >>> for t in range(10):
    ...     decided |= streams.update({"left": X[0, t], "right": X[1, t]})
    >>> [decided[key].label for key in ("left", "right")] == y[:2].tolist()
    True
    """

    def __init__(
        self,
        engine: Engine,
        *,
        max_streams: int = 100_000,
        on_drop: Callable[[Hashable, Stream], None] | None = None,
    ) -> None:
        self._engine = engine
        self.max_streams = check_integer("max_streams", max_streams, 1)
        self._on_drop = on_drop or _warn
        self._rows: OrderedDict[Hashable, int] = OrderedDict()  # the least recently updated first
        self._decisions: dict[Hashable, Decision] = {}
        self._state: State = engine.start(min(FIRST_ROWS, self.max_streams))
        self._free = list(range(len(self._state["time"])))[::-1]

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[Hashable]:
        return iter(list(self._rows))

    def update(
        self, keys: Mapping[Hashable, Any] | Sequence[Hashable] | np.ndarray, x: Any = None
    ) -> dict[Hashable, Decision]:
        """Take samples of some streams; return the decisions made now.

        Parameters
        ----------
        keys
            {key: sample (C,)}, or (n,) keys. A key may come several times: its samples are taken in order.
        x
            (n, C) samples, if `keys` are keys alone.
        """
        if isinstance(keys, Mapping):
            if x is not None:
                raise TypeError("`x` goes with an array of keys; with a dict the samples are its values.")
            x = list(keys.values())
        names: list[Hashable] = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
        if not names:
            return {}
        samples = self._engine.check(x, len(names))
        decisions: dict[Hashable, Decision] = {}
        for places in _rounds(names):
            decisions |= self._take([names[i] for i in places], samples[places])
        return decisions

    def scores(self, key: Hashable) -> np.ndarray:
        """Return the scores (K,) of a stream."""
        return self._state["scores"][self._row(key)].copy()

    def time(self, key: Hashable) -> int:
        """Return how many samples of a stream were taken."""
        return int(self._state["time"][self._row(key)])

    def decided(self, key: Hashable) -> Decision | None:
        """Return the decision on a stream, or None while it is open."""
        self._row(key)
        return self._decisions.get(key)

    def finish(self, key: Hashable) -> Decision:
        """Return the decision on a stream, forced if there was none yet, and remove the key."""
        decision = self.stream(key).finish()
        self.forget(key)
        return decision

    def forget(self, key: Hashable) -> None:
        """Remove a key; if it comes again, it starts over."""
        self._free.append(self._row(key))
        del self._rows[key]
        self._decisions.pop(key, None)

    def stream(self, key: Hashable) -> Stream:
        """Return a copy of one of the streams on its own."""
        row = self._row(key)
        stream = Stream(self._engine)
        stream._state = {name: value[row : row + 1].copy() for name, value in self._state.items()}
        stream.decided = self._decisions.get(key)
        return stream

    def put(self, key: Hashable, state: Mapping[str, Any]) -> None:
        """Add a key, or replace it, with what `Stream.state` returned."""
        stream = Stream(self._engine, state)
        row = self._rows[key] if key in self._rows else self._new_rows([key])[0]
        for name, value in stream._state.items():
            self._store(name, slice(row, row + 1), value)
        if stream.decided is None:
            self._decisions.pop(key, None)
        else:
            self._decisions[key] = stream.decided

    def states(self) -> tuple[list[Hashable], dict[str, np.ndarray]]:
        """Return all keys and their states, as `Stream.state` gives them, one below the other: (n, ...)."""
        keys, rows = list(self._rows), list(self._rows.values())
        codes = [self._engine.decided_code(self._decisions.get(key)) for key in keys]
        about = {
            "version": np.full(len(keys), STATE_VERSION),
            "model": np.tile(np.frombuffer(self._engine.digest, dtype=np.uint8), (len(keys), 1)),
            "decided": np.array(codes, dtype=np.int64),
        }
        return keys, about | {name: value[rows] for name, value in self._state.items()}

    def _row(self, key: Hashable) -> int:
        try:
            return self._rows[key]
        except KeyError:
            raise KeyError(f"there is no stream {key!r}: unknown key, or already finished.") from None

    def _take(self, keys: list[Hashable], samples: np.ndarray) -> dict[Hashable, Decision]:
        """Advance streams by a sample each; no key comes twice."""
        if len(keys) > self.max_streams:
            head, tail = slice(self.max_streams), slice(self.max_streams, None)
            return self._take(keys[head], samples[head]) | self._take(keys[tail], samples[tail])
        new_keys = [key for key in keys if key not in self._rows]
        for key in keys if not new_keys else set(keys).difference(new_keys):
            self._rows.move_to_end(key)
        if new_keys:
            self._new_rows(new_keys)
        if self._decisions:
            open_ = [i for i, key in enumerate(keys) if key not in self._decisions]
            if len(open_) < len(keys):
                keys, samples = [keys[i] for i in open_], samples[open_]
        if not keys:
            return {}
        rows = _places([self._rows[key] for key in keys])
        new = self._engine.advance({name: value[rows] for name, value in self._state.items()}, samples)
        for name, value in new.items():
            self._store(name, rows, value)
        labels = self._engine.rule.accept_checked(new["scores"], new["time"])
        fallen = {
            keys[i]: self._engine.decision(int(labels[i]), int(new["time"][i]), False, new["scores"][i])
            for i in np.flatnonzero(labels >= 0)
        }
        self._decisions |= fallen
        return fallen

    def _new_rows(self, keys: list[Hashable]) -> list[int]:
        """Give keys that are not there a row each, dropping others if there are too many."""
        for key in list(self._rows)[: max(0, len(self._rows) + len(keys) - self.max_streams)]:
            stream = self.stream(key)
            self.forget(key)
            self._on_drop(key, stream)
        self._grow(len(self._rows) + len(keys))
        rows = [self._free.pop() for _ in keys]
        fresh = self._engine.start(len(keys))
        for name, value in fresh.items():
            self._store(name, np.array(rows), value)
        self._rows.update(zip(keys, rows))
        return rows

    def _store(self, name: str, rows: slice | np.ndarray, value: np.ndarray) -> None:
        """Write an entry of the state of some streams; if it is larger than before, all rows grow."""
        kept = self._state[name]
        if kept.ndim < 2 or kept.shape[1] == value.shape[1]:
            kept[rows] = value
            return
        if kept.shape[1] < value.shape[1]:
            wider = np.zeros((len(kept), *value.shape[1:]), dtype=kept.dtype)
            wider[:, : kept.shape[1]] = kept
            self._state[name] = kept = wider
        kept[rows] = 0
        kept[rows, : value.shape[1]] = value

    def _grow(self, wanted: int) -> None:
        have = len(self._state["time"])
        if wanted <= have:
            return
        size = min(max(wanted, 2 * have), self.max_streams)
        more = self._engine.start(size - have)
        before, self._state = self._state, {}
        for name, value in before.items():
            self._state[name] = np.zeros((size, *value.shape[1:]), dtype=value.dtype)
            self._state[name][:have] = value
            self._store(name, slice(have, size), more[name])
        # The lowest rows go first, so that streams that came together lie together.
        self._free = [*range(size - 1, have - 1, -1), *self._free]


def _places(rows: list[int]) -> slice | np.ndarray:
    """Return rows as an index; where they follow each other, as a slice, which copies nothing."""
    if rows[-1] - rows[0] == len(rows) - 1 and rows == list(range(rows[0], rows[-1] + 1)):
        return slice(rows[0], rows[-1] + 1)
    return np.array(rows)


def _rounds(keys: list[Hashable]) -> list[list[int]]:
    """Return places of keys, split so that no key is twice in a round, in order."""
    if len(set(keys)) == len(keys):
        return [list(range(len(keys)))]
    seen: dict[Hashable, int] = {}
    rounds: list[list[int]] = []
    for place, key in enumerate(keys):
        number = seen.get(key, 0)
        seen[key] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(place)
    return rounds


def _warn(key: Hashable, stream: Stream) -> None:
    logger.warning(
        "stream %r was dropped after %d samples: there are more keys than max_streams. Raise it, or remove "
        "keys with finish() or forget().",
        key,
        stream.time,
    )
