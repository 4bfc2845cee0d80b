"""Baselines of the benchmark: straightforward implementations with standard PyTorch and NumPy functions.

Each baseline computes the same scores as the optimized implementation; the tests check this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from stopwise.llr import WindowLogits, tandem
from stopwise.rules import SPRT


@dataclass(frozen=True)
class Shape:
    """Size of a problem: batch B, steps T, channels D, hidden units H, classes K, order N."""

    batch: int
    steps: int
    channels: int
    hidden: int
    classes: int
    order: int

    def series(self) -> tuple[Tensor, Tensor]:
        """Return random series (B, T, D) and labels (B,)."""
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(self.batch, self.steps, self.channels, generator=generator)
        return x, torch.arange(self.batch) % self.classes


G = Shape(100, 50, 128, 64, 2, 49)  # the Gaussian data of the paper
S = Shape(83, 50, 512, 256, 2, 10)  # SiW
U = Shape(31, 50, 2048, 256, 101, 10)  # UCF101
H = Shape(25, 79, 2048, 256, 51, 10)  # HMDB51


class SlicedLSTM(nn.Module):
    """`torch.nn.LSTM` on windows sliced from the series, with the same head and formula."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.order = shape.order
        self.lstm = nn.LSTM(shape.channels, shape.hidden, batch_first=True)
        self.head = nn.Linear(shape.hidden, shape.classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores (B, T, K) of x (B, T, D)."""
        batch, steps, channels = x.shape
        samples = min(self.order + 1, steps)
        if samples == steps:
            return self.head(self.lstm(x)[0])
        windows = x.unfold(1, samples, 1).transpose(2, 3).reshape(-1, samples, channels)  # (B·W, M, D)
        states = self.lstm(windows)[0].view(batch, -1, samples, self.lstm.hidden_size)  # (B, W, M, H)
        short = self.head(states[:, 1:, -2]) if samples > 1 else None
        full = self.head(states[:, 1:, -1])
        logits = WindowLogits(
            self.head(states[:, 0]), full, torch.zeros_like(full) if short is None else short
        )
        return tandem(logits)


class PrefixEncoder(nn.Module):
    """A small transformer with one block, called once per prefix length of every window."""

    def __init__(
        self, shape: Shape, *, heads: int = 2, head_size: int = 16, feed_forward: int = 32, mlp: int = 32
    ) -> None:
        super().__init__()
        self.order, self.heads = shape.order, heads
        self.qkv = nn.Linear(shape.channels, 3 * heads * head_size)
        self.out = nn.Linear(heads * head_size, shape.channels)
        self.expand = nn.Linear(shape.channels, feed_forward)
        self.contract = nn.Linear(feed_forward, shape.channels)
        self.read = nn.Linear(shape.channels, mlp)
        self.head = nn.Linear(mlp, shape.classes)

    def encode(self, tokens: Tensor) -> Tensor:
        """Return the logits (R, K) of prefixes (R, i, D)."""
        rows, length, _ = tokens.shape
        q, k, v = self.qkv(tokens).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        tokens = tokens + self.out(mixed)
        tokens = tokens + self.contract(torch.relu(self.expand(tokens)))
        return self.head(torch.relu(self.read(tokens.sum(1) / (self.order + 1))))

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores (B, T, K) of x (B, T, D)."""
        batch, steps, channels = x.shape
        samples = min(self.order + 1, steps)
        windows = x.unfold(1, samples, 1).transpose(2, 3)  # (B, W, M, D)
        rows = windows.reshape(-1, samples, channels)
        every = torch.stack([self.encode(rows[:, :i]) for i in range(1, samples + 1)], dim=1)
        every = every.view(batch, -1, samples, every.shape[-1])  # (B, W, M, K)
        full = every[:, 1:, -1]
        short = every[:, 1:, -2] if samples > 1 else torch.zeros_like(full)
        return tandem(WindowLogits(every[:, 0], full, short))


def threshold_sweep(scores: np.ndarray, y: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return mean time and macro error for each threshold, (thresholds, 2), by one `decide` call each."""
    classes = np.unique(y)
    points = []
    for a in thresholds:
        d = SPRT(float(a)).decide(scores)
        wrong = d.labels != y
        points.append((d.times.mean(), np.mean([wrong[y == k].mean() for k in classes])))
    return np.array(points)
