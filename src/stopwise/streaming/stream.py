"""Streaming: one sample in, a decision as soon as the rule is sure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stopwise.decision import Decision
from stopwise.models.networks.steps import State, Step
from stopwise.rules import Rule

STATE_VERSION = 1


@dataclass(frozen=True)
class Engine:
    """What all streams of a classifier share; it holds nothing of any stream.

    Parameters
    ----------
    step
        The network's step.
    rule
        The stopping rule.
    classes
        (K,) labels.
    missing
        "error" or "mask", as for `EarlyClassifier`.
    fill
        (C,) values of the channels before their first observation.
    identity
        A digest of the network's weights: a state fits only the network it came from.
    """

    step: Step
    rule: Rule
    classes: np.ndarray
    missing: str
    fill: np.ndarray
    identity: bytes

    @property
    def channels(self) -> int:
        """How many numbers a sample has."""
        return len(self.fill)

    def start(self, streams: int) -> State:
        """Return the state of streams that have seen nothing."""
        state = self.step.start(streams)
        if self.missing == "mask":
            state["held"] = np.tile(self.fill, (streams, 1))
        return state

    def advance(self, state: State, x: np.ndarray) -> State:
        """Return the state after samples x (S, C), checked before."""
        if self.missing != "mask":
            return self.step(state, x)
        observed = ~np.isnan(x)
        held = np.where(observed, x, state["held"])
        return self.step(state, np.concatenate([held, observed], axis=1, dtype=np.float32)) | {"held": held}

    def check(self, x: Any, streams: int) -> np.ndarray:
        """Return samples as float32 (S, C); tell what is wrong with them."""
        array = np.asarray(x, dtype=np.float32).reshape(-1)
        if array.size != streams * self.channels:
            raise ValueError(
                f"`x` must have {self.channels} number(s) a sample, as in training; got shape {np.shape(x)}"
                + (f" for {streams} streams." if streams > 1 else ".")
            )
        if not np.isfinite(array).all():
            if np.isinf(array).any():
                raise ValueError(
                    "`x` has infinite numbers (or beyond float32): mend or leave out the sample."
                )
            if self.missing == "error":
                raise ValueError("`x` has NaN: train with missing='mask' if it means not observed.")
        return array.reshape(streams, self.channels)

    def decision(self, label: int, time: int, forced: bool, scores: np.ndarray) -> Decision:
        """Return a decision with the label of a class index."""
        name = self.classes[label]
        return Decision(name.item() if isinstance(name, np.generic) else name, time, forced, scores.copy())

    def forced(self, state: State) -> Decision:
        """Return what must be decided of one stream (S = 1) when no further sample comes."""
        time, scores = int(state["time"][0]), state["scores"]
        if time == 0:
            raise ValueError("the stream has seen no sample: there is nothing to decide on.")
        return self.decision(int(self.rule.best_guess(scores, state["time"])[0]), time, True, scores[0])


class Stream:
    """One series that is still arriving; made by `EarlyClassifier.stream`.

    Parameters
    ----------
    engine
        What all streams of a classifier share.
    state
        What `state()` of another stream returned, to go on from there.

    Attributes
    ----------
    decided
        The decision, or None while the stream is open. Samples that come later change nothing.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=300, dim=3, length=10, seed=0)
    >>> clf = sw.EarlyClassifier(order=0, max_epochs=3).fit(X, y)
    >>> stream = clf.stream()
    >>> for x in X[0]:
    ...     decision = stream.update(x)
    ...     if decision is not None:
    ...         break
    >>> bool(decision.label == y[0]), decision.time == stream.time
    (True, True)
    """

    def __init__(self, engine: Engine, state: Mapping[str, Any] | None = None) -> None:
        self._engine = engine
        self.decided: Decision | None = None
        self._state = engine.start(1)
        if state is not None:
            self._restore(state)

    @property
    def scores(self) -> np.ndarray:
        """(K,) scores so far; their differences are log-likelihood ratios."""
        return self._state["scores"][0].copy()

    @property
    def time(self) -> int:
        """How many samples were taken."""
        return int(self._state["time"][0])

    def update(self, x: Any) -> Decision | None:
        """Take a sample (C,); return the decision if it falls now, else None.

        After the decision samples are ignored: `reset` begins anew.
        """
        if self.decided is not None:
            return None
        engine = self._engine
        self._state = state = engine.advance(self._state, engine.check(x, 1))
        label = int(engine.rule.accept_checked(state["scores"], state["time"])[0])
        if label >= 0:
            self.decided = engine.decision(label, self.time, False, state["scores"][0])
        return self.decided

    def finish(self) -> Decision:
        """Say that no further sample comes: return the decision, forced if none fell yet."""
        if self.decided is None:
            self.decided = self._engine.forced(self._state)
        return self.decided

    def reset(self) -> None:
        """Begin anew."""
        self._state, self.decided = self._engine.start(1), None

    def state(self) -> dict[str, np.ndarray]:
        """Return all there is to know of the stream: plain arrays, which `numpy.savez` writes.

        `version` is that of the layout, `model` tells the network the state belongs to. `decided` is the
        class decided for, -1 while the stream is open, -2 - class where it was forced.
        """
        about = {
            "version": np.array(STATE_VERSION),
            "model": np.frombuffer(self._engine.identity, dtype=np.uint8),
            "decided": np.array(decided_code(self._engine, self.decided)),
        }
        return about | {name: np.array(value[0]) for name, value in self._state.items()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._state = checked_state(self._engine, state)
        code = int(np.asarray(state["decided"]))
        if code != -1:
            label = code if code >= 0 else -2 - code
            if label >= len(self._engine.classes):
                raise ValueError(
                    f"`state` is damaged: it decided for class {label} of {len(self._engine.classes)}."
                )
            self.decided = self._engine.decision(label, self.time, code < 0, self._state["scores"][0])


def decided_code(engine: Engine, decision: Decision | None) -> int:
    """Return a decision as a state holds it: its class, -1 for none, -2 - class where it was forced."""
    if decision is None:
        return -1
    label = int(np.flatnonzero(engine.classes == decision.label)[0])
    return -2 - label if decision.forced else label


def checked_state(engine: Engine, state: Mapping[str, Any]) -> State:
    """Return a stored state as one that can be advanced (S = 1); tell what is wrong with it."""
    fresh = engine.start(1)
    try:
        version, model = int(np.asarray(state["version"])), np.asarray(state["model"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(
            "`state` is not what Stream.state() returned: it has no version or model."
        ) from error
    if version != STATE_VERSION:
        raise ValueError(f"`state` has version {version}; this stopwise reads version {STATE_VERSION}.")
    if not np.array_equal(model, np.frombuffer(engine.identity, dtype=np.uint8)):
        raise ValueError("`state` belongs to another model: its scores would mean nothing here.")
    missing = sorted((fresh.keys() | {"decided"}) - set(state))
    if missing:
        raise ValueError(f"`state` is damaged: it lacks {', '.join(missing)}.")
    restored = {}
    for name, value in fresh.items():
        stored = np.asarray(state[name])
        if stored.shape != value.shape[1:] or stored.dtype != value.dtype:
            raise ValueError(
                f"`state` is damaged: {name} must be {value.dtype} of shape {value.shape[1:]}; got "
                f"{stored.dtype} of shape {stored.shape}."
            )
        restored[name] = stored[None].copy()
    return restored
