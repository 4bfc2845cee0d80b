"""Streaming for a model without a step of its own: keep the samples and score them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stopwise.models.step import Array, State, Step

if TYPE_CHECKING:
    from stopwise.models.base import Model

FIRST_SAMPLES = 16  # samples kept at first; the space doubles as streams grow


class RescoringStep(Step):
    """Keeps every sample of a stream and scores them all at each step.

    A stream of t samples costs as much as scoring a series of t samples, at every step, and its state grows
    with t. numpy only: such a model cannot be exported.

    Parameters
    ----------
    model
        A fitted model.
    classes, channels
        K and C.
    """

    def __init__(self, model: Model, classes: int, channels: int) -> None:
        super().__init__(classes, channels)
        self._model = model

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of the samples at the start."""
        return {"samples": (FIRST_SAMPLES, self.channels)}

    def accepts(self, name: str, shape: tuple[int, ...]) -> bool:
        """Whether a stored state may have this shape: any number of samples."""
        if name != "samples":
            return super().accepts(name, shape)
        return len(shape) == 2 and shape[0] >= FIRST_SAMPLES and shape[1] == self.channels

    def __call__(self, state: State, x: Array) -> State:
        """Return the state after a sample x (S, C) of each stream."""
        time, samples = state["time"], state["samples"]
        streams, space, channels = samples.shape
        if time.max() >= space:
            more = np.zeros((streams, space, channels), np.float32)
            samples = np.concatenate([samples, more], axis=1)
        else:
            samples = samples.copy()
        samples[np.arange(streams), time] = x
        scores = np.empty((streams, self.classes))
        for length in np.unique(time) + 1:  # streams of one length are scored together
            rows = np.flatnonzero(time + 1 == length)
            scores[rows] = self._model.scores(samples[rows, :length])[:, -1]
        return {"time": time + 1, "scores": scores, "samples": samples}
