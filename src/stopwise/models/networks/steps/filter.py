"""Streaming form of the filter over hidden states."""

from __future__ import annotations

from stopwise.models.networks.modules.filter import FLOOR, HiddenStateFilter
from stopwise.models.networks.steps.base import NetworkStep
from stopwise.models.step import Array, State


class FilterStep:
    """Streaming form of `HiddenStateFilter`: stores the belief of each class.

    Parameters
    ----------
    module
        The filter. Its weights are copied.
    step
        Streaming step that the filter is a part of.
    """

    def __init__(self, module: HiddenStateFilter, step: NetworkStep) -> None:
        self.xp = step.xp
        own, shared = module.emission.weight.split(
            [step.channels, module.emission.in_features - step.channels], 1
        )
        self.sample, self.features = step.floats(own.t()), step.floats(shared.t())  # (C, M), (H, M)
        self.bias = step.floats(module.emission.bias)
        self.transition, self.start = (step.floats(part) for part in module.factors())

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of the beliefs, per stream."""
        return {"belief": tuple(self.start.shape)}

    def __call__(self, state: State, features: Array, x: Array) -> tuple[Array, State]:
        """Return the increments (S, K) of samples x (S, C) with features (S, H), and the new beliefs."""
        logs = x @ self.sample + features @ self.features + self.bias  # (S, M)
        densities = self.xp.exp(logs - self.xp.amax(logs, -1)[:, None])
        moved = self.xp.matmul(state["belief"].swapaxes(0, 1), self.transition).swapaxes(0, 1)  # (S, K, M)
        # Before the first sample the belief is stored as zeros.
        first = (state["time"] == 0)[:, None, None] * self.start
        joint = (moved + first + FLOOR) * densities[:, None]
        total = joint.sum(-1)  # (S, K)
        increments = self.xp.log(total)
        return increments - increments.mean(-1)[:, None], {"belief": joint / total[..., None]}
