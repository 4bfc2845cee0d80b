"""What every step is, and the parts that several share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import nn

from stopwise.models.networks.modules.lstm import WindowLSTM

Array = Any  # numpy.ndarray or torch.Tensor
State = dict[str, Array]  # each (S, ...), S streams


class Step(ABC):
    """A network's step on S streams.

    Parameters
    ----------
    net
        The network, whose weights are copied.
    xp
        The array library: numpy or torch.
    """

    def __init__(self, net: Any, xp: Any = np) -> None:
        self.xp = xp
        self.classes = net.classes
        self.features = net.features
        # (x − mean)/deviation inside the weights: W(sx + m) = (W·s)x + Wm.
        self._scale, self._shift = (t.detach().double().cpu().numpy() for t in (net.scale, net.shift))

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
        """Return the state after a sample x (S, D) of each stream; its scores are the newest."""

    def bytes(self) -> int:
        """Return the size of one stream's state."""
        return 8 + 8 * self.classes + 4 * sum(int(np.prod(shape)) for shape in self.kept().values())

    def array(self, values: np.ndarray) -> Array:
        """Return values as an array of the step's library."""
        return values if self.xp is np else torch.from_numpy(values)

    def floats(self, values: np.ndarray | torch.Tensor) -> Array:
        """Return weights as float32 in memory order."""
        if isinstance(values, torch.Tensor):
            values = values.detach().cpu().numpy()
        return self.array(np.ascontiguousarray(values, dtype=np.float32))

    def of_samples(self, weight: torch.Tensor, bias: torch.Tensor | None) -> tuple[Array, Array]:
        """Return the transposed weight (D, M) and bias (M,) of a map (M, D) of standardised samples."""
        w = weight.detach().double().cpu().numpy()
        b = 0.0 if bias is None else bias.detach().double().cpu().numpy()
        return self.floats((w * self._scale).T), self.floats(w @ self._shift + b)

    def linear(self, layer: nn.Linear) -> tuple[Array, Array]:
        """Return the transposed weight and the bias of a layer."""
        return self.floats(layer.weight.t()), self.floats(layer.bias)


class Cell:
    """An LSTM cell on any leading axes."""

    def __init__(self, lstm: WindowLSTM, step: Step) -> None:
        self.xp, self.hidden = step.xp, lstm.recurrent.shape[1]
        self.input, self.bias = step.of_samples(lstm.input, lstm.bias)  # (D, 4H), (4H,)
        self.recurrent = step.floats(lstm.recurrent.t())  # (H, 4H)
        self.alpha = None if lstm.squash.bounded else lstm.squash.alpha

    def project(self, x: Array) -> Array:
        """Return what samples x (S, D) add to the gates, (S, 4H)."""
        return x @ self.input + self.bias

    def __call__(self, projected: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """Return h and c (..., H) after a step."""
        gates = projected + h @ self.recurrent
        size = self.hidden
        opened = 1 / (1 + self.xp.exp(-gates[..., : 3 * size]))  # input, forget, output
        c = opened[..., size : 2 * size] * c + opened[..., :size] * self._squash(gates[..., 3 * size :])
        return opened[..., 2 * size :] * self._squash(c), c

    def _squash(self, x: Array) -> Array:
        if self.alpha is None:
            return self.xp.tanh(x)
        return x / (self.xp.sqrt(self.alpha + abs(x)) + self.alpha**0.5)


class Norm:
    """Layer normalisation."""

    def __init__(self, layer: nn.LayerNorm, step: Step) -> None:
        self.xp, self.eps = step.xp, layer.eps
        self.weight, self.bias = step.floats(layer.weight), step.floats(layer.bias)

    def __call__(self, x: Array) -> Array:
        """Return x (..., H) with mean 0 and deviation 1, scaled and shifted."""
        centred = x - x.mean(-1, keepdims=True)
        spread = (centred * centred).mean(-1, keepdims=True)
        return centred / self.xp.sqrt(spread + self.eps) * self.weight + self.bias


def norm_of(layer: nn.Module, step: Step) -> Any:
    """Return what a layer does to features: normalise them, or nothing."""
    return Norm(layer, step) if isinstance(layer, nn.LayerNorm) else _same


def _same(x: Array) -> Array:
    return x
