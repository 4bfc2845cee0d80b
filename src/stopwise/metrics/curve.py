"""The speed-accuracy tradeoff (SAT) curve: its points, lookups, and the area under it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stopwise import markup
from stopwise.validation import check_integer

ROWS_SHOWN = 8


class SATPoint(NamedTuple):
    """One point of a speed-accuracy tradeoff curve, or several points as arrays.

    Parameters
    ----------
    mean_time, std_time
        Mean and standard deviation of the hitting time.
    error
        Macro error rate.
    forced
        Fraction of series that end before the threshold is reached.

    Examples
    --------
    >>> from stopwise.metrics import SATPoint
    >>> SATPoint(mean_time=2.5, std_time=1.0, error=0.1, forced=0.0).error
    0.1
    """

    mean_time: Any
    std_time: Any
    error: Any
    forced: Any


@dataclass(frozen=True)
class ClassChanges:
    """Changes in the number of wrong decisions per class along a curve, in sparse form."""

    totals: np.ndarray  # (K,) number of series of each class
    start: np.ndarray  # (K,) number of wrong decisions at the first point
    points: np.ndarray  # (m,) the point from which a change applies
    classes: np.ndarray  # (m,)
    change: np.ndarray  # (m,) +1 or -1


@dataclass(frozen=True, eq=False, repr=False)
class SATCurve:
    """A speed-accuracy tradeoff curve with P points, from the fastest to the slowest.

    Point p is the result of every threshold above `thresholds[p - 1]`, up to and including `thresholds[p]`.
    The last threshold is infinity. Curves are created by `sat_curve`.

    Parameters
    ----------
    thresholds
        (P,) thresholds, ascending.
    mean_time, std_time
        (P,) mean and standard deviation of the hitting time.
    error
        (P,) macro error rate: the mean of the class error rates over the classes that occur.
    forced
        (P,) fraction of series that end before the threshold is reached.
    length
        Length of the longest series.

    Examples
    --------
    >>> from stopwise.metrics import sat_curve
    >>> curve = sat_curve([[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 2.5]]], [0, 1])
    >>> curve
    SATCurve(5 points, mean time 1.00 to 2.00, error 0.500 to 0.000)
    >>> curve.at_threshold(1.5)
    SATPoint(mean_time=1.5, std_time=0.5, error=0.0, forced=0.0)
    >>> curve.at_time([1.2, 1.8])
    array([0.5, 0. ])
    """

    thresholds: np.ndarray
    mean_time: np.ndarray
    std_time: np.ndarray
    error: np.ndarray
    forced: np.ndarray
    length: int
    _changes: ClassChanges

    @cached_property
    def class_error(self) -> np.ndarray:
        """(P, K) error rate of each class, NaN for classes that do not occur. Computed on first use."""
        changes = self._changes
        wrong = np.zeros((len(self), len(changes.totals)))
        wrong[0] = changes.start
        np.add.at(wrong, (changes.points, changes.classes), changes.change)
        np.cumsum(wrong, axis=0, out=wrong)
        wrong[:, changes.totals == 0] = np.nan
        wrong /= np.maximum(changes.totals, 1)
        return wrong

    def at_threshold(self, threshold: Any) -> SATPoint:
        """Return the point of the curve for one or more thresholds.

        On a thinned curve, this is the first remaining point at or above the threshold.

        Parameters
        ----------
        threshold
            One threshold or an array of thresholds, >= 0.

        Returns
        -------
        point
            A `SATPoint` with numbers, or with arrays if `threshold` is an array.
        """
        points = np.searchsorted(self.thresholds, _check_numbers("threshold", threshold, 0))
        columns = (self.mean_time, self.std_time, self.error, self.forced)
        return SATPoint(*(_pick(column, points) for column in columns))

    def at_time(self, mean_time: Any) -> Any:
        """Return the macro error rate at one or more mean hitting times.

        This is the error of the slowest point whose mean hitting time is at most `mean_time`. If there is
        none, it is the error of the first point.

        Parameters
        ----------
        mean_time
            One mean hitting time or an array of them.

        Returns
        -------
        error
            A number, or an array if `mean_time` is an array.
        """
        points = np.searchsorted(self.mean_time, _check_numbers("mean_time", mean_time), side="right")
        return _pick(self.error, np.maximum(points - 1, 0))

    def thin(self, points: int) -> SATCurve:
        """Return a curve with fewer points, evenly spaced in mean time, including both ends.

        Parameters
        ----------
        points
            Maximum number of points, >= 2.
        """
        points = check_integer("points", points, 2)
        if len(self) <= points:
            return self
        wanted = np.linspace(self.mean_time[0], self.mean_time[-1], points)
        keep = np.searchsorted(self.mean_time, wanted, side="right") - 1
        keep[0], keep[-1] = 0, len(self) - 1
        keep = np.unique(keep)
        old = self._changes
        changes = ClassChanges(
            old.totals, old.start, np.searchsorted(keep, old.points), old.classes, old.change
        )
        return SATCurve(
            self.thresholds[keep],
            self.mean_time[keep],
            self.std_time[keep],
            self.error[keep],
            self.forced[keep],
            self.length,
            changes,
        )

    def __len__(self) -> int:
        return len(self.thresholds)

    def __repr__(self) -> str:
        return (
            f"SATCurve({len(self)} points, mean time {self.mean_time[0]:.2f} to {self.mean_time[-1]:.2f}, "
            f"error {self.error[0]:.3f} to {self.error[-1]:.3f})"
        )

    def _repr_html_(self) -> str:
        """Return some points of the curve, evenly spaced in mean time, and the area under it."""
        some = self.thin(ROWS_SHOWN)
        columns = (some.thresholds, some.mean_time, some.error, some.forced)
        rows = [
            [f"{a:.3g}", f"{t:.2f}", f"{100 * e:.1f} %", f"{100 * f:.1f} %"] for a, t, e, f in zip(*columns)
        ]
        shown = "all" if len(some) == len(self) else f"{len(some)}"
        header = ["threshold", "mean time", "macro error", "forced"]
        return markup.block(
            f"Speed-accuracy curve, {shown} of {len(self)} points",
            markup.table(header, rows),
            markup.paragraph(f"Area under the curve (AUSAT): {ausat(self):.4f}"),
        )


def ausat(curve: SATCurve) -> float:
    """Return the area under the speed-accuracy tradeoff curve (AUSAT); lower is better.

    This is the area under the macro error rate as a function of the mean hitting time on [1, T], divided by
    T - 1, where T is the length of the longest series. The curve is a step function: between two points the
    error is that of the faster point, and beyond the last point it is constant. With T = 1 the area is
    defined as the error.

    Parameters
    ----------
    curve
        The curve, as returned by `sat_curve`.

    Examples
    --------
    >>> from stopwise.metrics import sat_curve
    >>> ausat(sat_curve([[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 2.5]]], [0, 1]))
    0.25
    """
    if not isinstance(curve, SATCurve):
        raise TypeError(
            f"`curve` must be a SATCurve, as returned by sat_curve(); got {type(curve).__name__}."
        )
    if curve.length == 1:
        return float(curve.error[0])
    widths = np.diff(curve.mean_time, append=curve.length)
    return float(curve.error @ widths) / (curve.length - 1)


def _pick(column: np.ndarray, points: np.ndarray) -> Any:
    return float(column[points]) if np.ndim(points) == 0 else column[points]


def _check_numbers(name: str, value: Any, low: float = -np.inf) -> np.ndarray:
    array = np.asarray(value)
    if not np.issubdtype(array.dtype, np.number) or not (array >= low).all():
        wanted = "numbers, not NaN" if low == -np.inf else f"numbers >= {low:g}, not NaN"
        raise ValueError(f"`{name}` must be {wanted}; got {value!r}.")
    return array
