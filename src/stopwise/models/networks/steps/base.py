"""Base class of the streaming steps of networks, and layers that several steps share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from stopwise.models.networks.kernels.recurrence import B2BLOG, TANH
from stopwise.models.networks.modules.base import Integrator
from stopwise.models.networks.modules.lstm import WindowLSTM
from stopwise.models.step import Array, Step


class NetworkStep(Step):
    """Base class of the streaming steps of networks.

    Parameters
    ----------
    net
        The network. Its weights are copied.
    xp
        Array library: numpy or torch.
    """

    def __init__(self, net: Integrator, xp: Any = np) -> None:
        super().__init__(net.classes, net.channels, xp)

    def floats(self, values: np.ndarray | torch.Tensor) -> Array:
        """Return weights as a contiguous float32 array."""
        if isinstance(values, torch.Tensor):
            values = values.detach().cpu().numpy()
        return self.array(np.ascontiguousarray(values, dtype=np.float32))

    def linear(self, layer: nn.Linear) -> tuple[Array, Array]:
        """Return the transposed weight and the bias of a layer."""
        return self.floats(layer.weight.t()), self.floats(layer.bias)


class Cell:
    """LSTM cell that accepts any leading axes."""

    def __init__(self, lstm: WindowLSTM, step: NetworkStep) -> None:
        self.xp, self.hidden = step.xp, lstm.recurrent.shape[1]
        self.input, self.bias = step.floats(lstm.input.t()), step.floats(lstm.bias)  # (D, 4H), (4H,)
        self.recurrent = step.floats(lstm.recurrent.t())  # (H, 4H)
        self.kind, self.alpha = lstm.squash

    def project(self, x: Array) -> Array:
        """Return the contribution (S, 4H) of samples x (S, D) to the gates."""
        return x @ self.input + self.bias

    def __call__(self, projected: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """Return the new hidden state h and cell state c, both (..., H)."""
        gates = projected + h @ self.recurrent
        size = self.hidden
        opened = 1 / (1 + self.xp.exp(-gates[..., : 3 * size]))  # input, forget, output
        c = opened[..., size : 2 * size] * c + opened[..., :size] * self._squash(gates[..., 3 * size :])
        return opened[..., 2 * size :] * self._squash(c), c

    def _squash(self, x: Array) -> Array:
        if self.kind == TANH:
            return self.xp.tanh(x)
        if self.kind == B2BLOG:
            return self.xp.sign(x) * self.xp.log1p(abs(x))
        return x / (self.xp.sqrt(self.alpha + abs(x)) + self.alpha**0.5)


class Norm:
    """Layer normalization."""

    def __init__(self, layer: nn.LayerNorm, step: NetworkStep) -> None:
        self.xp, self.eps = step.xp, layer.eps
        self.weight, self.bias = step.floats(layer.weight), step.floats(layer.bias)

    def __call__(self, x: Array) -> Array:
        """Normalize x (..., H) to mean 0 and standard deviation 1, then scale and shift it."""
        centered = x - x.mean(-1, keepdims=True)
        variance = (centered * centered).mean(-1, keepdims=True)
        return centered / self.xp.sqrt(variance + self.eps) * self.weight + self.bias


def norm_of(layer: nn.Module, step: NetworkStep) -> Any:
    """Return the function for an optional normalization layer: `Norm`, or the identity."""
    return Norm(layer, step) if isinstance(layer, nn.LayerNorm) else _same


def _same(x: Array) -> Array:
    return x
