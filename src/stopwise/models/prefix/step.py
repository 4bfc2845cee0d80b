"""Streaming step of the prefix model: the features and scores of a stream, one sample at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.models.prefix.features import Features
from stopwise.models.prefix.heads import Heads, rbf_kernel
from stopwise.models.prefix.kernels import GROUP, POOLS, TAPS, KernelBlock
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
        self.scale = None if (features.scale == 1).all() else self.array(features.scale)
        used = {name: features.blocks[name] for name in heads.pooled}
        self.reach = max([features.statistics.recent, 2, *(block.reach for block in used.values())])
        self.blocks = {name: _BlockStep(block, self.reach, self) for name, block in used.items()}
        self.statistics = _StatisticsStep(features.statistics, list(heads.rbf), self)
        self.heads = _HeadsStep(heads, self)

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the float32 arrays of the state."""
        return {"recent": (self.reach, self.channels)} | {
            name: (block.groups, POOLS, GROUP) for name, block in self.blocks.items()
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
        x = x if self.scale is None else x * self.scale
        time = state["time"] + 1
        first = (time == 1)[:, None, None]
        # Before the start of a stream, its first sample is used.
        recent = xp.concatenate([state["recent"][:, 1:], x[:, None]], 1)
        recent = xp.where(first, xp.broadcast_to(x[:, None], recent.shape), recent)
        kept = {"recent": recent} | {name: block(state[name], recent) for name, block in self.blocks.items()}
        sums, statistics = self.statistics(state, recent, time)
        pooled = {name: kept[name].reshape(time.shape[0], -1) for name in self.blocks}
        scores = self.heads(state["scores"], time, pooled, statistics)
        return {"time": time, "scores": scores} | kept | sums


class _BlockStep:
    """Streaming form of the pools of a block of kernels."""

    def __init__(self, block: KernelBlock, reach: int, step: PrefixStep) -> None:
        self.xp, self.groups = step.xp, block.groups
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
        # (S, Q, 9); channels are added one after the other, as for whole series
        values = read[:, self.places, self.members[0][0][:, None]]
        for channel, there in self.members[1:]:
            values = values + read[:, self.places, channel[:, None]] * there[:, None]
        values = values - values[..., :1]  # exactly 0 where they are constant; see `pooling`
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
    """Streaming form of the heads: the scores change only at the steps of the heads."""

    def __init__(self, heads: Heads, step: PrefixStep) -> None:
        self.heads, self.xp = heads, step.xp
        last = int(heads.steps[-1])
        own = np.searchsorted(heads.steps, np.arange(last + 2))  # (last + 2,), by step
        self.there = np.isin(np.arange(last + 2), heads.steps)
        self.place = np.minimum(own, len(heads.steps) - 1)
        if step.xp is not np:
            self.there, self.place = step.array(self.there), step.array(self.place)
            self.shares, self.constant = step.array(heads.shares), step.array(heads.constant)
            self.coefficients = step.array(heads.coefficients).double()
            self.pooled = {name: step.array(weights) for name, weights in heads.pooled.items()}
            self.rbf = {
                kind: {name: step.array(value).double() for name, value in vars(one).items()}
                for kind, one in heads.rbf.items()
            }

    def __call__(
        self, scores: Array, time: Array, pooled: dict[str, Array], statistics: dict[str, Array]
    ) -> Array:
        """Return the next scores (S, K), given the previous ones and the sums of the pools."""
        row = time.clip(0, self.there.shape[0] - 1)
        if self.xp is not np:
            return self._gathered(scores, row, time, pooled, statistics)
        found = scores.copy()
        for step in np.unique(row[self.there[row]]):  # streams at the same step use the same head
            on, g = np.flatnonzero(row == step), self.place[step]
            means = {name: sums[on] / np.float32(step) for name, sums in pooled.items()}
            named = {kind: values[on].astype(np.float64) for kind, values in statistics.items()}
            new = self.heads.scores(g, means, named)
            share = self.heads.shares[g]
            found[on] = new if share == 1 else share * new + (1 - share) * scores[on]
        return found

    def _gathered(
        self, scores: Array, row: Array, time: Array, pooled: dict[str, Array], statistics: dict[str, Array]
    ) -> Array:
        """Return the next scores (S, K) with one operation for all streams, as the export needs."""
        g, share = self.place[row], self.shares[self.place[row]][:, None]  # (S,), (S, 1)
        found = self.constant[g]
        for name, weights in self.pooled.items():
            means = pooled[name] / _single(time)[:, None]
            found = found + (means[:, None] @ weights[g])[:, 0]
        for kind, rbf in self.rbf.items():
            one = {
                name: value[g] if name == "landmarks" else value[g][:, None] for name, value in rbf.items()
            }
            kernel = rbf_kernel(self.xp, _double(statistics[kind])[:, None], **one)  # (S, 1, m)
            found = found + (kernel @ self.coefficients[g])[:, 0]
        return self.xp.where(self.there[row][:, None], share * found + (1 - share) * scores, scores)


def _double(values: Array) -> Array:
    return values.astype(np.float64) if isinstance(values, np.ndarray) else values.double()


def _single(values: Array) -> Array:
    return values.astype(np.float32) if isinstance(values, np.ndarray) else values.float()
