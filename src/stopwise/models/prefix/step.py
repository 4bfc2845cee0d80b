"""Streaming step of the prefix model: the features and scores of a stream, one sample at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.models.prefix.features import Features
from stopwise.models.prefix.heads import Heads, RbfHeads
from stopwise.models.prefix.kernels import GROUP, POOLS, TAPS, KernelBlock
from stopwise.models.prefix.rbf import CLIP
from stopwise.models.prefix.statistics import LAST, LEVELS, MOMENTS, Statistics
from stopwise.models.step import Array, State, Step


class PrefixStep(Step):
    """Streaming step of the prefix model.

    The state has a fixed size: the last samples that the kernels reach, the sums of the pools, and sums and
    extremes for the statistics.

    Parameters
    ----------
    features
        The features.
    heads
        The fitted heads.
    channels
        C, the number of input values per sample.
    xp
        Array library: numpy or torch.
    """

    def __init__(self, features: Features, heads: Heads, channels: int, xp: Any = np) -> None:
        super().__init__(heads.constant.shape[1], channels, xp)
        used = [block for block, weights in zip(features.blocks, heads.pooled) if weights is not None]
        self.reach = max([features.statistics.recent, 2, *(block.reach for block in used)])
        self.blocks = [_BlockStep(block, self.reach, self) for block in used]
        self.statistics = _StatisticsStep(features.statistics, list(heads.rbf), self)
        self.heads = _HeadsStep(heads, self)

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the float32 arrays of the state."""
        return {"recent": (self.reach, self.channels)} | {
            block.name: (block.groups, POOLS, GROUP) for block in self.blocks
        }

    def start(self, streams: int) -> State:
        """Return the initial state of some streams, before their first sample."""
        shapes = self.statistics.kept().items()
        return super().start(streams) | {
            name: self.array(np.zeros((streams, *shape))) for name, shape in shapes
        }

    def accepts(self, name: str, shape: tuple[int, ...]) -> bool:
        """Whether the array of this name in a stored state may have this shape, per stream."""
        own = self.statistics.kept()
        return shape == own[name] if name in own else super().accepts(name, shape)

    def bytes(self) -> int:
        """Return the size of the state of one stream in bytes."""
        return super().bytes() + 8 * sum(int(np.prod(shape)) for shape in self.statistics.kept().values())

    def __call__(self, state: State, x: Array) -> State:
        """Return the state after one more sample x (S, C) of each stream."""
        xp = self.xp
        time = state["time"] + 1
        first = (time == 1)[:, None, None]
        # Before the start of a stream, its first sample is used.
        recent = xp.concatenate([state["recent"][:, 1:], x[:, None]], 1)
        recent = xp.where(first, xp.broadcast_to(x[:, None], recent.shape), recent)
        kept = {"recent": recent} | {block.name: block(state[block.name], recent) for block in self.blocks}
        sums, statistics = self.statistics(state, recent, time)
        pooled = [kept[block.name].reshape(time.shape[0], -1) for block in self.blocks]
        scores = self.heads(time, pooled, statistics)
        return {"time": time, "scores": scores} | kept | sums


class _BlockStep:
    """Streaming form of the pools of a block of kernels."""

    def __init__(self, block: KernelBlock, reach: int, step: PrefixStep) -> None:
        self.xp, self.groups = step.xp, block.groups
        self.name = "differences" if block.differences else "kernels"
        self.differences = block.differences
        back = (TAPS - 1 - np.arange(TAPS)) * block.dilations[:, None]  # (Q, 9), oldest tap first
        newest = reach - 1 - block.differences
        self.places = step.array((newest - back).astype(np.int64))
        self.members = [  # (Q,) the i-th channel of each group, and 1 if the group has it
            (step.array(np.maximum(one, 0).astype(np.int64)), step.array((one >= 0).astype(np.float32)))
            for one in block.members.T
        ]
        flat = block.taps + TAPS * np.arange(block.groups)[:, None, None]  # (Q, 8, 3)
        self.taps = [step.array(flat[..., i].reshape(-1).astype(np.int64)) for i in range(3)]
        self.biases = step.array(block.biases)
        self.order = step.array(np.arange(GROUP))

    def __call__(self, sums: Array, recent: Array) -> Array:
        """Return the sums (S, Q, 4, 8) of the pools after one more step, given the last samples (S, R, C)."""
        xp = self.xp
        read = recent[:, 1:] - recent[:, :-1] if self.differences else recent
        values = None  # (S, Q, 9); channels are added one after the other, as for whole series
        for channel, there in self.members:
            one = read[:, self.places, channel[:, None]]
            values = one if values is None else values + one * there[:, None]
        total = values[..., 0]
        for j in range(1, TAPS):
            total = total + values[..., j]
        flat = values.reshape(values.shape[0], -1)
        three = (flat[:, self.taps[0]] + flat[:, self.taps[1]]) + flat[:, self.taps[2]]
        outputs = 3 * three.reshape(-1, self.groups, GROUP) - total[..., None]
        over = outputs - self.biases
        positive = over > 0
        high = outputs.argmax(-1)[..., None] == self.order
        low = outputs.argmin(-1)[..., None] == self.order
        parts = [positive, xp.where(positive, over, 0 * over), xp.where(high, outputs, 0 * outputs), low]
        return sums + xp.stack([part * xp.ones_like(outputs) for part in parts], 2)


