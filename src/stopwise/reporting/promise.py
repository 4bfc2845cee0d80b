"""Promised against observed: the guarantee of a calibrated rule, measured on the series of the report."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from stopwise.reporting.wording import percent
from stopwise.rules import Calibrated, observed_rate

FEW = 100  # minimum number of series for an observed share of a conditional guarantee
CHANCE = 0.05

KEPT, CHANCE_EXPLAINS, BROKEN, UNKNOWN = "kept", "chance", "broken", "unknown"


class Limit(NamedTuple):
    """One promised rate and what was observed."""

    who: str | None  # name of the class; None: all series
    level: float
    observed: float | None
    series: int
    verdict: str


def limits(rule: Calibrated, scores: np.ndarray, y: np.ndarray, lengths: np.ndarray) -> list[Limit]:
    """Return the promised rates of a rule and the observed ones.

    A rate above its limit is "chance" if so many errors would occur with a probability of at least 5 % at
    the promised rate, and "broken" otherwise.

    Parameters
    ----------
    rule
        A calibrated rule, bound to the prior of the classifier.
    scores, y, lengths
        Scores (n, T, K), true class indices (n,) and lengths (n,) of the series.

    Examples
    --------
    >>> import stopwise as sw
    >>> _, y, scores = sw.datasets.gaussian(3000, offset=1.0, channels=2, seed=1)
    >>> rule = sw.rules.calibrate(scores[:1000], y[:1000], error_rate=0.05)
    >>> [found] = limits(rule, scores[1000:], y[1000:], np.full(2000, 50))
    >>> found.level, found.series, found.verdict
    (0.05, 2000, 'kept')
    """
    level, n = rule.guarantee.level, len(y)
    if rule.guarantee.conditional:
        assert isinstance(level, float)
        if n < FEW:
            return [Limit(None, level, None, n, UNKNOWN)]
        worst = float(observed_rate(rule, scores, y, lengths, min_series=FEW))
        # The worst of many steps has no simple distribution, so nothing is said about chance.
        return [Limit(None, level, worst, n, KEPT if worst <= level else CHANCE_EXPLAINS)]
    observed = observed_rate(rule, scores, y, lengths)
    if not isinstance(level, tuple):
        return [_limit(None, float(level), float(observed), n)]
    sizes, rates = np.bincount(y, minlength=len(level)), np.asarray(observed)
    names = rule.guarantee.classes or ()
    return [
        _limit(str(names[k]), float(own), float(rates[k]), int(sizes[k]))
        for k, own in enumerate(level)
        if own is not None
    ]


def _limit(who: str | None, level: float, observed: float, series: int) -> Limit:
    if not series:
        return Limit(who, level, None, 0, UNKNOWN)
    if observed <= level:
        return Limit(who, level, observed, series, KEPT)
    wrong = round(observed * series)
    usual = binom.sf(wrong - 1, series, level) >= CHANCE
    return Limit(who, level, observed, series, CHANCE_EXPLAINS if usual else BROKEN)


def as_text(found: list[Limit], rule: Calibrated) -> list[str]:
    """Return one sentence per limit: what was observed, and how it compares."""
    what = "decided wrongly" + (
        " but correctly at the end" if rule.guarantee.target == "accuracy_gap" else ""
    )
    where = ", at the worst step" if rule.guarantee.conditional else ""
    return [_sentence(limit, what, where) for limit in found]


def _sentence(limit: Limit, what: str, where: str) -> str:
    who = "all series" if limit.who is None else f"class {limit.who}"
    if limit.observed is None:
        return f"Observed for {who}: not measured, because there are only {limit.series} series."
    verdicts: dict[str, Any] = {
        KEPT: "within the promise",
        CHANCE_EXPLAINS: "above the promise, as can happen by chance",
        BROKEN: "above the promise by more than chance explains, so the source of the series may differ",
    }
    return f"Observed here: {percent(limit.observed, 2)} of {who} {what}{where}; {verdicts[limit.verdict]}."
