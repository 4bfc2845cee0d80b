"""What every step is, and the parts that several share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from stopwise.models.networks.modules.base import Integrator
from stopwise.models.networks.modules.lstm import WindowLSTM
from stopwise.models.step import Array, Step


class NetworkStep(Step):
    """A network's step on S streams.

    Parameters
    ----------
    net
        The network, whose weights are copied.
    xp
        The array library: numpy or torch.
    """

    def __init__(self, net: Integrator, xp: Any = np) -> None:
        super().__init__(net.classes, net.channels, xp)

    def floats(self, values: np.ndarray | torch.Tensor) -> Array:
        """Return weights as float32 in memory order."""
        if isinstance(values, torch.Tensor):
            values = values.detach().cpu().numpy()
        return self.array(np.ascontiguousarray(values, dtype=np.float32))

    def linear(self, layer: nn.Linear) -> tuple[Array, Array]:
        """Return the transposed weight and the bias of a layer."""
        return self.floats(layer.weight.t()), self.floats(layer.bias)


class Cell:
    """An LSTM cell on any leading axes."""

    def __init__(self, lstm: WindowLSTM, step: NetworkStep) -> None:
        self.xp, self.hidden = step.xp, lstm.recurrent.shape[1]
        self.input, self.bias = step.floats(lstm.input.t()), step.floats(lstm.bias)  # (D, 4H), (4H,)
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
    """Layer normalization."""

    def __init__(self, layer: nn.LayerNorm, step: NetworkStep) -> None:
        self.xp, self.eps = step.xp, layer.eps
        self.weight, self.bias = step.floats(layer.weight), step.floats(layer.bias)

    def __call__(self, x: Array) -> Array:
        """Return x (..., H) with mean 0 and deviation 1, scaled and shifted."""
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        return centred / self.xp.sqrt(variance + self.eps) * self.weight + self.bias


def norm_of(layer: nn.Module, step: NetworkStep) -> Any:
    """Return what a layer does to features: normalize them, or nothing."""
    return Norm(layer, step) if isinstance(layer, nn.LayerNorm) else _same


def _same(x: Array) -> Array:
    return x
