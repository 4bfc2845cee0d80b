"""The engine shared by all streams of a classifier: model inputs, model step and stopping rule."""

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
    """Advance the states of any number of streams; the engine itself stores no state.

    Parameters
    ----------
    inputs
        Conversion of a sample to model inputs.
    step
        One step of the model.
    rule
        The stopping rule, bound to the prior.
    classes
        (K,) class labels.
    digest
        Hash of everything that determines the scores. A stored state is only accepted by the model that
        created it.
    """

    inputs: InputStep
    step: Step
    rule: Rule
    classes: np.ndarray
    digest: bytes

    def start(self, streams: int) -> State:
        """Return the state of streams before their first sample."""
        return self.step.start(streams) | self.inputs.start(streams)

    def advance(self, state: State, x: np.ndarray) -> State:
        """Return the state after one sample per stream, x (S, D), which `check` has returned."""
        seen, kept = self.inputs(x, state)
        return self.step(state, seen) | kept

    def check(self, x: Any, streams: int) -> np.ndarray:
        """Return samples as a float64 array (S, D); raise a ValueError if they are invalid."""
        array = np.asarray(x, dtype=np.float64).reshape(-1)
        channels = self.inputs.channels
        if array.size != streams * channels:
            raise ValueError(
                f"`x` must have {channels} number(s) per sample, as in training; got shape {np.shape(x)}"
                + (f" for {streams} streams." if streams > 1 else ".")
            )
        if not np.isfinite(array).all():
            if np.isinf(array).any():
                raise ValueError("`x` must be finite; got infinity. Correct or skip this sample.")
            if not self.inputs.mask:
                raise ValueError(
                    "`x` must be finite; got NaN. If values can be missing, train with missing='mask'."
                )
        return array.reshape(streams, channels)

    def decision(self, label: int, time: int, forced: bool, scores: np.ndarray) -> Decision:
        """Return a `Decision` with the label of class index `label`."""
        name = self.classes[label]
        return Decision(name.item() if isinstance(name, np.generic) else name, time, forced, scores.copy())

    def forced(self, state: State) -> Decision:
        """Return the forced decision on one stream (S = 1) at its end."""
        time, scores = int(state["time"][0]), state["scores"]
        if time == 0:
            raise ValueError("the stream has no samples, so there is nothing to decide. Call update() first.")
        return self.decision(int(self.rule.best_guess(scores, state["time"])[0]), time, True, scores[0])

    def restore(self, stored: Mapping[str, Any]) -> State:
        """Return a stored state in the form of `advance` (S = 1); raise a ValueError if it is invalid."""
        fresh = self.start(1)
        try:
            version, model = int(np.asarray(stored["version"])), np.asarray(stored["model"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(
                "`state` must be a result of Stream.state(); its version or model is missing or invalid."
            ) from error
        if version != STATE_VERSION:
            raise ValueError(f"`state` has version {version}; this stopwise reads version {STATE_VERSION}.")
        if not np.array_equal(model, np.frombuffer(self.digest, dtype=np.uint8)):
            raise ValueError("`state` must come from the same model; it was created by another model.")
        missing = sorted((fresh.keys() | {"decided"}) - set(stored))
        if missing:
            raise ValueError(f"`state` is damaged: {', '.join(missing)} is missing.")
        return {name: self._checked(name, stored[name], value) for name, value in fresh.items()}

    def _checked(self, name: str, stored: Any, fresh: np.ndarray) -> np.ndarray:
        """Return one array of a stored state (1, ...); check that it has the expected type and shape."""
        array = np.asarray(stored)
        fits = array.shape == fresh.shape[1:] if name == "held" else self.step.accepts(name, array.shape)
        if not fits or array.dtype != fresh.dtype:
            raise ValueError(
                f"`state` is damaged: {name} must be {fresh.dtype} of shape {fresh.shape[1:]}; got "
                f"{array.dtype} of shape {array.shape}."
            )
        return array[None].copy()

    def decided_code(self, decision: Decision | None) -> int:
        """Encode a decision for a stored state: -1 for none, the class, or -2 - class if it was forced."""
        if decision is None:
            return -1
        label = int(np.flatnonzero(self.classes == decision.label)[0])
        return -2 - label if decision.forced else label
