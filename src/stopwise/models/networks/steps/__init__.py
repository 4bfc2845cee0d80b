"""Streaming steps of the built-in networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.models.networks.modules import AccumulatorModule, Integrator, LSTMModule, TandemformerModule
from stopwise.models.networks.steps.accumulator import AccumulatorStep
from stopwise.models.networks.steps.base import NetworkStep
from stopwise.models.networks.steps.windows import LSTMStep, TandemformerStep

__all__ = ["STEPS", "make_step"]

STEPS: dict[type[Integrator], type[NetworkStep]] = {
    AccumulatorModule: AccumulatorStep,
    LSTMModule: LSTMStep,
    TandemformerModule: TandemformerStep,
}


def make_step(net: Integrator, xp: Any = np) -> NetworkStep | None:
    """Return the streaming step of a network, or None if the network has none.

    Parameters
    ----------
    net
        The network. Subclasses of the built-in networks have no step.
    xp
        Array library: numpy or torch.

    Examples
    --------
    >>> step = make_step(LSTMModule(channels=3, classes=2, order=1))
    >>> state = step(step.start(5), np.zeros((5, 3), np.float32))
    >>> state["scores"].shape, state["time"].tolist()
    ((5, 2), [1, 1, 1, 1, 1])
    """
    # Compare the exact type, because a subclass may compute something else.
    return STEPS[type(net)](net, xp) if type(net) in STEPS else None
