"""One sample at a time: the state of streams goes in and comes out, nothing is kept on the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch

Array = Any  # numpy.ndarray or torch.Tensor
State = dict[str, Array]  # each (S, ...), S streams


class Step(ABC):
    """A model's step on S streams.

    The same lines run on numpy, which has the least overhead for a single sample, and on torch, which
    exports them. Scores are added up in double precision, so that a million increments lose nothing.

    Parameters
    ----------
    classes
        K.
    channels
        C, the numbers the model sees of a sample.
    xp
        The array library: numpy or torch.
    """

    def __init__(self, classes: int, channels: int, xp: Any = np) -> None:
        self.classes, self.channels, self.xp = classes, channels, xp

    def start(self, streams: int) -> State:
        """Return the state of streams that have seen nothing."""
        time = np.zeros(streams, dtype=np.int64)
        return {"time": self.array(time), "scores": self.array(np.zeros((streams, self.classes)))} | {
            name: self.array(np.zeros((streams, *shape), dtype=np.float32))
            for name, shape in self.kept().items()
        }

    @abstractmethod
    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of what is kept of a stream, in float32, beside its time and scores."""

    @abstractmethod
    def __call__(self, state: State, x: Array) -> State:
        """Return the state after a sample x (S, C) of each stream; its scores are the newest."""

    def accepts(self, name: str, shape: tuple[int, ...]) -> bool:
        """Whether a stored state may have this shape under this name."""
        return shape == ({"time": (), "scores": (self.classes,)} | self.kept())[name]

    def bytes(self) -> int:
        """Return the size of one stream's state."""
        return 8 + 8 * self.classes + 4 * sum(int(np.prod(shape)) for shape in self.kept().values())

    def array(self, values: np.ndarray) -> Array:
        """Return values as an array of the step's library."""
        return values if self.xp is np else torch.from_numpy(values)
