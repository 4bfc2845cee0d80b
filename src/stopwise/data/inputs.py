"""How the channels are shifted and scaled before a network sees them."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.data.series import Series

# Series looked at: enough for two digits, quick on any data.
MOMENT_SERIES = 2000
TOGETHER = "together"


def check_standardize(standardize: Any) -> None:
    """Refuse what says nothing about standardising."""
    if not (standardize is True or standardize is False or standardize == TOGETHER):
        raise ValueError(
            f"`standardize` must be True (each channel by its own deviation), {TOGETHER!r} (all by one) or "
            f"False; got {standardize!r}."
        )


def moments(
    series: Series, standardize: bool | str, missing: str, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the channels (D,) are shifted and scaled by: their means, and deviations.

    Parameters
    ----------
    series
        Those to learn from.
    standardize
        "together": all channels have one deviation, the root of their mean variance. Their sizes then keep
        their proportions, and small ones stay small.
    missing, seed
        As for `Series.moments`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(0, [3.0, 0.1], size=(500, 20, 2))
    >>> moments(Series(X), True, "error", 0)[1].round(1).tolist()
    [3.0, 0.1]
    >>> moments(Series(X), "together", "error", 0)[1].round(1).tolist()
    [2.1, 2.1]
    """
    if not standardize and missing != "mask":  # where the means stand for what was never observed
        return np.zeros(series.channels), np.ones(series.channels)
    mean, deviation = series.moments(MOMENT_SERIES, missing, seed)
    if standardize == TOGETHER:
        deviation = np.full_like(deviation, np.sqrt((deviation**2).mean()))
    return mean, np.where(deviation > 0, deviation, 1.0)  # constant channels become 0
