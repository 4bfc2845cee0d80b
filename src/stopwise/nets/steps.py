"""One sample at a time: what each network keeps of a stream, and what a further sample makes of it.

A step takes the state of any number of streams and one sample of each, and returns their scores and their
next state; nothing is kept on the network. The same lines run on numpy, which has the least overhead for a
single sample, and on torch, which exports them. The samples are standardised by weights, not by a further
operation. Scores are added up in float64, so that a million increments lose nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import nn

from stopwise.nets.accumulator import Accumulator, LSTMBody, WindowBody
from stopwise.nets.base import Integrator
from stopwise.nets.lstm import LSTMIntegrator, WindowLSTM
from stopwise.nets.transformer import Block, Tandemformer

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
        return {"time": self._array(time), "scores": self._array(np.zeros((streams, self.classes)))} | {
            name: self._array(np.zeros((streams, *shape), dtype=np.float32))
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

    def _array(self, values: np.ndarray) -> Array:
        return values if self.xp is np else torch.from_numpy(values)

    def _float(self, values: np.ndarray | torch.Tensor) -> Array:
        """Return weights as float32 in memory order."""
        if isinstance(values, torch.Tensor):
            values = values.detach().cpu().numpy()
        return self._array(np.ascontiguousarray(values, dtype=np.float32))

    def _of_samples(self, weight: torch.Tensor, bias: torch.Tensor | None) -> tuple[Array, Array]:
        """Return the transposed weight (D, M) and bias (M,) of a map (M, D) of standardised samples."""
        w = weight.detach().double().cpu().numpy()
        b = 0.0 if bias is None else bias.detach().double().cpu().numpy()
        return self._float((w * self._scale).T), self._float(w @ self._shift + b)

    def _linear(self, layer: nn.Linear) -> tuple[Array, Array]:
        return self._float(layer.weight.t()), self._float(layer.bias)


class AccumulatorStep(Step):
    """Adds one increment a sample."""

    def __init__(self, net: Accumulator, xp: Any = np) -> None:
        super().__init__(net, xp)
        self.body = _body(net.body, self)
        self.norm = _norm(net.norm, self)
        hidden = net.head.in_features - net.skipped
        self.weight = self._float(net.head.weight[:, :hidden].t())  # (H, K)
        self.skip: Array = None
        self.bias = self._float(net.head.bias)
        if net.skip:
            self.skip, self.bias = self._of_samples(net.head.weight[:, hidden:], net.head.bias)

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of what the body keeps."""
        return self.body.kept()

    def __call__(self, state: State, x: Array) -> State:
        """Return the state after a sample x (S, D) of each stream."""
        features, kept = self.body(state, x)
        increment = self.norm(features) @ self.weight + self.bias
        if self.skip is not None:
            increment = increment + x @ self.skip
        return {"time": state["time"] + 1, "scores": state["scores"] + increment} | kept


class _WindowBodyStep:
    """Keeps, for each of the next steps of the window, what the samples so far add to its maps."""

    def __init__(self, body: WindowBody, step: Step) -> None:
        self.xp, self.products, self.window = step.xp, body.products, body.window
        self.maps = body.lags.shape[1]
        lags, shifts = step._of_samples(body.lags.flatten(0, 1), None)
        self.lags = lags  # (D, M·maps)
        # After j+1 samples the window's shifts of the samples that are there count, and its own bias.
        cumulated = np.cumsum(np.asarray(shifts).reshape(self.window, self.maps), axis=0)
        self.bias = step._float(cumulated + body.bias.detach().cpu().numpy())  # (M, maps)

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


class _LSTMBodyStep:
    """Keeps the state of one LSTM."""

    def __init__(self, body: LSTMBody, step: Step) -> None:
        self.cell = _Cell(body.lstm, step)

    def kept(self) -> dict[str, tuple[int, ...]]:
        return {"h": (self.cell.hidden,), "c": (self.cell.hidden,)}

    def __call__(self, state: State, x: Array) -> tuple[Array, State]:
        h, c = self.cell(self.cell.project(x), state["h"], state["c"])
        return h, {"h": h, "c": c}


