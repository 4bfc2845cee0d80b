"""Learn then test: which candidates provably keep a rate, and the errors when none does."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtr

from stopwise.rules.calibration.guarantee import percent


class NoThresholdError(ValueError):
    """No threshold could be shown to keep the rate that was asked for."""


def p_values(losses: np.ndarray, sizes: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return the probability of at most so many losses if the true rate were the allowed one.

    Under any higher rate it is smaller still: an exact p-value for any number of series. Without series it
    is 1.
    """
    # The binomial distribution function itself: the checks of scipy.stats take fifty times as long.
    return bdtr(losses, sizes, rates)


def last_accepted(losses: np.ndarray, sizes: np.ndarray, rates: np.ndarray, delta: float) -> int | None:
    """Return the last candidate, in their fixed order, up to which all pass; None if the first fails.

    Fixed-sequence testing: candidates are tested one after another at the full level `delta`, and the
    first that fails ends the sequence. To accept a bad candidate, the first bad one must pass, which happens
    with probability `delta` at most; so no correction for the number of candidates is needed.

    Groups (classes) are tested together: a candidate is bad if any group's rate is too high, and it passes
    if every group's p-value is at most `delta`. A bad candidate has a group whose p-value is that small with
    probability `delta` at most, whatever the other groups are; so no correction for their number is needed
    either (an intersection-union test).

    Parameters
    ----------
    losses
        (G, J) counts of losses of each group under each candidate.
    sizes, rates
        (G,) number of series of each group, and the rate allowed.
    delta
        The probability of failure allowed.
    """
    worst = p_values(losses, sizes[:, None], rates[:, None]).max(0)  # (J,)
    failed = np.flatnonzero(worst > delta)
    accepted = (failed[0] if len(failed) else len(worst)) - 1
    return int(accepted) if accepted >= 0 else None


def series_needed(loss: float, rate: float, delta: float) -> int | None:
    """Return how many series with a share `loss` of losses show that the rate is <= `rate`; None: none do.

    Examples
    --------
    >>> series_needed(0.0, 0.05, 0.05), series_needed(0.05, 0.05, 0.05)
    (59, None)
    """
    if loss >= rate:
        return None

    def passes(n: int) -> bool:
        return bool(p_values(np.ceil(loss * n - 1e-9), np.array(n), np.array(rate)) <= delta)

    high = 1
    while not passes(high):
        high *= 2
    low = high // 2
    while high - low > 1:  # losses are integers, so this is exact only up to a few series
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def refusal(
    what: str, losses: int, series: int, rate: float, delta: float, *, of: str = ""
) -> NoThresholdError:
    """Return the error for a rate that even waiting for the end cannot be shown to keep.

    Parameters
    ----------
    what
        The argument's name.
    losses, series
        Number of series decided wrongly at their end, and of all series.
    rate, delta
        The rate allowed, and the probability of failure.
    of
        Which series these are, such as " of class 'a'".
    """
    needed = series_needed(losses / series, rate, delta)
    problem = (
        f"No threshold can be shown to keep `{what}`={rate:g}{of} with confidence {percent(1 - delta)}: even "
        f"waiting for the end of every series decides {losses} of {series} calibration series{of} wrongly "
        f"({percent(losses / series)})."
    )
    if needed is None:
        return NoThresholdError(
            f"{problem} No number of calibration series is enough at this error: allow a higher rate, or "
            "train a better model."
        )
    return NoThresholdError(
        f"{problem} At this error it takes about {_rounded_up(needed)} such series to be sure: give more, or "
        "allow a higher rate."
    )


def too_few(what: str, series: int, rate: float, delta: float, *, of: str = "") -> NoThresholdError:
    """Return the error for fewer series than a rate of `rate` can be shown with."""
    least = series_needed(0.0, rate, delta)
    return NoThresholdError(
        f"No threshold can be shown to keep `{what}`={rate:g} with confidence {percent(1 - delta)} on "
        f"{series} calibration series{of}: it takes at least {least}, even if none of them is decided "
        "wrongly. Give more, or allow a higher rate."
    )


def _rounded_up(count: int) -> int:
    """Return a count rounded up to two digits: it is an estimate."""
    unit = 10 ** max(0, int(math.log10(count)) - 1)
    return -(-count // unit) * unit
