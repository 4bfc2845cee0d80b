"""Prefixes of series as rows of a convex problem: accumulated features at some steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from stopwise.models.networks.training.lags import Series
from stopwise.validation import inside

NODES = 12  # number of steps per series at which the scores are compared
# Segments from later in the series, cut into windows of up to N+1 samples that are scored from their start.
# Like the multiplets of the training objective, these windows are undecided examples even where the whole
# series is decided after a few samples. All orders see the same samples, so none has an advantage.
SEGMENTS = 4
SEGMENT_STEPS = 3
ROWS = NODES + SEGMENTS * (2 * SEGMENT_STEPS - 1)  # number of rows per series
CHUNK = 1 << 23  # number of values to compute at once

Features = Callable[[Tensor], Tensor]  # series (n, T, q) → features (n, T, f)


def nodes(steps: int) -> np.ndarray:
    """Return the numbers of samples after which the scores of series of `steps` steps are compared.

    They are dense at the start, where series are undecided.

    Examples
    --------
    >>> nodes(50).tolist()
    [1, 2, 3, 4, 5, 7, 10, 14, 19, 26, 36, 50]
    >>> nodes(3).tolist()
    [1, 2, 3]
    """
    chosen = [1]
    while len(chosen) < min(NODES, steps):
        last, left = chosen[-1], NODES - len(chosen)
        chosen.append(min(steps, max(last + 1, round(last * (steps / last) ** (1 / left)))))
    return np.array(chosen)


class Prefixes:
    """Prefixes of series. Each is a row of accumulated features.

    Parameters
    ----------
    series
        The series.
    segments
        Whether to add prefixes of short segments; half of the weight is then theirs.
    """

    def __init__(self, series: Series, *, segments: bool) -> None:
        self.series, self.nodes = series, nodes(series.steps)
        self.shares = _shares(self.nodes, series.lengths)  # (n, G)
        y = np.repeat(series.y, len(self.nodes))
        self.cut: Tensor | None = None
        if segments and series.steps > 1:
            self.cut, self._there = _segments(series)
            # Later samples of a segment, alone; a window of two samples never starts in the middle.
            self.single = self.cut[:, 1:].reshape(-1, 1, self.cut.shape[2])
            steps = self.cut.shape[1]
            y = np.concatenate([y, *(np.repeat(series.y, SEGMENTS * count) for count in (steps, steps - 1))])
        self.y = torch.from_numpy(y)

    def weight(self, order: int | None) -> Tensor:
        """Return the weights (R,) of the rows for a model of some order; their sum is 1.

        Every sample of a segment belongs to one window. Its row is the window up to this sample. Without a
        finite order (None), the only window is the whole series, and segments do not count.
        """
        whole = (self.series.weight[:, None] * self.shares).ravel()
        if self.cut is None:
            return torch.from_numpy(whole).float()
        steps = self.cut.shape[1]
        if order is None:
            return torch.from_numpy(np.pad(whole, (0, len(self.y) - len(whole)))).float()
        window = min(order + 1, steps)
        from_start = np.arange(steps) < window
        each = self._there / self._there.sum(1, keepdims=True) / SEGMENTS
        each = np.repeat(self.series.weight, SEGMENTS)[:, None] * each  # (n · SEGMENTS, L)
        cut, single = (each * from_start).ravel(), (each * ~from_start)[:, 1:].ravel()
        return torch.from_numpy(np.concatenate([whole / 2, cut / 2, single / 2])).float()

    def rows(self, features: Features) -> Tensor:
        """Return the accumulated features (R, f) of all prefixes."""
        parts = [_accumulated(self.series.z, features, self.nodes - 1)]
        if self.cut is not None:
            parts.append(_accumulated(self.cut, features, np.arange(self.cut.shape[1])))
            parts.append(_accumulated(self.single, features, np.arange(1)))
        return torch.cat(parts)

    def deviations(self, rows: Tensor) -> Tensor:
        """Return the standard deviation (f,) of features per step from their sums (R, f); 1 where it is 0.

        Sums of features with a mean other than 0 grow with time. This growth does not count.
        """
        count = self.shares.size
        sums = rows[:count].unflatten(0, self.shares.shape)  # (n, G, f)
        variance = sums.var(0, correction=0) / torch.from_numpy(self.nodes)[:, None]
        deviation = variance.mean(0).sqrt().float()
        return torch.where(deviation > 1e-6 * deviation.max(), deviation, torch.ones(()))

    def per_series(self, losses: Tensor) -> np.ndarray:
        """Return the mean loss (n,) over the steps of each series from the losses (R,) of its prefixes."""
        count = self.shares.size
        return (losses[:count].double().numpy().reshape(self.shares.shape) * self.shares).sum(1)


def _shares(nodes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the share (n, G) of the steps of each series for which a node stands: those up to the next."""
    following = np.append(nodes[1:], np.iinfo(np.int64).max)
    covered = np.clip(np.minimum(following, lengths[:, None] + 1) - nodes, 0, None)
    return covered / lengths[:, None]


def _segments(series: Series) -> tuple[Tensor, np.ndarray]:
    """Return segments (n · SEGMENTS, L, q) and a mask (n · SEGMENTS, L) of their steps."""
    steps = min(SEGMENT_STEPS, series.steps)
    share = np.arange(1, SEGMENTS + 1) / SEGMENTS
    starts = (np.maximum(series.lengths - steps, 0)[:, None] * share).astype(np.int64)  # (n, SEGMENTS)
    index = torch.from_numpy(starts[:, :, None] + np.arange(steps)).flatten(1)  # (n, SEGMENTS · L)
    cut = series.z.gather(1, index[..., None].expand(-1, -1, series.z.shape[2]))
    there = inside(np.repeat(np.minimum(series.lengths, steps), SEGMENTS), steps)
    return cut.reshape(len(series) * SEGMENTS, steps, -1), there.astype(np.float64)


def _accumulated(z: Tensor, features: Features, steps: np.ndarray) -> Tensor:
    """Return the sums (n · steps, f) of the features up to some steps of z (n, T, q)."""
    width = features(z[:1]).shape[-1]
    size = max(1, CHUNK // (z.shape[1] * width))
    wanted = torch.from_numpy(steps)
    return torch.cat(
        [features(z[start : start + size]).cumsum(1)[:, wanted] for start in range(0, len(z), size)]
    ).flatten(0, 1)