class _Cell:
    """An LSTM cell on any leading axes."""

    def __init__(self, lstm: WindowLSTM, step: Step) -> None:
        self.xp, self.hidden = step.xp, lstm.recurrent.shape[1]
        self.input, self.bias = step._of_samples(lstm.input, lstm.bias)  # (D, 4H), (4H,)
        self.recurrent = step._float(lstm.recurrent.t())  # (H, 4H)
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


class WindowStep(Step):
    """A step of a network that gives logits of windows: the formula makes scores of them."""

    def __init__(self, net: LSTMIntegrator | Tandemformer, xp: Any = np) -> None:
        super().__init__(net, xp)
        self.order, self.tandem = net.order, net.formula == "tandem"

    def _scores(self, state: State, full: Array, short: Array | None) -> Array:
        """Return the scores (S, K) from logits of the window that ends now, with and without its end."""
        if not self.tandem:
            return full + 0.0 * state["scores"]  # in float64
        growth = state["scores"] + (full if short is None else full - short)
        first = state["time"] <= self.order  # the first window is still filling
        return self.xp.where(first[:, None], full + 0.0 * state["scores"], growth)


class LSTMStep(WindowStep):
    """Keeps the states of the N+1 windows that are open, the oldest first, and advances them together."""

    def __init__(self, net: LSTMIntegrator, xp: Any = np) -> None:
        super().__init__(net, xp)
        self.cell = _Cell(net.lstm, self)
        self.norm = _norm(net.head[0], self)
        self.weight, self.bias = self._linear(net.readout)

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the windows' states."""
        shape = (self.order + 1, self.cell.hidden)
        return {"h": shape, "c": shape}

    def __call__(self, state: State, x: Array) -> State:
        """Return the state after a sample x (S, D) of each stream."""
        xp, time = self.xp, state["time"]
        fresh = xp.zeros_like(state["h"][:, :1])
        h, c = (xp.concatenate([state[name][:, 1:], fresh], 1) for name in ("h", "c"))
        short = self._logits(h[:, 0]) if self.order and self.tandem else None
        h, c = self.cell(self.cell.project(x)[:, None], h, c)
        # Until it is full, the first window is the one that holds all samples.
        place = (self.order - time).clip(0, self.order)
        full = self._logits(h[xp.arange(h.shape[0]), place])
        return {"time": time + 1, "scores": self._scores(state, full, short), "h": h, "c": c}

    def _logits(self, h: Array) -> Array:
        return self.norm(h) @ self.weight + self.bias


