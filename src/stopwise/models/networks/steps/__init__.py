"""One sample at a time: what each network keeps of a stream, and what a further sample makes of it.

A step takes the state of any number of streams and one sample of each, and returns their scores and their
next state; nothing is kept on the network. The same lines run on numpy, which has the least overhead for a
single sample, and on torch, which exports them. The samples are standardised by weights, not by a further
operation. Scores are added up in float64, so that a million increments lose nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.models.networks.modules.accumulator import Accumulator
from stopwise.models.networks.modules.base import Integrator
from stopwise.models.networks.modules.lstm import LSTMIntegrator
from stopwise.models.networks.modules.transformer import Tandemformer
from stopwise.models.networks.steps.accumulator import AccumulatorStep
from stopwise.models.networks.steps.base import State, Step
from stopwise.models.networks.steps.windows import LSTMStep, TandemformerStep

__all__ = ["STEPS", "State", "Step", "make_step"]

STEPS = {Accumulator: AccumulatorStep, LSTMIntegrator: LSTMStep, Tandemformer: TandemformerStep}


def make_step(net: Integrator, xp: Any = np) -> Step:
    """Return the step of a network, on numpy or torch.

    Examples
    --------
    >>> from stopwise.models.networks.modules import build
    >>> net = build("b2bsqrt", features=3, classes=2, order=1, longest=False)
    >>> step = make_step(net)
    >>> state = step(step.start(5), np.zeros((5, 3), np.float32))
    >>> state["scores"].shape, state["time"].tolist()
    ((5, 2), [1, 1, 1, 1, 1])
    """
    if type(net) not in STEPS:
        raise TypeError(
            f"{type(net).__name__} does not stream: only stopwise's own networks say what a further sample "
            "makes of a stream. Score whole series with scores() instead."
        )
    return STEPS[type(net)](net, xp)
