"""Streaming step of a weighted sum of models."""

from __future__ import annotations

import numpy as np

from stopwise.models.step import Array, State, Step


class StackStep(Step):
    """Streaming step that advances several models and adds up their scores with weights.

    Parameters
    ----------
    steps
        The steps of the models.
    weights
        Their weights.
    """

    def __init__(self, steps: list[Step], weights: list[float]) -> None:
        super().__init__(steps[0].classes, steps[0].channels, steps[0].xp)
        self.steps, self.weights = steps, weights
        self.names = [[name for name in step.start(1) if name != "time"] for step in steps]

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return no arrays of its own; see `start`."""
        return {}

    def start(self, streams: int) -> State:
        """Return the initial state: the states of the models, with the number of the model in the names."""
        state = super().start(streams)
        for i, step in enumerate(self.steps):
            own = step.start(streams)
            state |= {f"{i}/{name}": own[name] for name in self.names[i]}
        return state

    def accepts(self, name: str, shape: tuple[int, ...]) -> bool:
        """Whether the array of this name in a stored state may have this shape, per stream."""
        number, found, rest = name.partition("/")
        return self.steps[int(number)].accepts(rest, shape) if found else super().accepts(name, shape)

    def bytes(self) -> int:
        """Return the size of the state of one stream in bytes."""
        return 8 + 8 * self.classes + sum(step.bytes() - 8 for step in self.steps)

    def __call__(self, state: State, x: Array) -> State:
        """Return the state after one more sample x (S, C) of each stream."""
        after: State = {"time": state["time"] + 1}
        scores = 0.0
        for i, (step, weight) in enumerate(zip(self.steps, self.weights)):
            own = {name: state[f"{i}/{name}"] for name in self.names[i]}
            new = step(own | {"time": state["time"]}, x)
            after |= {f"{i}/{name}": value for name, value in new.items() if name != "time"}
            scores = scores + weight * new["scores"]
        return after | {"scores": np.asarray(scores) if self.xp is np else scores}