class TandemformerStep(WindowStep):
    """Keeps the last N+1 samples and encodes two windows a sample."""

    def __init__(self, net: Tandemformer, xp: Any = np) -> None:
        super().__init__(net, xp)
        self.pooling = net.pooling
        self.scale, self.shift = self._float(self._scale), self._float(self._shift)
        self.places = None if net.places is None else self._float(net.places)
        self.token = None if net.token is None else self._float(net.token)
        self.blocks = [_BlockStep(block, self) for block in net.blocks]  # type: ignore[arg-type]
        self.read, self.head = self._linear(net.read), self._linear(net.readout)

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of the samples."""
        return {"samples": (self.order + 1, self.features)}

    def __call__(self, state: State, x: Array) -> State:
        """Return the state after a sample x (S, D) of each stream."""
        xp, time, samples = self.xp, state["time"], state["samples"]
        x = (x * self.scale + self.shift)[:, None]
        moved = xp.concatenate([samples[:, 1:], x], 1)
        here = xp.arange(self.order + 1)[None, :, None] == time[:, None, None]
        samples = xp.where((time > self.order)[:, None, None], moved, xp.where(here, x, samples))
        full = self._logits(samples, (time + 1).clip(0, self.order + 1))
        short = None
        if self.order and self.tandem:
            short = self._logits(samples, xp.zeros_like(time) + self.order)
        return {"time": time + 1, "scores": self._scores(state, full, short), "samples": samples}

    def _logits(self, samples: Array, lengths: Array) -> Array:
        """Return the logits (S, K) of the first samples of windows (S, N+1, D), `lengths` (S,) of them."""
        xp = self.xp
        tokens = samples if self.places is None else samples + self.places
        there = xp.arange(self.order + 1)[None, :] < lengths[:, None]  # (S, N+1)
        if self.token is not None:
            first = xp.zeros_like(tokens[:, :1]) + self.token
            tokens = xp.concatenate([first, tokens], 1)
            there = xp.concatenate([there[:, :1] | True, there], 1)
        for block in self.blocks:
            tokens = block(tokens, there)
        if self.token is not None:
            pooled = tokens[:, 0]
        else:
            count = self.order + 1 if self.pooling == "nsp" else lengths[:, None]
            pooled = (tokens * there[..., None]).sum(1) / count
        weight, bias = self.read
        units = (pooled.astype(np.float32) if xp is np else pooled.float()) @ weight + bias
        weight, bias = self.head
        return units.clip(0) @ weight + bias


class _BlockStep:
    """A transformer block on tokens of which some are not there."""

    def __init__(self, block: Block, step: Step) -> None:
        self.xp, self.heads = step.xp, block.heads
        self.norm1, self.norm2 = _norm(block.norm1, step), _norm(block.norm2, step)
        self.maps = [step._linear(layer) for layer in (block.qkv, block.out, block.expand, block.contract)]

    def __call__(self, tokens: Array, there: Array) -> Array:
        """Mix tokens (S, L, D), of which those `there` (S, L) count."""
        (qkv_w, qkv_b), (out_w, out_b), (up_w, up_b), (down_w, down_b) = self.maps
        streams, length, _ = tokens.shape
        qkv = self.norm1(tokens) @ qkv_w + qkv_b
        size = qkv.shape[-1] // (3 * self.heads)
        split = qkv.reshape(streams, length, 3, self.heads, size)
        q, k, v = (split[:, :, i].swapaxes(1, 2) for i in range(3))  # (S, h, L, d)
        weights = q @ k.swapaxes(2, 3) * size**-0.5
        weights = self.xp.where(there[:, None, None], weights, -1e30)
        weights = self.xp.exp(weights - self.xp.amax(weights, -1, keepdims=True))
        mixed = weights @ v / weights.sum(-1, keepdims=True)
        tokens = tokens + mixed.swapaxes(1, 2).reshape(streams, length, -1) @ out_w + out_b
        return tokens + (self.norm2(tokens) @ up_w + up_b).clip(0) @ down_w + down_b


class _Norm:
    """Layer normalisation."""

    def __init__(self, layer: nn.LayerNorm, step: Step) -> None:
        self.xp, self.eps = step.xp, layer.eps
        self.weight, self.bias = step._float(layer.weight), step._float(layer.bias)

    def __call__(self, x: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        spread = (centred * centred).mean(-1, keepdims=True)
        return centred / self.xp.sqrt(spread + self.eps) * self.weight + self.bias


def _norm(layer: nn.Module, step: Step) -> Any:
    return _Norm(layer, step) if isinstance(layer, nn.LayerNorm) else _same


def _same(x: Array) -> Array:
    return x


def _body(body: nn.Module, step: Step) -> _WindowBodyStep | _LSTMBodyStep:
    return _WindowBodyStep(body, step) if isinstance(body, WindowBody) else _LSTMBodyStep(body, step)  # type: ignore[arg-type]


STEPS = {Accumulator: AccumulatorStep, LSTMIntegrator: LSTMStep, Tandemformer: TandemformerStep}


def make_step(net: Integrator, xp: Any = np) -> Step:
    """Return the step of a network, on numpy or torch.

    Examples
    --------
    >>> from stopwise.nets import build
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
