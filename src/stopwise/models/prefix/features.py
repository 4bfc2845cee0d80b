"""All features of the prefix model: convolution pools and running statistics, of the samples so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stopwise.models.prefix.kernels import GROUP, POOLS, KernelBlock, draw_kernels
from stopwise.models.prefix.parallel import in_threads, row_slices
from stopwise.models.prefix.pooling import pool_series
from stopwise.models.prefix.series import Series
from stopwise.models.prefix.statistics import Statistics

KERNELS, DIFFERENCES = BLOCKS = ("kernels", "differences")
SCALE_ROWS = 128  # series from which the size of the pools is estimated
LEAST_ROWS = 16  # series per thread
DRAW_ROWS = 2000  # series from which thresholds of kernels are drawn


@dataclass(frozen=True)
class Features:
    """The features of a prefix model.

    Parameters
    ----------
    scale
        (C,) factor by which each channel is multiplied first.
    blocks
        Convolution kernels on the samples ("kernels") and on their differences ("differences").
    statistics
        Running statistics.
    """

    scale: np.ndarray
    blocks: dict[str, KernelBlock]
    statistics: Statistics

    @classmethod
    def draw(
        cls, series: Series, scale: np.ndarray, kernels: int, heads: int, rng: np.random.Generator
    ) -> Features:
        """Draw random features for series whose channels have been multiplied by `scale` (C,)."""
        drawn = series.subset(series.sample(DRAW_ROWS, rng))
        groups = max(1, kernels // GROUP)
        blocks = {
            name: draw_kernels(drawn.x, drawn.lengths, groups, name == DIFFERENCES, rng) for name in BLOCKS
        }
        return cls(scale, blocks, Statistics.draw(len(scale), rng, rows=heads * len(series)))

    def scaled(self, x: np.ndarray) -> np.ndarray:
        """Return x (..., C), each channel multiplied by its factor."""
        return x if (self.scale == 1).all() else x * self.scale

    @property
    def pooled(self) -> int:
        """Number of pools of one block."""
        return self.blocks[KERNELS].groups * POOLS * GROUP

    @property
    def kinds(self) -> list[str]:
        """Names of the kinds of features."""
        return [*BLOCKS, *self.statistics.kinds]


def pools(
    block: KernelBlock, x: np.ndarray, times: np.ndarray, lengths: np.ndarray | None = None
) -> np.ndarray:
    """Return the running pools (G, B, Q·4·8) of series x (B, T, C) after the first `times` (G,) samples.

    After the end of a series, given by `lengths` (B,), its pools stay as they are.
    """
    ends = np.full(len(x), times[-1]) if lengths is None else lengths
    out = np.empty((len(times), len(x), block.groups, POOLS, GROUP), np.float32)

    def fill(rows: slice) -> None:
        u = block.channel_sums(x[rows, : int(times[-1])])
        pool_series(u, block.dilations, block.taps, block.biases, times, ends[rows], out[:, rows])

    in_threads(fill, row_slices(len(x), LEAST_ROWS))
    return out.reshape(len(times), len(x), -1)
