"""Learn then test: candidates that keep a rate with high confidence, and the errors if there are none."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtr

from stopwise.rules.calibration.guarantee import percent


class NoThresholdError(ValueError):
    """Raised by `calibrate` if no threshold can be shown to keep the requested rate.

    Examples
    --------
    Ten series are too few to show an error rate of at most 5 %, even without any error.

    >>> import numpy as np
    >>> from stopwise.rules import calibrate
    >>> y = np.arange(10) % 2
    >>> scores = 9.0 * np.eye(2)[y][:, None]  # (10, 1, 2), all correct
    >>> try:
    ...     calibrate(scores, y, error_rate=0.05)
    ... except NoThresholdError as error:
    ...     print(error)
    No threshold can be shown to keep `error_rate`=0.05 with confidence 95 %: ... about 59 such series ...
    """


def p_values(losses: np.ndarray, sizes: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return the p-values of the hypothesis that the true rates exceed `rates`.

    The p-value is the probability of observing at most `losses` losses in `sizes` series if the true rate is
    `rates`. For a higher true rate this probability is smaller, so the test is exact for any number of
    series. Without series the p-value is 1.
    """
    # Called directly because scipy.stats.binom.cdf validates its arguments and takes fifty times as long.
    return bdtr(losses, sizes, rates)


def last_accepted(losses: np.ndarray, sizes: np.ndarray, rates: np.ndarray, delta: float) -> int | None:
    """Return the index of the last candidate before the first that fails; None if the first one fails.

    This is fixed-sequence testing: candidates are tested one after another at the full level `delta`, and
    testing ends at the first failure. An invalid candidate can only be accepted if the first invalid one
    passes, which has probability at most `delta`. So no correction for the number of candidates is needed.

    Groups (classes) are tested together. A candidate is invalid if the rate of any group is too high, and it
    passes if the p-values of all groups are at most `delta`. For an invalid candidate, the p-value of the
    group with too high a rate is at most `delta` with probability at most `delta`, whatever the other groups
    are. So no correction for the number of groups is needed either (an intersection-union test).

    Parameters
    ----------
    losses
        (G, J) number of losses of each group for each candidate.
    sizes, rates
        (G,) number of series of each group, and its maximum rate.
    delta
        The maximum probability that the guarantee fails.
    """
    worst = p_values(losses, sizes[:, None], rates[:, None]).max(0)  # (J,)
    failed = np.flatnonzero(worst > delta)
    accepted = (failed[0] if len(failed) else len(worst)) - 1
    return int(accepted) if accepted >= 0 else None


def series_needed(loss: float, rate: float, delta: float) -> int | None:
    """Return how many series with a fraction `loss` of losses show a rate <= `rate`; None if no number does.

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
    while high - low > 1:  # exact up to a few series, because losses are integers
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def refusal(
    what: str, losses: int, series: int, rate: float, delta: float, *, of: str = ""
) -> NoThresholdError:
    """Return the error for a rate that cannot be shown even if all decisions are made at the end.

    Parameters
    ----------
    what
        Name of the argument.
    losses, series
        Number of series decided wrongly at their end, and number of all series.
    rate, delta
        The maximum rate, and the maximum probability that the guarantee fails.
    of
        Description of the series, such as " of class 'a'".
    """
    needed = series_needed(losses / series, rate, delta)
    problem = (
        f"No threshold can be shown to keep `{what}`={rate:g}{of} with confidence {percent(1 - delta)}: even "
        f"waiting for the end of every series decides {losses} of {series} calibration series{of} wrongly "
        f"({percent(losses / series)})."
    )
    if needed is None:
        return NoThresholdError(
            f"{problem} With this error rate, no number of calibration series is enough. Allow a higher "
            "rate, or train a better model."
        )
    return NoThresholdError(
        f"{problem} With this error rate, about {_rounded_up(needed)} such series are needed. Give more "
        "series, or allow a higher rate."
    )


def too_few(what: str, series: int, rate: float, delta: float, *, of: str = "") -> NoThresholdError:
    """Return the error for too few series to show a rate of at most `rate`, even without any loss."""
    least = series_needed(0.0, rate, delta)
    return NoThresholdError(
        f"No threshold can be shown to keep `{what}`={rate:g} with confidence {percent(1 - delta)} on "
        f"{series} calibration series{of}: at least {least} are needed, even if none of them is decided "
        "wrongly. Give more series, or allow a higher rate."
    )


def _rounded_up(count: int) -> int:
    """Return a count rounded up to two significant digits, because it is only an estimate."""
    unit = 10 ** max(0, int(math.log10(count)) - 1)
    return -(-count // unit) * unit
