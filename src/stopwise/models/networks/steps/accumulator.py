"""Streaming step of the accumulator."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from stopwise.models.networks.modules.accumulator import AccumulatorModule, LSTMBody, WindowBody
from stopwise.models.networks.steps.base import Cell, NetworkStep, norm_of
from stopwise.models.networks.steps.filter import FilterStep
from stopwise.models.step import Array, State


class AccumulatorStep(NetworkStep):
    """Streaming step that adds one increment per sample to the scores."""

    def __init__(self, net: AccumulatorModule, xp: Any = np) -> None:
        super().__init__(net, xp)
        self.body = _body(net.body, self)
        self.norm = norm_of(net.norm, self)
        self.filter = None if net.filter is None else FilterStep(net.filter, self)
        hidden, channels = net.head.in_features - net.n_skip_inputs, net.channels if net.skip else 0
        weights = net.head.weight.split([hidden, channels, net.n_skip_inputs - channels], dim=1)
        # (H, K), (C or 0, K), (K or 0, K)
        self.weight, self.skip, self.filtered = (self.floats(part.t()) for part in weights)
        self.bias = self.floats(net.head.bias)
        self.product = np.dot if xp is np else xp.matmul  # for small matrices faster than `@` of numpy

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the state of the body and the filter."""
        return self.body.kept() | ({} if self.filter is None else self.filter.kept())

    def __call__(self, state: State, x: Array) -> State:
        """Return the state after one more sample x (S, D) of each stream."""
        features, kept = self.body(state, x)
        increment = self.product(self.norm(features), self.weight) + self.bias
        if len(self.skip):
            increment = increment + self.product(x, self.skip)
        if self.filter is not None:
            evidence, belief = self.filter(state, features, x)
            increment, kept = increment + evidence @ self.filtered, kept | belief
        return {"time": state["time"] + 1, "scores": state["scores"] + increment} | kept


class _WindowBodyStep:
    """Streaming form of `WindowBody`: stores the contributions of past samples to the next M−1 steps."""

    def __init__(self, body: WindowBody, step: NetworkStep) -> None:
        self.xp, self.products, self.window = step.xp, body.products, body.window
        self.maps = body.lags.shape[1]
        self.lags = step.floats(body.lags.flatten(0, 1).t())  # (C, M·maps)
        self.bias = step.floats(body.bias)  # (M, maps); bias[j] applies if j+1 samples are available

    def kept(self) -> dict[str, tuple[int, ...]]:
        return {"pending": (self.window - 1, self.maps)} if self.window > 1 else {}

    def __call__(self, state: State, x: Array) -> tuple[Array, State]:
        xp = self.xp
        if self.window == 1:
            return self._units(x @ self.lags + self.bias[0]), {}
        added = (x @ self.lags).reshape(-1, self.window, self.maps)
        pending = state["pending"]  # (S, M−1, maps)
        there = state["time"].clip(0, self.window - 1)
        maps = pending[:, 0] + added[:, 0] + self.bias[there]
        ahead = xp.concatenate([pending[:, 1:], xp.zeros_like(pending[:, :1])], 1) + added[:, 1:]
        return self._units(maps), {"pending": ahead}

    def _units(self, maps: Array) -> Array:
        if not self.products:
            return maps.clip(0)
        rest = self.maps - 2 * self.products
        products = maps[:, rest : rest + self.products] * maps[:, rest + self.products :]
        return self.xp.concatenate([maps[:, :rest].clip(0), products], 1)


class _NumpyWindowBodyStep(_WindowBodyStep):
    """The same with fewer arrays, which in-place operations of numpy allow. The state is not changed."""

    def __call__(self, state: State, x: Array) -> tuple[Array, State]:
        if self.window == 1:
            return super().__call__(state, x)
        added = np.dot(x, self.lags).reshape(len(x), self.window, self.maps)
        added[:, :-1] += state["pending"]
        maps = added[:, 0] + self.bias[np.minimum(state["time"], self.window - 1)]
        return self._units(maps), {"pending": added[:, 1:]}

    def _units(self, maps: Array) -> Array:
        if not self.products:
            return np.maximum(maps, 0, out=maps)
        rest = self.maps - 2 * self.products
        units = np.empty((len(maps), rest + self.products), maps.dtype)
        np.maximum(maps[:, :rest], 0, out=units[:, :rest])
        np.multiply(maps[:, rest : -self.products], maps[:, -self.products :], out=units[:, rest:])
        return units


class _LSTMBodyStep:
    """Streaming form of `LSTMBody`: stores the state of one LSTM."""

    def __init__(self, body: LSTMBody, step: NetworkStep) -> None:
        self.cell = Cell(body.lstm, step)

    def kept(self) -> dict[str, tuple[int, ...]]:
        return {"h": (self.cell.hidden,), "c": (self.cell.hidden,)}

    def __call__(self, state: State, x: Array) -> tuple[Array, State]:
        h, c = self.cell(self.cell.project(x), state["h"], state["c"])
        return h, {"h": h, "c": c}


def _body(body: nn.Module, step: NetworkStep) -> _WindowBodyStep | _LSTMBodyStep:
    if not isinstance(body, WindowBody):
        return _LSTMBodyStep(body, step)  # type: ignore[arg-type]
    return _NumpyWindowBodyStep(body, step) if step.xp is np else _WindowBodyStep(body, step)
