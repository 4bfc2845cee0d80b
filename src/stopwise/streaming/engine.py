"""What all streams of a classifier share: the inputs, the model's step and the stopping rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stopwise.data.inputs import InputStep
from stopwise.decision import Decision
from stopwise.models.step import State, Step
from stopwise.rules import Rule

STATE_VERSION = 2


@dataclass(frozen=True)
class Engine:
    """Advances the states of any number of streams; it keeps nothing of any stream.

    Parameters
    ----------
    inputs
        What the model sees of a sample.
    step
        The model's step.
    rule
        The stopping rule, with the prior bound.
    classes
        (K,) labels.
    digest
        Of what makes the scores: a state fits only the model it came from.
    """

    inputs: InputStep
    step: Step
    rule: Rule
    classes: np.ndarray
    digest: bytes

    def start(self, streams: int) -> State:
        """Return the state of streams that have seen nothing."""
        return self.step.start(streams) | self.inputs.start(streams)

    def advance(self, state: State, x: np.ndarray) -> State:
        """Return the state after samples x (S, D), checked before."""
        seen, kept = self.inputs(x, state)
        return self.step(state, seen) | kept

    def check(self, x: Any, streams: int) -> np.ndarray:
        """Return samples as float64 (S, D), or say what is wrong with them."""
        array = np.asarray(x, dtype=np.float64).reshape(-1)
        channels = self.inputs.channels
        if array.size != streams * channels:
            raise ValueError(
                f"`x` must have {channels} number(s) a sample, as in training; got shape {np.shape(x)}"
                + (f" for {streams} streams." if streams > 1 else ".")
            )
        if not np.isfinite(array).all():
            if np.isinf(array).any():
                raise ValueError("`x` has infinite numbers: fix or skip this sample.")
            if not self.inputs.mask:
                raise ValueError("`x` has NaN: train with missing='mask' if it means not observed.")
        return array.reshape(streams, channels)

    def decision(self, label: int, time: int, forced: bool, scores: np.ndarray) -> Decision:
        """Return a decision with the label of a class index."""
        name = self.classes[label]
        return Decision(name.item() if isinstance(name, np.generic) else name, time, forced, scores.copy())

    def forced(self, state: State) -> Decision:
        """Return the decision on one stream (S = 1) when no further sample comes."""
        time, scores = int(state["time"][0]), state["scores"]
        if time == 0:
            raise ValueError("the stream has seen no sample: there is nothing to decide on.")
        return self.decision(int(self.rule.best_guess(scores, state["time"])[0]), time, True, scores[0])

    def restore(self, stored: Mapping[str, Any]) -> State:
        """Return a stored state as one that can be advanced (S = 1), or say what is wrong with it."""
        fresh = self.start(1)
        try:
            version, model = int(np.asarray(stored["version"])), np.asarray(stored["model"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(
                "`state` is not what Stream.state() returned: it has no version or model."
            ) from error
        if version != STATE_VERSION:
            raise ValueError(f"`state` has version {version}; this stopwise reads version {STATE_VERSION}.")
        if not np.array_equal(model, np.frombuffer(self.digest, dtype=np.uint8)):
            raise ValueError("`state` belongs to another model: its scores would mean nothing here.")
        missing = sorted((fresh.keys() | {"decided"}) - set(stored))
        if missing:
            raise ValueError(f"`state` is damaged: it lacks {', '.join(missing)}.")
        return {name: self._checked(name, stored[name], value) for name, value in fresh.items()}

    def _checked(self, name: str, stored: Any, fresh: np.ndarray) -> np.ndarray:
        """Return one entry of a stored state (1, ...) if it has the type and shape of a fresh one."""
        array = np.asarray(stored)
        fits = array.shape == fresh.shape[1:] if name == "held" else self.step.accepts(name, array.shape)
        if not fits or array.dtype != fresh.dtype:
            raise ValueError(
                f"`state` is damaged: {name} must be {fresh.dtype} of shape {fresh.shape[1:]}; got "
                f"{array.dtype} of shape {array.shape}."
            )
        return array[None].copy()

    def decided_code(self, decision: Decision | None) -> int:
        """Return a decision as a state stores it: its class, -1 for none, -2 - class if it was forced."""
        if decision is None:
            return -1
        label = int(np.flatnonzero(self.classes == decision.label)[0])
        return -2 - label if decision.forced else label
