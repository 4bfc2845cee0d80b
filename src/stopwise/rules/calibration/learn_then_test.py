"""Learn then test: which candidates' losses are small for sure, and what to say when none is."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtr

from stopwise.rules.calibration.guarantee import percent


class NoThresholdError(ValueError):
    """No threshold could be shown to keep what was asked for."""


def p_values(losses: np.ndarray, sizes: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return the probability of so few losses, or fewer, if the true rate were the allowed one.

    Under any higher rate it is smaller still: a valid p-value, without approximation, at any number of
    series. No series at all gives 1.
    """
    # The binomial distribution function itself: scipy.stats wraps it in checks that cost fifty times more.
    return bdtr(losses, sizes, rates)


def last_accepted(losses: np.ndarray, sizes: np.ndarray, rates: np.ndarray, delta: float) -> int | None:
    """Return the last candidate, in their fixed order, up to which all pass; None if the first fails.

    Fixed-sequence testing: candidates are tested one after another at the full level `delta`, and the
    first that fails ends it. To accept a bad candidate, the first bad one must pass, which happens with
    probability `delta` at most; so there is nothing to correct for the number of candidates.

    Groups (classes) are tested together: a candidate is bad if any group's rate is too high, and it passes
    if every group's p-value is at most `delta`. A bad candidate has a group whose p-value is so small with
    probability `delta` at most, whatever the others do; so there is nothing to correct for their number
    either (an intersection-union test).

    Parameters
    ----------
    losses
        (G, J) counts of losses of each group under each candidate.
    sizes, rates
        (G,) series of each group, and the rate allowed.
    delta
        The probability of failure allowed.
    """
    worst = p_values(losses, sizes[:, None], rates[:, None]).max(0)  # (J,)
    failed = np.flatnonzero(worst > delta)
    accepted = (failed[0] if len(failed) else len(worst)) - 1
    return int(accepted) if accepted >= 0 else None


def series_needed(loss: float, rate: float, delta: float) -> int | None:
    """Return how many series would show that a loss observed at `loss` is at most `rate`; None: no number.

    Examples
    --------
    >>> series_needed(0.0, 0.05, 0.05), series_needed(0.05, 0.05, 0.05)
    (59, None)
    """
    if loss >= rate:
        return None

    def shown(n: int) -> bool:
        return bool(p_values(np.ceil(loss * n - 1e-9), np.array(n), np.array(rate)) <= delta)

    high = 1
    while not shown(high):
        high *= 2
    low = high // 2
    while high - low > 1:  # the count of losses is whole, so this is exact only up to a few series
        middle = (low + high) // 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return high


def refusal(
    what: str, losses: int, series: int, rate: float, delta: float, *, of: str = ""
) -> NoThresholdError:
    """Return the error that says why even waiting for the end cannot be shown to keep `rate`.

    Parameters
    ----------
    what
        The argument's name.
    losses, series
        Series decided wrongly at their end, of how many.
    rate, delta
        What was asked for.
    of
        Which class's series these are, if one's.
    """
    needed = series_needed(losses / series, rate, delta)
    told = (
        f"No threshold can be shown to keep `{what}`={rate:g}{of} with confidence {percent(1 - delta)}: even "
        f"waiting for the end of every series decides {losses} of {series} calibration series{of} wrongly "
        f"({percent(losses / series)})."
    )
    if needed is None:
        return NoThresholdError(
            f"{told} No number of calibration series would do at this error: allow a higher rate, or train a "
            "better model."
        )
    return NoThresholdError(
        f"{told} At this error it takes about {_rounded_up(needed)} such series to be sure: give more, or "
        "allow a higher rate."
    )


def too_few(what: str, series: int, rate: float, delta: float, *, of: str = "") -> NoThresholdError:
    """Return the error that says how many series it takes at least to show a rate of `rate`."""
    least = series_needed(0.0, rate, delta)
    return NoThresholdError(
        f"No threshold can be shown to keep `{what}`={rate:g} with confidence {percent(1 - delta)} on "
        f"{series} calibration series{of}: it takes {least} at least, even if none of them is a loss. Give "
        "more, or allow a higher rate."
    )


def _rounded_up(count: int) -> int:
    """Return a count rounded up to two digits: more were not known."""
    unit = 10 ** max(0, int(math.log10(count)) - 1)
    return -(-count // unit) * unit
