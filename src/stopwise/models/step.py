"""Base class of streaming steps, which update the state of streams by one sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch

Array = Any  # numpy.ndarray or torch.Tensor
State = dict[str, Array]  # each (S, ...), S streams


class Step(ABC):
    """Base class of streaming steps, which advance S streams by one sample.

    Calling a step with a state and a sample per stream returns the new state. The step itself stores no
    stream data and does not modify the given state.

    The same code runs on numpy, which has the least overhead for a single sample, and on torch, which is
    used for export. Scores are summed in double precision, so that precision is not lost over a million
    increments.

    Parameters
    ----------
    classes
        K, the number of classes.
    channels
        C, the number of input values per sample, as the model receives them.
    xp
        Array library: numpy or torch.

    Examples
    --------
    A step that adds the sample itself to the scores and stores nothing else:

    >>> import numpy as np
    >>> from stopwise.models import Step
    >>> class SumStep(Step):
    ...     def kept(self):
    ...         return {}
    ...     def __call__(self, state, x):
    ...         return {"time": state["time"] + 1, "scores": state["scores"] + x}
    >>> step = SumStep(classes=2, channels=2)
    >>> state = step.start(streams=1)
    >>> for sample in ([1.0, 0.0], [2.0, 0.5]):
    ...     state = step(state, np.array([sample]))
    >>> state["time"].tolist(), state["scores"].tolist()
    ([2], [[3.0, 0.5]])
    """

    def __init__(self, classes: int, channels: int, xp: Any = np) -> None:
        self.classes, self.channels, self.xp = classes, channels, xp

    def start(self, streams: int) -> State:
        """Return the initial state of some streams, before their first sample."""
        time = np.zeros(streams, dtype=np.int64)
        return {"time": self.array(time), "scores": self.array(np.zeros((streams, self.classes)))} | {
            name: self.array(np.zeros((streams, *shape), dtype=np.float32))
            for name, shape in self.kept().items()
        }

    @abstractmethod
    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes, per stream, of the float32 arrays in the state other than time and scores."""

    @abstractmethod
    def __call__(self, state: State, x: Array) -> State:
        """Return the state, including the new scores, after one more sample x (S, C) of each stream."""

    def accepts(self, name: str, shape: tuple[int, ...]) -> bool:
        """Whether the array of this name in a stored state may have this shape, per stream."""
        return shape == ({"time": (), "scores": (self.classes,)} | self.kept())[name]

    def impossible(self, state: State) -> str | None:
        """Return what no sequence of samples can lead to in a state (S, ...), or None if nothing is found.

        Types, shapes, finite values and the range of time have been checked before.
        """
        return None

    def bytes(self) -> int:
        """Return the size of the state of one stream in bytes."""
        return 8 + 8 * self.classes + 4 * sum(int(np.prod(shape)) for shape in self.kept().values())

    def array(self, values: np.ndarray) -> Array:
        """Convert a numpy array to an array of the library of this step."""
        return values if self.xp is np else torch.from_numpy(values)
