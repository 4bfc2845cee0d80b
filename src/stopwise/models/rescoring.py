"""Default streaming step: store all samples of a stream and score them again after each new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stopwise.models.step import Array, State, Step

if TYPE_CHECKING:
    from stopwise.models.base import Model

FIRST_SAMPLES = 16  # initial capacity in samples; it doubles whenever a stream exceeds it


class RescoringStep(Step):
    """Streaming step that stores every sample of a stream and scores all of them at each step.

    The step after t samples costs as much as scoring a series of t samples. The size of the state grows with
    t. This step supports only numpy, so a model that relies on it cannot be exported.

    Parameters
    ----------
    model
        Fitted model.
    classes
        K, the number of classes.
    channels
        C, the number of input values per sample.
    """

    def __init__(self, model: Model, classes: int, channels: int) -> None:
        super().__init__(classes, channels)
        self._model = model

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the initial shape of the stored samples."""
        return {"samples": (FIRST_SAMPLES, self.channels)}

    def accepts(self, name: str, shape: tuple[int, ...]) -> bool:
        """Whether an array of a stored state may have this shape; the number of samples may be larger."""
        if name != "samples":
            return super().accepts(name, shape)
        return len(shape) == 2 and shape[0] >= FIRST_SAMPLES and shape[1] == self.channels

    def impossible(self, state: State) -> str | None:
        """Return why the samples do not fit the time and the scores, or None."""
        time, samples = state["time"], state["samples"]
        if (time > samples.shape[1]).any():
            return f"time is {time.max()}, but only {samples.shape[1]} samples are stored"
        after = np.arange(samples.shape[1]) >= time[:, None]  # (S, space)
        if samples[after].any():
            return "there are samples after the last one"
        started = np.flatnonzero(time)
        if not np.allclose(
            self._scores(samples[started], time[started]), state["scores"][started], 1e-3, 1e-3
        ):
            return "the scores are not those of the stored samples"
        return None

    def __call__(self, state: State, x: Array) -> State:
        """Return the state after one more sample x (S, C) of each stream."""
        time, samples = state["time"], state["samples"]
        streams, space, channels = samples.shape
        if time.max() >= space:
            more = np.zeros((streams, space, channels), np.float32)
            samples = np.concatenate([samples, more], axis=1)
        else:
            samples = samples.copy()
        samples[np.arange(streams), time] = x
        return {"time": time + 1, "scores": self._scores(samples, time + 1), "samples": samples}

    def _scores(self, samples: Array, time: Array) -> Array:
        """Return the scores (S, K) after `time` (S,) samples."""
        scores = np.empty((len(samples), self.classes))
        for length in np.unique(time):  # streams of equal length are scored in one batch
            rows = np.flatnonzero(time == length)
            scores[rows] = self._model.last_scores(samples[rows, :length])
        return scores
