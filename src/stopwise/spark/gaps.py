"""Integer times on a regular grid: its step, and series with missing steps as NaN."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

MOST_FILLED = 3  # rows after filling gaps, as a multiple of the rows


@dataclass
class Gaps:
    """What the times of many series have in common; parts from several processes can be merged.

    Parameters
    ----------
    divisor
        Greatest common divisor of the distances of neighboring times.
    span
        Sum over series of the last time minus the first one.
    series, rows
        Number of series and of their samples.

    Examples
    --------
    >>> gaps = Gaps()
    >>> gaps.add(np.array([0, 2, 4, 8]))
    >>> gaps.add(np.array([3, 7]))
    >>> gaps.step()
    2
    """

    divisor: int = 0
    span: int = 0
    series: int = 0
    rows: int = 0

    def add(self, times: np.ndarray) -> None:
        """Add the sorted times (T,) of a series, which are integers."""
        whole = times.astype(np.int64)
        self.divisor = math.gcd(self.divisor, *np.diff(whole).tolist())
        self.span += int(whole[-1] - whole[0])
        self.series, self.rows = self.series + 1, self.rows + len(times)

    def merge(self, other: Gaps) -> None:
        """Add the series of another part."""
        self.divisor = math.gcd(self.divisor, other.divisor)
        self.span, self.series, self.rows = (
            self.span + other.span,
            self.series + other.series,
            self.rows + other.rows,
        )

    def step(self, stacklevel: int = 2) -> int | None:
        """Return the step of the grid; None if gaps are not filled, with a warning if times are irregular."""
        if self.divisor == 0:
            return None  # series of one sample
        filled = self.span // self.divisor + self.series
        if filled <= MOST_FILLED * self.rows:
            return self.divisor
        warnings.warn(
            f"`time`: the times are irregular ({self.rows} samples on a grid of {filled} steps), so gaps "
            "are not filled: samples are used in order. Round the times to a coarser step to fill the gaps.",
            UserWarning,
            stacklevel=stacklevel,
        )
        return None


def is_whole(times: np.ndarray) -> bool:
    """Return whether times are integers, possibly stored as floating-point numbers.

    Examples
    --------
    >>> is_whole(np.array([1.0, 2.0])), is_whole(np.array([1.5, 2.0]))
    (True, False)
    """
    return times.dtype.kind in "iu" or (times.dtype.kind == "f" and bool((times == np.round(times)).all()))


def on_grid(values: np.ndarray, times: np.ndarray, step: int | None) -> np.ndarray:
    """Return the samples (T, d) of a series on a grid with this step, missing steps as NaN.

    Parameters
    ----------
    values
        (rows, d) the samples.
    times
        (rows,) their times, sorted.
    step
        Distance of neighboring steps. None: gaps are not filled.

    Examples
    --------
    >>> on_grid(np.array([[1.0], [3.0]]), np.array([5, 7]), step=1).ravel().tolist()
    [1.0, nan, 3.0]
    """
    if step is None:
        return values
    places = (times.astype(np.int64) - int(times[0])) // step
    x = np.full((int(places[-1]) + 1, values.shape[1]), np.nan)
    x[places] = values
    return x
