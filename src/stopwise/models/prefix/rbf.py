"""Gaussian (RBF) kernels on standardized statistics, at one step of the series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CLIP = 8.0  # standard deviations
SMALLEST_DEVIATION = 1e-3
MEDIAN_ROWS = 500  # series for the median distance


@dataclass(frozen=True)
class Rbf:
    """Average of a wide and a narrow Gaussian kernel on standardized statistics.

    Parameters
    ----------
    center, scale
        (F,) float32 mean and deviation of each statistic.
    width
        The wide kernel is exp(−d² / (2·width)); the narrow one has a quarter of the width.
    weights
        Weights of the wide and the narrow kernel.
    """

    center: np.ndarray
    scale: np.ndarray
    width: float
    weights: tuple[float, float]

    @classmethod
    def learn(cls, statistics: np.ndarray, parts: int | None = None, widening: float = 1.0) -> Rbf:
        """Learn the kernel from the statistics (n, F) of the training series.

        With `parts`, the statistics consist of this number of parts of equal size, and those of one part are
        divided by the same number. If None, each is divided by its own standard deviation.

        The width is the median squared distance between series, times `widening`. The two kernels are
        weighted such that the centered Gram matrix of each has the same mean diagonal, and that of their sum
        has mean diagonal 1.
        """
        center = statistics.mean(axis=0, dtype=np.float64)
        deviation = statistics.std(axis=0, dtype=np.float64)
        if parts is not None:
            together = np.sqrt((deviation.reshape(parts, -1) ** 2).mean(axis=1))
            deviation = np.repeat(together, len(deviation) // parts)
        scale = deviation + SMALLEST_DEVIATION
        plain = cls(center.astype(np.float32), scale.astype(np.float32), 1.0, (0.5, 0.5))
        z = plain.standardized(statistics[:: -(-len(statistics) // MEDIAN_ROWS)])
        distances = squared_distances(z, z)
        others = distances[~np.eye(len(z), dtype=bool)]
        width = float(np.median(others)) if len(others) else 1.0
        width = widening * width if width > 1e-6 else 1.0  # most series are equal: any width will do
        wide = np.exp(distances / (-2 * width))
        spread = [max(1 - float(kernel.mean()), 1e-6) for kernel in (wide, wide**4)]
        return cls(plain.center, plain.scale, width, (0.5 / spread[0], 0.5 / spread[1]))

    def standardized(self, statistics: np.ndarray) -> np.ndarray:
        """Return statistics (n, F), centered, scaled and clipped."""
        return np.clip((statistics - self.center) / self.scale, -CLIP, CLIP)

    def gram(self, z: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
        """Return the kernel (n, m) between standardized statistics z (n, F) and landmarks (m, F)."""
        wide = squared_distances(z, landmarks)
        wide *= np.float32(-0.5 / self.width)
        np.exp(wide, out=wide)
        square = wide * wide
        narrow = np.multiply(square, square, out=square)
        narrow *= np.float32(self.weights[1])
        wide *= np.float32(self.weights[0])
        wide += narrow
        return wide


def squared_distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the squared distances (n, m) between rows of two arrays (n, F) and (m, F).

    Examples
    --------
    >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])).tolist()
    [[25.0]]
    """
    found = one @ other.T
    found *= -2
    found += (one * one).sum(axis=1)[:, None]
    found += (other * other).sum(axis=1)
    return np.maximum(found, 0, out=found)
