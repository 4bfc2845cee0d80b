"""Random convolution kernels: groups of eight that share a dilation and a set of channels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from stopwise.models.prefix.pooling import channel_sums, kernel_outputs

TAPS = 9
GROUP = 8  # kernels of a group
POOLS = 4  # running averages of a kernel
PATTERNS = np.array(list(combinations(range(TAPS), 3)), dtype=np.int32)  # (84, 3) taps with weight 2
MOST_CHANNELS = 9  # channels that a group sums


@dataclass(frozen=True)
class KernelBlock:
    """A block of convolution kernels.

    A kernel has nine taps: weight 2 at three of them and −1 at the other six, so it ignores the level. A
    group of kernels reads the sum of a few channels, with a common distance between the taps (dilation).

    Parameters
    ----------
    dilations
        (Q,) distance between the taps of each group.
    members
        (Q, M) channels that each group sums, increasing; −1 after the last one.
    taps
        (Q, 8, 3) positions with weight 2 of each kernel; position 8 is the newest sample.
    biases
        (Q, 8) float32 thresholds of the outputs.
    differences
        True: the kernels read the differences of successive samples.
    """

    dilations: np.ndarray
    members: np.ndarray
    taps: np.ndarray
    biases: np.ndarray
    differences: bool

    @property
    def groups(self) -> int:
        """Q, the number of groups."""
        return len(self.dilations)

    def part(self, groups: slice) -> KernelBlock:
        """Return the block of some of the groups."""
        return KernelBlock(
            self.dilations[groups],
            self.members[groups],
            self.taps[groups],
            self.biases[groups],
            self.differences,
        )

    @property
    def reach(self) -> int:
        """Number of last samples that the kernels read."""
        return (TAPS - 1) * int(self.dilations.max()) + 1 + self.differences

    def channel_sums(self, x: np.ndarray) -> np.ndarray:
        """Return the series (B, Q, T) that the groups read, of series x (B, T, C)."""
        out = np.empty((len(x), self.groups, x.shape[1]), np.float32)
        sizes = (self.members >= 0).sum(axis=1)
        channel_sums(changes(x) if self.differences else x, self.members, sizes, out)
        return out


def changes(x: np.ndarray) -> np.ndarray:
    """Return the differences (B, T, C) of successive samples of x (B, T, C); 0 at the first step."""
    out = np.zeros_like(x)
    np.subtract(x[:, 1:], x[:, :-1], out=out[:, 1:])
    return out


def draw_kernels(
    x: np.ndarray, lengths: np.ndarray, groups: int, differences: bool, rng: np.random.Generator
) -> KernelBlock:
    """Draw random kernels, with thresholds from their outputs on training series.

    Parameters
    ----------
    x
        (B, T, C) training series, or a sample of them.
    lengths
        (B,) lengths of the series.
    groups
        Q, the number of groups.
    differences
        Whether the kernels read differences of successive samples.
    rng
        Random generator.
    """
    _, steps, channels = x.shape
    longest = np.log2(max((steps - 1) / (TAPS - 1), 1.0))
    dilations = np.floor(2 ** rng.uniform(0, longest, groups)).astype(np.int32)
    most = min(channels, MOST_CHANNELS)
    members = np.full((groups, most), -1, np.int32)
    for row in members:
        count = int(2 ** rng.uniform(0, np.log2(most + 1)))
        row[:count] = np.sort(rng.choice(channels, count, replace=False))
    taps = np.stack([PATTERNS[rng.choice(len(PATTERNS), GROUP, replace=False)] for _ in range(groups)])
    empty = np.zeros((groups, GROUP), np.float32)
    block = KernelBlock(dilations, members, taps, empty, differences)
    return KernelBlock(dilations, members, taps, _draw_biases(x, lengths, block, rng), differences)


def _draw_biases(
    x: np.ndarray, lengths: np.ndarray, block: KernelBlock, rng: np.random.Generator
) -> np.ndarray:
    """Return a random quantile (Q, 8) of each kernel's outputs on a random prefix of a random series."""
    biases = np.empty((block.groups, GROUP), np.float32)
    for group in range(block.groups):
        row = int(rng.integers(len(x)))
        shortest = min(TAPS, int(lengths[row]))
        steps = int(np.exp(rng.uniform(np.log(shortest), np.log(lengths[row] + 1))))
        part = block.part(slice(group, group + 1))
        sums = part.channel_sums(x[row : row + 1, : max(shortest, min(steps, int(lengths[row])))])
        outputs = kernel_outputs(sums[0, 0], int(part.dilations[0]), part.taps[0])  # (8, t)
        for kernel, level in enumerate(rng.uniform(0.02, 0.98, GROUP)):
            biases[group, kernel] = np.quantile(outputs[kernel], level)
    return biases
