"""Classification of many keyed series at once; each update is one batched step of the model."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from stopwise.decision import Decision
from stopwise.models.step import State
from stopwise.streaming.engine import Engine
from stopwise.streaming.stream import Stream
from stopwise.streaming.table import Table, put
from stopwise.validation import check_integer, check_real

logger = logging.getLogger("stopwise")

OnRemoved = Callable[[Hashable, Stream], None]


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
    idle
        Seconds without a sample after which a stream is removed, at the next `update` or `expire`. None:
        streams are kept.
    on_idle
        Function that is called with the key and the `Stream` of each stream that is removed because it is
        idle and has no decision. ``stream.finish()`` gives the forced decision. None: log a warning.
    rearm
        What happens to samples after the decision on their stream. False: they are ignored. True: the next
        sample starts a new series of the same key.
    clock
        Function that returns the time in seconds.

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
        on_drop: OnRemoved | None = None,
        idle: float | None = None,
        on_idle: OnRemoved | None = None,
        rearm: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine, self._rearm, self._clock = engine, rearm, clock
        self.max_streams = check_integer("max_streams", max_streams, 1)
        self._idle = None if idle is None else check_real("idle", idle, 0, open_low=True)
        if on_idle is not None and idle is None:
            raise ValueError("`on_idle` can only be used with `idle`, the seconds without a sample.")
        self._on_drop, self._on_idle = on_drop or _warn_drop, on_idle or _warn_idle
        self._rows: OrderedDict[Hashable, int] = OrderedDict()  # least recently updated key first
        self._last: dict[Hashable, float] = {}  # time of the last sample, if `idle` is set
        self._decisions: dict[Hashable, Decision] = {}
        self._table = Table(engine.start, self.max_streams)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[Hashable]:
        return iter(list(self._rows))

    @property
    def digest(self) -> str:
        """Hash that identifies the model: weights, inputs and classes."""
        return self._engine.digest.hex()

    def update(
        self, keys: Mapping[Hashable, Any] | Sequence[Hashable] | np.ndarray, x: Any = None
    ) -> dict[Hashable, Decision]:
        """Take samples of some streams, and return the decisions that are made at these samples.

        If a sample cannot be used, an error is raised and no stream changes.

        Parameters
        ----------
        keys
            A dict {key: sample (D,)}, or n keys. A key may occur several times; its samples are taken in
            order. With ``rearm=True`` it may occur once, because it has at most one decision per call.
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
        self.expire()
        if not names:
            return {}
        samples = self._engine.samples(x, len(names))
        rounds = _rounds(names)
        if self._rearm and len(rounds) > 1:
            raise ValueError("`keys` must be distinct with rearm=True; call update once per sample.")
        distinct = names if len(rounds) == 1 else [names[place] for place in rounds[0]]
        state, decisions = self._advanced(distinct, names, samples, rounds)
        self._commit(distinct, state, decisions)
        return decisions

    def scores(self, key: Hashable) -> np.ndarray:
        """Return the current scores (K,) of a stream."""
        return self._table.state["scores"][self._row(key)].copy()

    def time(self, key: Hashable) -> int:
        """Return the number of samples that a stream has taken."""
        return int(self._table.state["time"][self._row(key)])

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
        self._table.release(self._row(key))
        del self._rows[key]
        self._decisions.pop(key, None)
        self._last.pop(key, None)

    def expire(self) -> list[Hashable]:
        """Remove the streams that have been idle for too long, and return their keys.

        `update` does this as well. Call it regularly if there may be no samples at all for a while.
        """
        if self._idle is None:
            return []
        now, idle = self._clock(), self._idle
        gone = list(takewhile(lambda key: now - self._last[key] >= idle, self._rows))
        removed = [(key, self._removed(key)) for key in gone]
        for key, stream in removed:
            if stream.decided is None:
                self._on_idle(key, stream)
        return gone

    def stream(self, key: Hashable) -> Stream:
        """Return an independent copy of one stream."""
        row = self._row(key)
        stream = Stream(self._engine, rearm=self._rearm)
        stream._state = {name: value.copy() for name, value in self._table.take([row]).items()}
        stream.decided = self._decisions.get(key)
        return stream

    def put(self, key: Hashable, state: Mapping[str, Any]) -> None:
        """Add or replace a key with a state that `Stream.state` returned."""
        stream = Stream(self._engine, state)
        self._decisions.pop(key, None)
        self._commit([key], stream._state, {} if stream.decided is None else {key: stream.decided})

    def states(self) -> tuple[list[Hashable], dict[str, np.ndarray]]:
        """Return all keys, and their states in the form that `restore` reads.

        The arrays are those of `Stream.state`. ``decided`` and the arrays of the model have one row per key.
        """
        keys = list(self._rows)
        codes = [self._engine.decided_code(self._decisions.get(key)) for key in keys]
        state = self._table.take(list(self._rows.values()))
        return keys, self._engine.pack(state, np.array(codes, dtype=np.int64))

    def restore(self, keys: Sequence[Hashable], states: Mapping[str, Any]) -> None:
        """Add the keys and states that `states` returned; keys that exist are replaced.

        Parameters
        ----------
        keys
            n distinct keys.
        states
            Arrays of their states.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
        >>> before, after = clf.streams(), clf.streams()
        >>> _ = before.update(["left", "right"], 0.1 * X[:2, 0])
        >>> after.restore(*before.states())
        >>> sorted(after), after.time("left")
        (['left', 'right'], 1)
        """
        names = list(keys)
        if len(set(names)) < len(names):
            raise ValueError("`keys` must be distinct; a key occurs twice.")
        state, codes = self._engine.checker().many(states, len(names))
        decisions: dict[Hashable, Decision] = {}
        for i in np.flatnonzero(codes != -1).tolist():
            decision = self._engine.decoded(int(codes[i]), int(state["time"][i]), state["scores"][i])
            decisions[names[i]] = decision  # type: ignore[assignment]  # it is None only for code -1
        for name in names:
            self._decisions.pop(name, None)
        self._commit(names, state, decisions)

    def _row(self, key: Hashable) -> int:
        try:
            return self._rows[key]
        except KeyError:
            raise KeyError(f"there is no stream {key!r}: the key is unknown or already finished.") from None

    def _advanced(
        self, keys: list[Hashable], names: list[Hashable], samples: np.ndarray, rounds: list[list[int]]
    ) -> tuple[State, dict[Hashable, Decision]]:
        """Return the states of distinct `keys` after samples of `names` (n, D), and the new decisions.

        Nothing is changed, so that a sample that cannot be used leaves all streams as they are.
        """
        state, copied = self._gathered(keys), False
        decisions: dict[Hashable, Decision] = {}
        over = {} if self._rearm else self._decisions
        for taken in rounds:
            if over or decisions:
                taken = [i for i in taken if names[i] not in over and names[i] not in decisions]
            if not taken:
                continue
            if len(taken) == len(names):  # one sample of every key, in the order of the states
                state = new = self._engine.advance(state, samples)
            else:
                if not copied:
                    state, copied = {name: value.copy() for name, value in state.items()}, True
                    place = {key: i for i, key in enumerate(keys)}
                rows = np.array([place[names[i]] for i in taken])
                new = self._engine.advance(
                    {name: value[rows] for name, value in state.items()}, samples[taken]
                )
                put(state, rows, new)
            labels = self._engine.rule.accept_checked(new["scores"], new["time"])
            for i in np.flatnonzero(labels >= 0).tolist():
                decisions[names[taken[i]]] = self._engine.decision(
                    int(labels[i]), int(new["time"][i]), False, new["scores"][i]
                )
        return state, decisions

    def _gathered(self, keys: list[Hashable]) -> State:
        """Return the states of keys, maybe as views; those of new keys, or that start over, are fresh."""
        over = self._decisions if self._rearm else {}
        rows = list(map(self._rows.get, keys))  # None: a new key
        if None not in rows and not over:
            return self._table.take(rows)  # type: ignore[arg-type]
        known = [i for i, key in enumerate(keys) if rows[i] is not None and key not in over]
        kept = self._table.take([self._rows[keys[i]] for i in known])
        if len(known) == len(keys):
            return kept
        state = self._engine.start(len(keys))
        if known:
            put(state, np.array(known), kept)
        return state

    def _commit(self, keys: list[Hashable], state: State, decisions: dict[Hashable, Decision]) -> None:
        """Store the states (n, ...) of distinct keys; drop the least recently updated ones if needed."""
        dropped: list[tuple[Hashable, Stream]] = []
        now = None if self._idle is None else self._clock()
        for start in range(0, len(keys), self.max_streams):
            part = slice(start, start + self.max_streams)
            dropped += self._stored(keys[part], {name: value[part] for name, value in state.items()}, now)
            if self._rearm:
                for key in keys[part]:
                    self._decisions.pop(key, None)
            if decisions:
                self._decisions |= {key: decisions[key] for key in keys[part] if key in decisions}
        for key, stream in dropped:  # after everything is stored, because the function may raise
            self._on_drop(key, stream)

    def _stored(self, keys: list[Hashable], state: State, now: float | None) -> list[tuple[Hashable, Stream]]:
        """Store the states of at most `max_streams` keys; return the streams that are dropped for them."""
        new_keys = [key for key in keys if key not in self._rows]
        known = keys if not new_keys else [key for key in keys if key in self._rows]
        deque(map(self._rows.move_to_end, known), maxlen=0)  # a loop, without that of Python
        excess = max(0, len(self._rows) + len(new_keys) - self.max_streams)
        dropped = [(key, self._removed(key)) for key in list(self._rows)[:excess]]
        self._rows.update(zip(new_keys, self._table.allocate(len(new_keys))))
        if now is not None:
            self._last.update(dict.fromkeys(keys, now))
        self._table.put(list(map(self._rows.__getitem__, keys)), state)
        return dropped

    def _removed(self, key: Hashable) -> Stream:
        stream = self.stream(key)
        self.forget(key)
        return stream


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


def _warn_drop(key: Hashable, stream: Stream) -> None:
    logger.warning(
        "stream %r was dropped after %d samples: there are more keys than max_streams. Increase max_streams, "
        "or remove keys with finish() or forget().",
        key,
        stream.time,
    )


def _warn_idle(key: Hashable, stream: Stream) -> None:
    logger.warning(
        "stream %r was dropped after %d samples without a decision: it was idle. Pass on_idle to handle it.",
        key,
        stream.time,
    )
