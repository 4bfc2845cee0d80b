"""Times of samples: conversion to numbers, their regular grid, and the steps that are missing on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

import numpy as np

from stopwise.validation import warn

MOST_FILLED = 3  # steps after filling gaps, as a multiple of the samples
TOLERANCE = 0.05  # deviation of a time from the grid, as a fraction of a step
LARGEST_JITTER = 1.5  # largest gap between samples without a missing step, as a multiple of the median gap


def as_numbers(name: str, times: np.ndarray) -> np.ndarray:
    """Return times as int64 or float64; dates become integers. Texts are refused, as "10" sorts before "9".

    `name` is used in error messages.

    Examples
    --------
    >>> as_numbers("t", np.array(["2026-01-01", "2026-01-03"], dtype="datetime64[D]")).tolist()
    [20454, 20456]
    """
    if times.dtype.kind in "mM":
        return times.astype(np.int64)
    if times.dtype.kind == "O" and all(isinstance(t, Real) for t in times.tolist()):
        times = times.astype(np.float64)
    if times.dtype.kind not in "iuf":
        raise ValueError(
            f"`time`: column {name!r} must hold numbers or dates; got {times[0]!r}. Convert it, for example "
            "with pandas.to_numeric or pandas.to_datetime."
        )
    return times.astype(np.int64 if times.dtype.kind in "iu" else np.float64)


def grid_step(times: Sequence[np.ndarray]) -> float | None:
    """Return the step of the regular grid on which the times of all series lie; None if there is none.

    Parameters
    ----------
    times
        Increasing times of each series, (T_i,).

    Examples
    --------
    >>> grid_step([np.array([0, 2, 6]), np.array([10, 14])]), grid_step([np.array([0.0, 1.0, 1.7])])
    (2.0, None)
    """
    gaps = np.concatenate([np.diff(own) for own in times])
    if not len(gaps):
        return None  # series of one sample
    whole = bool((gaps == np.round(gaps)).all())
    least = float(math.gcd(*(int(gap) for gap in gaps))) if whole else float(gaps.min())
    counts = np.rint(gaps / least)
    if (np.abs(gaps / least - counts) > TOLERANCE).any():
        return None
    return float(gaps.sum() / counts.sum())


def places(times: np.ndarray, step: float) -> np.ndarray:
    """Return the place (T,) of each sample on the grid, the first at 0."""
    return np.concatenate([[0], np.rint(np.diff(times) / step).cumsum()]).astype(np.int64)


def _filled(times: Sequence[np.ndarray], step: float) -> int:
    """Return the number of steps of all series on the grid."""
    return sum(int(places(own, step)[-1]) + 1 for own in times)


def step_to_fill(times: Sequence[np.ndarray]) -> float | None:
    """Return the step of the grid if missing steps can be filled; otherwise warn if there may be some."""
    step = grid_step(times)
    samples = sum(map(len, times))
    if step is not None:
        filled = _filled(times, step)
        if filled <= MOST_FILLED * samples:
            return step
        reason = f"{samples} samples on a grid of {filled} steps"
    else:
        gaps = np.concatenate([np.diff(own) for own in times])
        if not len(gaps) or gaps.max() <= LARGEST_JITTER * np.median(gaps):
            return None
        reason = f"the time between samples is {np.median(gaps):g} at the median and up to {gaps.max():g}"
    warn(
        f"`time`: the times are irregular ({reason}), so gaps are not filled: samples are used in order. "
        "Round the times to a coarser step to fill the gaps."
    )
    return None


def warn_of_gaps(where: str, names: Sequence[str], times: Sequence[np.ndarray]) -> None:
    """Warn if a few steps of a regular grid are missing; irregular times are used in order."""
    step = grid_step(times)
    if step is None or _filled(times, step) > MOST_FILLED * sum(map(len, times)):
        return
    gaps = [i for i, own in enumerate(times) if places(own, step)[-1] >= len(own)]
    if gaps:
        warn(
            f"{where}: {len(gaps)} of {len(times)} series have missing steps, such as series "
            f"{names[gaps[0]]!r}. Their samples are used in order, as if there were no gap. Write a row with "
            "empty cells for each missing step, and use missing='mask' (--missing mask)."
        )
