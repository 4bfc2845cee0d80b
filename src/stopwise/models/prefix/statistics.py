"""Running statistics of the samples so far: levels, moments and the last samples of a series."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

MOST_PRODUCTS = 12  # channels, or random projections of them, whose products are averaged
# Channels, or random projections of them, whose levels are kept: all if the levels of all series at all heads
# are not more numbers than this.
FEWEST_LEVELS, MOST_NUMBERS = 64, 1 << 24
LEVEL_KINDS = 5  # last, mean, standard deviation, minimum, maximum
RECENT = 16  # last samples
RECENT_NUMBERS = 64  # their numbers, all channels together
LEVELS, MOMENTS, LAST = "levels", "moments", "last"


@dataclass(frozen=True)
class Statistics:
    """Running statistics of the samples so far.

    Three kinds: *levels* (last, mean, standard deviation, minimum and maximum of each channel), *moments*
    (means of products of channels at the same and at successive steps) and *last* (the last few samples).

    Parameters
    ----------
    levels, products
        (C, P) map the channels to those whose levels, or whose products, are averaged: the identity, or a
        random projection if there are many channels.
    recent
        L, the number of last samples; 0: there are too many channels.

    Examples
    --------
    >>> statistics = Statistics.draw(2, np.random.default_rng(0))
    >>> {name: value.shape for name, value in statistics.of(np.zeros((5, 7, 2), np.float32), [3, 7]).items()}
    {'levels': (2, 5, 10), 'moments': (2, 5, 7), 'last': (2, 5, 32)}
    """

    levels: np.ndarray
    products: np.ndarray
    recent: int

    @classmethod
    def draw(cls, channels: int, rng: np.random.Generator, rows: int = 1) -> Statistics:
        """Choose statistics for series with this number of channels, of which `rows` are held in memory."""
        levels = max(FEWEST_LEVELS, MOST_NUMBERS // rows)
        maps = [_mixing(channels, most, rng) for most in (levels, MOST_PRODUCTS)]
        return cls(maps[0], maps[1], min(RECENT, RECENT_NUMBERS // channels))

    @property
    def kinds(self) -> list[str]:
        """Names of the kinds of statistics."""
        return [LEVELS, MOMENTS] + [LAST] * (self.recent > 0)

    def parts(self, kind: str) -> int:
        """Return the number of parts of a kind of statistics whose numbers have the same unit."""
        return LEVEL_KINDS if kind == LEVELS else 1

    def of(
        self, x: np.ndarray, times: np.ndarray | list[int], lengths: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """Return the statistics (G, B, ·) of series x (B, T, C) after the first `times` (G,) samples.

        After the end of a series, given by `lengths` (B,), its statistics stay as they are.
        """
        ends = np.full(len(x), x.shape[1]) if lengths is None else lengths
        steps = np.minimum(np.asarray(times), ends[:, None])  # (B, G)
        found = {LEVELS: self._levels(x, steps), MOMENTS: self._moments(x, np.asarray(times), steps)}
        if self.recent:
            found[LAST] = self._last(x, steps)
        return found

    def _levels(self, x: np.ndarray, steps: np.ndarray) -> np.ndarray:
        at, share = (steps - 1)[:, :, None], 1 / steps[:, :, None]  # (B, G, 1)
        x = x @ self.levels  # (B, T, P)
        wide = x.astype(np.float64)
        mean = np.take_along_axis(wide.cumsum(1), at, 1) * share  # (B, G, P)
        square = np.take_along_axis((wide * wide).cumsum(1), at, 1) * share
        deviation = np.sqrt(np.maximum(square - mean * mean, 0))
        running = (x, np.minimum.accumulate(x, 1), np.maximum.accumulate(x, 1))
        last, lowest, highest = (np.take_along_axis(values, at, 1) for values in running)
        parts = [last, mean, deviation, lowest, highest]
        return np.concatenate(parts, axis=2).astype(np.float32).transpose(1, 0, 2)

    def _moments(self, x: np.ndarray, times: np.ndarray, steps: np.ndarray) -> np.ndarray:
        z = (x @ self.products).astype(np.float64)  # (B, T, P)
        z[np.arange(x.shape[1]) >= steps[:, -1:]] = 0  # products after the end do not count
        before = np.concatenate([z[:, :1], z[:, :-1]], axis=1)
        rows, columns = np.triu_indices(z.shape[2])
        same = _running(z, z, times)[..., rows, columns]  # (B, G, P(P+1)/2)
        lagged = _running(z, before, times).reshape(len(x), len(times), -1)
        sums = np.concatenate([same, lagged], axis=2)
        return (sums * (1 / steps[:, :, None])).astype(np.float32).transpose(1, 0, 2)

    def _last(self, x: np.ndarray, steps: np.ndarray) -> np.ndarray:
        places = np.maximum(steps[:, :, None] - 1 - np.arange(self.recent), 0)  # (B, G, L), newest first
        taken = x[np.arange(len(x))[:, None, None], places]  # (B, G, L, C)
        return taken.reshape(len(x), steps.shape[1], -1).transpose(1, 0, 2)


def _running(one: np.ndarray, other: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the sums (B, G, P, P) of products of two series (B, T, P) over the first `times` (G,) steps."""
    edges = np.concatenate([[0], times])
    parts = [one[:, first:last].transpose(0, 2, 1) @ other[:, first:last] for first, last in pairwise(edges)]
    return np.stack(parts, axis=1).cumsum(1)


def _mixing(channels: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return the identity (C, C), or a random projection (C, most) if there are more channels than that."""
    if channels <= most:
        return np.eye(channels, dtype=np.float32)
    return (rng.standard_normal((channels, most)) / np.sqrt(channels)).astype(np.float32)
