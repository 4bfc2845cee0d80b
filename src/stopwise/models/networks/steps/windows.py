"""Streaming steps of the networks that compute logits of windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.models.networks.modules.lstm import LSTMModule
from stopwise.models.networks.modules.transformer import Block, TandemformerModule
from stopwise.models.networks.steps.base import Cell, NetworkStep, norm_of
from stopwise.models.step import Array, State


class WindowStep(NetworkStep):
    """Base class of streaming steps that combine logits of windows into scores by a formula."""

    def __init__(self, net: LSTMModule | TandemformerModule, xp: Any = np) -> None:
        super().__init__(net, xp)
        self.order, self.tandem = net.order, net.formula == "tandem"

    def _scores(self, state: State, full: Array, short: Array | None) -> Array:
        """Return the scores (S, K).

        Parameters
        ----------
        state
            State before the new sample.
        full
            (S, K) logits of the window that ends with the new sample.
        short
            (S, K) logits of the same window without the new sample; None if not needed.
        """
        if not self.tandem:
            return full + 0.0 * state["scores"]  # convert to float64
        growth = state["scores"] + (full if short is None else full - short)
        first = state["time"] <= self.order  # the stream has at most N+1 samples, all in the first window
        return self.xp.where(first[:, None], full + 0.0 * state["scores"], growth)


class LSTMStep(WindowStep):
    """Streaming step that stores the LSTM states of the N+1 open windows, oldest first, and advances them."""

    def __init__(self, net: LSTMModule, xp: Any = np) -> None:
        super().__init__(net, xp)
        self.cell = Cell(net.lstm, self)
        self.norm = norm_of(net.head[0], self)
        self.weight, self.bias = self.linear(net.readout)

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the states of the windows."""
        shape = (self.order + 1, self.cell.hidden)
        return {"h": shape, "c": shape}

    def __call__(self, state: State, x: Array) -> State:
        """Return the state after a sample x (S, D) of each stream."""
        xp, time = self.xp, state["time"]
        fresh = xp.zeros_like(state["h"][:, :1])
        h, c = (xp.concatenate([state[name][:, 1:], fresh], 1) for name in ("h", "c"))
        short = self._logits(h[:, 0]) if self.order and self.tandem else None
        h, c = self.cell(self.cell.project(x)[:, None], h, c)
        # Until the first window is full, use its state, since it holds all samples.
        place = (self.order - time).clip(0, self.order)
        full = self._logits(h[xp.arange(h.shape[0]), place])
        return {"time": time + 1, "scores": self._scores(state, full, short), "h": h, "c": c}

    def _logits(self, h: Array) -> Array:
        return self.norm(h) @ self.weight + self.bias


class TandemformerStep(WindowStep):
    """Streaming step that stores the last N+1 samples and encodes two windows per sample."""

    def __init__(self, net: TandemformerModule, xp: Any = np) -> None:
        super().__init__(net, xp)
        self.pooling, self.size = net.pooling, net.size
        self.embed = None if net.embed is None else self.linear(net.embed)
        self.places = None if net.places is None else self.floats(net.places)
        self.token = None if net.token is None else self.floats(net.token)
        self.blocks = [_BlockStep(block, self) for block in net.blocks]  # type: ignore[arg-type]
        self.read, self.head = self.linear(net.read), self.linear(net.readout)

    def kept(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of the stored samples, as tokens."""
        return {"samples": (self.order + 1, self.size)}

    def __call__(self, state: State, x: Array) -> State:
        """Return the state after a sample x (S, D) of each stream."""
        xp, time, samples = self.xp, state["time"], state["samples"]
        x = (x if self.embed is None else x @ self.embed[0] + self.embed[1])[:, None]
        moved = xp.concatenate([samples[:, 1:], x], 1)
        here = xp.arange(self.order + 1)[None, :, None] == time[:, None, None]
        samples = xp.where((time > self.order)[:, None, None], moved, xp.where(here, x, samples))
        full = self._logits(samples, (time + 1).clip(0, self.order + 1))
        short = None
        if self.order and self.tandem:
            short = self._logits(samples, xp.zeros_like(time) + self.order)
        return {"time": time + 1, "scores": self._scores(state, full, short), "samples": samples}

    def _logits(self, samples: Array, lengths: Array) -> Array:
        """Return the logits (S, K) of the first `lengths` (S,) samples of windows (S, N+1, D)."""
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
    """Transformer block with masked tokens."""

    def __init__(self, block: Block, step: NetworkStep) -> None:
        self.xp, self.heads = step.xp, block.heads
        self.norm1, self.norm2 = norm_of(block.norm1, step), norm_of(block.norm2, step)
        self.maps = [step.linear(layer) for layer in (block.qkv, block.out, block.expand, block.contract)]

    def __call__(self, tokens: Array, there: Array) -> Array:
        """Apply the block to tokens (S, L, D); the mask `there` (S, L) selects the tokens to attend to."""
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
