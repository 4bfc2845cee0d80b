"""Averages of the weights over the training steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """Running average of the weights of a network.

    With decay d, the average is that of all steps until step 1/(1−d), and an exponential average after it.
    With d = 1 it is the average of all steps.

    Parameters
    ----------
    net
        The network. Only parameters that are learned are averaged.
    decay
        Decay per step, in (0, 1].

    Examples
    --------
    >>> net = nn.Linear(1, 1)
    >>> average = WeightAverage(net, decay=1.0)
    >>> for weight in (1.0, 2.0, 6.0):
    ...     _ = nn.init.constant_(net.weight, weight)
    ...     average.update()
    >>> with average.in_use():
    ...     net.weight.item()
    3.0
    >>> net.weight.item()
    6.0
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self._learned = {name: p for name, p in net.named_parameters() if p.requires_grad}
        self._mean = {name: p.detach().clone() for name, p in self._learned.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Include the current weights of the network."""
        self.steps += 1
        weight = max(1 - self.decay, 1 / self.steps)
        torch._foreach_lerp_(list(self._mean.values()), list(self._learned.values()), weight)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Give the network the average weights inside the context."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    def state(self) -> dict[str, Tensor]:
        """Return the average and the number of steps as tensors."""
        return self._mean | {"steps": torch.tensor(self.steps)}

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore the result of `state`."""
        self.steps = int(state["steps"])
        for name, mean in self._mean.items():
            mean.copy_(state[name])

    def swap(self) -> None:
        """Exchange the weights of the network and the average."""
        for name, learned in self._learned.items():
            learned.data, self._mean[name] = self._mean[name], learned.data
