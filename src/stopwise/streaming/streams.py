"""Classification of many keyed series at once; each update is one batched step of the model."""

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

FIRST_ROWS = 16  # initial capacity, doubled when it is full


class Streams:
    """Classify many keyed series while their samples arrive; created by `EarlyClassifier.streams`.

    A key is added with its first sample and removed by `finish` or `forget`. A key with a decision is kept,
    so that its later samples are ignored; it counts towards `max_streams` like any other.

    Parameters
    ----------
    engine
        Engine of the classifier, shared by all its streams.
    max_streams
        Maximum number of keys held at a time. Beyond it, the least recently updated stream is dropped.
    on_drop
        Function that is called with the key and the `Stream` of each dropped stream. None: log a warning.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
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
        self._rows: OrderedDict[Hashable, int] = OrderedDict()  # least recently updated key first
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
        """Take samples of some streams, and return the decisions that are made at these samples.

        Parameters
        ----------
        keys
            A dict {key: sample (D,)}, or n keys. A key may occur several times; its samples are taken in
            order.
        x
            (n, D) samples, if `keys` is not a dict.

        Returns
        -------
        decisions
            A dict {key: decision} of the decisions made in this call.
        """
        if isinstance(keys, Mapping):
            if x is not None:
                raise TypeError(
                    "`x` can only be used with a sequence of keys; got a dict, which holds the samples."
                )
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
        """Return the current scores (K,) of a stream."""
        return self._state["scores"][self._row(key)].copy()

    def time(self, key: Hashable) -> int:
        """Return the number of samples that a stream has taken."""
        return int(self._state["time"][self._row(key)])

    def decided(self, key: Hashable) -> Decision | None:
        """Return the decision on a stream, or None if there is no decision yet."""
        self._row(key)
        return self._decisions.get(key)

    def finish(self, key: Hashable) -> Decision:
        """End a stream, remove its key and return the decision; it is forced if there was none before."""
        decision = self.stream(key).finish()
        self.forget(key)
        return decision

    def forget(self, key: Hashable) -> None:
        """Remove a key without a decision; if the key occurs again, a new stream starts."""
        self._free.append(self._row(key))
        del self._rows[key]
        self._decisions.pop(key, None)

    def stream(self, key: Hashable) -> Stream:
        """Return an independent copy of one stream."""
        row = self._row(key)
        stream = Stream(self._engine)
        stream._state = {name: value[row : row + 1].copy() for name, value in self._state.items()}
        stream.decided = self._decisions.get(key)
        return stream

    def put(self, key: Hashable, state: Mapping[str, Any]) -> None:
        """Add or replace a key with a state that `Stream.state` returned."""
        stream = Stream(self._engine, state)
        row = self._rows[key] if key in self._rows else self._new_rows([key])[0]
        for name, value in stream._state.items():
            self._store(name, slice(row, row + 1), value)
        if stream.decided is None:
            self._decisions.pop(key, None)
        else:
            self._decisions[key] = stream.decided

    def states(self) -> tuple[list[Hashable], dict[str, np.ndarray]]:
        """Return all keys, and their states as in `Stream.state` but stacked to arrays (n, ...)."""
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
            raise KeyError(f"there is no stream {key!r}: the key is unknown or already finished.") from None

    def _take(self, keys: list[Hashable], samples: np.ndarray) -> dict[Hashable, Decision]:
        """Take one sample per key; keys must be distinct."""
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
        decisions = {
            keys[i]: self._engine.decision(int(labels[i]), int(new["time"][i]), False, new["scores"][i])
            for i in np.flatnonzero(labels >= 0)
        }
        self._decisions |= decisions
        return decisions

    def _new_rows(self, keys: list[Hashable]) -> list[int]:
        """Assign rows to new keys; drop the least recently updated streams beyond `max_streams`."""
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
        """Write one state array of some streams; if it is wider than before, widen all rows."""
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
        # Low rows are used first, so that streams added together are contiguous in memory.
        self._free = [*range(size - 1, have - 1, -1), *self._free]


def _places(rows: list[int]) -> slice | np.ndarray:
    """Return rows as an index: as a slice if they are contiguous, which avoids a copy."""
    if rows[-1] - rows[0] == len(rows) - 1 and rows == list(range(rows[0], rows[-1] + 1)):
        return slice(rows[0], rows[-1] + 1)
    return np.array(rows)


def _rounds(keys: list[Hashable]) -> list[list[int]]:
    """Split the positions of keys into rounds without repeated keys; a key's samples stay in order."""
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
        "stream %r was dropped after %d samples: there are more keys than max_streams. Increase max_streams, "
        "or remove keys with finish() or forget().",
        key,
        stream.time,
    )
