"""The engine shared by all streams of a classifier: model inputs, model step and stopping rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stopwise.data.inputs import InputStep
from stopwise.decision import Decision
from stopwise.models.step import State, Step
from stopwise.rules import Rule
from stopwise.streaming.samples import many_samples, one_sample
from stopwise.streaming.states import StateChecker, pack

UNDECIDED = -1


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
    channel_names
        The D names of the channels, or None if they are unknown.
    """

    inputs: InputStep
    step: Step
    rule: Rule
    classes: np.ndarray
    digest: bytes
    channel_names: Sequence[str] | None = None

    def start(self, streams: int) -> State:
        """Return the state of streams before their first sample."""
        return self.step.start(streams) | self.inputs.start(streams)

    def one_sample(self, x: Any) -> np.ndarray:
        """Return one sample (1, D) for `advance`; raise a ValueError if it is invalid."""
        return self._scaled(one_sample(x, self.inputs.channels, self.channel_names))

    def samples(self, x: Any, count: int) -> np.ndarray:
        """Return one sample per key (n, D) for `advance`; raise a ValueError if one is invalid."""
        return self._scaled(many_samples(x, count, self.inputs.channels, self.channel_names))

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        """Return samples x (S, D) centered and scaled, if the model can process them, as in a batch."""
        with np.errstate(over="ignore", invalid="ignore"):
            values: np.ndarray = self.inputs.values(x)  # (S, D), infinite if a value is too large
            if _is_finite(values):
                return values
        if np.isinf(values).any():
            raise ValueError(
                "`x` must be finite; got infinity (or a value too large for float32). Correct or skip this "
                "sample."
            )
        if not self.inputs.mask:
            raise ValueError(
                "`x` must be finite; got NaN or a masked value. If values can be missing, train with "
                "missing='mask'."
            )
        return values

    def advance(self, state: State, samples: np.ndarray) -> State:
        """Return the state after one sample per stream (S, D), a result of `one_sample` or `samples`.

        The given state is not changed. A ValueError is raised if the scores overflow.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            seen, kept = self.inputs.observe(samples, state)
            new = self.step(state, seen) | kept
            finite = _is_finite(new["scores"])
        if not finite:
            raise ValueError(
                "`x` leads to infinite scores: its values are too far from those in training. Correct or "
                "skip this sample."
            )
        return new

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

    def pack(self, state: State, decided: np.ndarray) -> dict[str, np.ndarray]:
        """Return a state to store, with the codes of the decisions; `checker` reads it."""
        return pack(self.digest, state, decided)

    def checker(self) -> StateChecker:
        """Return the checker of stored states."""
        return StateChecker(self.digest, self.start(1), self.step, len(self.classes))

    def decided_code(self, decision: Decision | None) -> int:
        """Encode a decision for a stored state: -1 for none, the class, or -2 - class if it was forced."""
        if decision is None:
            return UNDECIDED
        label = int(np.flatnonzero(self.classes == decision.label)[0])
        return -2 - label if decision.forced else label

    def decoded(self, code: int, time: int, scores: np.ndarray) -> Decision | None:
        """Return the decision that `decided_code` encoded."""
        if code == UNDECIDED:
            return None
        return self.decision(code if code >= 0 else -2 - code, time, code < 0, scores)


def _is_finite(array: np.ndarray) -> bool:
    """Return whether all numbers are finite: a finite sum, in double precision, implies finite terms."""
    return math.isfinite(np.add.reduce(array, axis=None, dtype=np.float64))  # faster than `array.sum`