class _StatisticsStep:
    """Streaming form of the running statistics."""

    def __init__(self, statistics: Statistics, kinds: list[str], step: PrefixStep) -> None:
        self.xp, self.kinds, self.recent = step.xp, kinds, statistics.recent
        self.levels, self.products = step.array(statistics.levels), step.array(statistics.products)
        self.sizes = {LEVELS: statistics.levels.shape[1], MOMENTS: statistics.products.shape[1]}
        rows, columns = np.triu_indices(self.sizes[MOMENTS])
        self.rows, self.columns = step.array(rows), step.array(columns)

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the float64 arrays of the state."""
        found: dict[str, tuple[int, ...]] = {}
        if LEVELS in self.kinds:
            found["levels"] = (4, self.sizes[LEVELS])
        if MOMENTS in self.kinds:
            found["moments"] = (2, self.sizes[MOMENTS], self.sizes[MOMENTS])
        return found

    def __call__(self, state: State, recent: Array, time: Array) -> tuple[State, dict[str, Array]]:
        """Return the next sums, and the statistics (S, ·) by kind."""
        sums: State = {}
        found: dict[str, Array] = {}
        if LEVELS in self.kinds:
            sums["levels"], found[LEVELS] = self._levels(state["levels"], recent[:, -1], time)
        if MOMENTS in self.kinds:
            sums["moments"], found[MOMENTS] = self._moments(state["moments"], recent, time)
        if LAST in self.kinds:
            newest = [recent[:, -1 - i] for i in range(self.recent)]
            found[LAST] = self.xp.concatenate(newest, 1)
        return sums, found

    def _levels(self, sums: Array, x: Array, time: Array) -> tuple[Array, Array]:
        xp = self.xp
        x = x @ self.levels
        wide = _double(x)
        first, count = (time == 1)[:, None], _double(time)[:, None]
        lowest = xp.where(first, wide, xp.minimum(sums[:, 2], wide))
        highest = xp.where(first, wide, xp.maximum(sums[:, 3], wide))
        sums = xp.stack([sums[:, 0] + wide, sums[:, 1] + wide * wide, lowest, highest], 1)
        mean = sums[:, 0] / count
        deviation = ((sums[:, 1] / count - mean * mean).clip(0)) ** 0.5
        return sums, _single(xp.concatenate([wide, mean, deviation, lowest, highest], 1))

    def _moments(self, sums: Array, recent: Array, time: Array) -> tuple[Array, Array]:
        xp = self.xp
        now, before = _double(recent[:, -1] @ self.products), _double(recent[:, -2] @ self.products)
        sums = sums + xp.stack([now[:, :, None] * now[:, None], now[:, :, None] * before[:, None]], 1)
        mean = sums / _double(time)[:, None, None, None]
        same, lagged = mean[:, 0][:, self.rows, self.columns], mean[:, 1].reshape(time.shape[0], -1)
        return sums, _single(xp.concatenate([same, lagged], 1))


class _HeadsStep:
    """Streaming form of the heads: streams at different steps use different heads."""

    def __init__(self, heads: Heads, step: PrefixStep) -> None:
        self.xp = step.xp
        count = int((heads.times > 0).sum(axis=1).max())  # heads that have a weight at the same step
        order = np.argsort(heads.times == 0, axis=1, kind="stable")[:, :count]
        self.places = step.array(order)  # (T, count)
        self.weights = step.array(np.take_along_axis(heads.times, order, axis=1).astype(np.float64))
        self.constant = step.array(heads.constant)
        self.pooled = [step.array(weights) for weights in heads.pooled if weights is not None]
        self.coefficients = step.array(heads.coefficients.astype(np.float64))
        self.rbf = {kind: _RbfStep(rbf, step) for kind, rbf in heads.rbf.items()}

    def __call__(self, time: Array, pooled: list[Array], statistics: dict[str, Array]) -> Array:
        """Return the scores (S, K), in double precision."""
        row = (time - 1).clip(0, len(self.weights) - 1)
        pooled = [sums / _single(time)[:, None] for sums in pooled]
        if self.xp is not np:
            return self._gathered(row, pooled, statistics)
        scores = np.zeros((len(time), self.constant.shape[1]))
        for one in np.unique(row):  # streams at the same step use the same heads
            on = np.flatnonzero(row == one)
            named = {kind: values[on] for kind, values in statistics.items()}
            for g, weight in zip(self.places[one], self.weights[one]):
                if weight:
                    scores[on] += weight * self._at(g, [sums[on] for sums in pooled], named)
        return scores

    def _at(self, g: Any, pooled: list[Array], statistics: dict[str, Array]) -> Array:
        scores = self.constant[g]
        for weights, sums in zip(self.pooled, pooled):
            scores = scores + sums @ weights[g]
        for kind, rbf in self.rbf.items():
            scores = scores + rbf(g, statistics[kind]) @ self.coefficients[g]
        return scores

    def _gathered(self, row: Array, pooled: list[Array], statistics: dict[str, Array]) -> Array:
        """Return the scores (S, K) with one operation for all streams, as the export needs."""
        scores = 0.0
        for i in range(self.places.shape[1]):
            g = self.places[row, i]  # (S,)
            pooled_rows = [sums[:, None] for sums in pooled]  # (S, 1, F)
            named = {kind: values[:, None] for kind, values in statistics.items()}
            scores = scores + self.weights[row, i][:, None] * self._at_rows(g, pooled_rows, named)
        return scores

    def _at_rows(self, g: Array, pooled: list[Array], statistics: dict[str, Array]) -> Array:
        scores = self.constant[g]
        for weights, sums in zip(self.pooled, pooled):
            scores = scores + (sums @ weights[g])[:, 0]
        for kind, rbf in self.rbf.items():
            scores = scores + (rbf(g, statistics[kind]) @ self.coefficients[g])[:, 0]
        return scores


class _RbfStep:
    """Streaming form of `RbfHeads.kernel`."""

    def __init__(self, rbf: RbfHeads, step: PrefixStep) -> None:
        self.center, self.scale = step.array(rbf.center[:, None]), step.array(rbf.scale[:, None])
        self.rate, self.wide, self.narrow = (
            step.array(one[:, None, None]) for one in (rbf.rate, rbf.wide, rbf.narrow)
        )
        self.landmarks = step.array(np.ascontiguousarray(rbf.landmarks.transpose(0, 2, 1).astype(np.float64)))  # (G, F, m)
        self.sizes = step.array((rbf.landmarks.astype(np.float64) ** 2).sum(axis=2)[:, None])  # (G, 1, m)

    def __call__(self, g: Any, statistics: Array) -> Array:
        """Return the kernel (·, m) of statistics (·, F) and the landmarks of head g."""
        z = ((_double(statistics) - self.center[g]) / self.scale[g]).clip(-CLIP, CLIP)
        distances = (z * z).sum(-1)[..., None] + self.sizes[g] - 2 * (z @ self.landmarks[g])
        near = (distances.clip(0) * self.rate[g]).exp() if hasattr(distances, "exp") else np.exp(
            distances.clip(0) * self.rate[g]
        )
        fourth = near * near
        fourth = fourth * fourth
        return near * self.wide[g] + fourth * self.narrow[g]


def _double(values: Array) -> Array:
    return values.astype(np.float64) if isinstance(values, np.ndarray) else values.double()


def _single(values: Array) -> Array:
    return values.astype(np.float32) if isinstance(values, np.ndarray) else values.float()
