"""Thresholds from held-out series, with a promise that holds whatever the scores are worth.

Scores of a network are not true log-likelihood ratios, so thresholds computed from error rates promise
nothing about them. Series that the network has not seen tell how often each threshold errs; testing the
thresholds in a fixed order, from careful to bold, gives the boldest that is right for sure ("learn then
test", Angelopoulos and others, 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stopwise.metrics import sat_curve
from stopwise.rules.calibration.calibrated import Calibrated
from stopwise.rules.calibration.conditional import conditional_thresholds
from stopwise.rules.calibration.guarantee import Guarantee
from stopwise.rules.calibration.learn_then_test import last_accepted, p_values, refusal, too_few
from stopwise.rules.calibration.trials import CANDIDATES, Trials, stopping_steps, totals_by_candidate
from stopwise.validation import check_integer, check_real


def calibrate(
    scores: Any,
    y: Any,
    lengths: Any = None,
    *,
    error_rate: float | Mapping[int, float] | None = None,
    confidence: float = 0.95,
    per_class: bool = False,
    accuracy_gap: float | Mapping[int, float] | None = None,
    conditional: bool = False,
    mean_time: float | None = None,
    classes: Sequence[Any] | None = None,
    seed: int = 0,
) -> Calibrated:
    """Return the sequential test that stops earliest while it provably keeps a target.

    The promise holds with probability `confidence` over draws of the calibration series, for any scores
    and any number of series, if these are independent draws from what the rule will meet and had no part
    in making the scores (training, choice of the epoch or of settings). Exactly one of `error_rate`,
    `accuracy_gap` and `mean_time` is the target.

    Parameters
    ----------
    scores
        (n, T, K) scores of every prefix of the calibration series.
    y
        (n,) true class indices.
    lengths
        (n,) lengths of the series; None means all have T steps.
    error_rate
        The share of new series that may be decided wrongly, those forced by their end included; or a dict
        {class index: share}, for each of these classes among its own series.
    confidence
        The probability that the promise holds.
    per_class
        True: the rate holds for every class among its own series.
    accuracy_gap
        As `error_rate`, for the share of new series that are decided wrongly, and would have been decided
        rightly had one waited for their end.
    conditional
        True, with one `accuracy_gap`: it holds among the series decided by step t, whatever t. The
        thresholds then depend on the step; half of the series serve to choose them.
    mean_time
        Instead: the highest threshold whose mean stopping time, in samples, is at most this: no promise.
    classes
        (K,) names of the classes, for the words of the guarantee.
    seed
        Of the split into halves, with `conditional`.

    Returns
    -------
    rule
        A `Calibrated` rule; `print(rule.guarantee)`.

    Raises
    ------
    NoThresholdError
        If nothing can be shown; it says how many series would do.

    Examples
    --------
    Scores that claim 2.5 times the evidence there is: the textbook threshold errs too often.

    >>> import stopwise as sw
    >>> _, y, truth = sw.datasets.gaussian(4000, offset=1.0, dim=2, seed=1)
    >>> scores, held, new = 2.5 * truth, slice(0, 2000), slice(2000, None)
    >>> wrong = sw.SPRT(error_rate=0.05).decide(scores[new]).labels != y[new]
    >>> rule = calibrate(scores[held], y[held], error_rate=0.05)
    >>> right = rule.decide(scores[new]).labels == y[new]
    >>> print(f"{wrong.mean():.3f} {1 - right.mean():.3f}")
    0.102 0.039
    """
    name, level = _one_target(error_rate=error_rate, accuracy_gap=accuracy_gap, mean_time=mean_time)
    for flag, value in (("per_class", per_class), ("conditional", conditional)):
        if not isinstance(value, bool):
            raise TypeError(f"`{flag}` must be True or False; got {value!r}.")
    trials, count = Trials.of(scores, y, lengths), np.shape(scores)[2]
    names = _names(classes, count)
    if name == "mean_time":
        if per_class or conditional:
            raise ValueError("`mean_time` is one number for all series: leave `per_class` and `conditional`.")
        return _by_mean_time(scores, trials, check_real(name, level, 1, open_high=True))
    delta = 1 - check_real("confidence", confidence, 0, 1, open_low=True, open_high=True)
    rates = _rates(name, level, per_class, count)
    if conditional:
        if name != "accuracy_gap" or len(rates) > 1:
            raise ValueError("`conditional`=True goes with one number as `accuracy_gap`, for all classes.")
        check_integer("seed", seed, 0)
        tested = len(trials.y) - len(trials.y) // 2
        if p_values(np.array(0), np.array(tested), rates[0]) > delta:
            raise too_few("accuracy_gap", tested, rates[0], delta, of=" that test the thresholds")
        thresholds = conditional_thresholds(trials, rates[0], delta, seed)
    else:
        thresholds = _common_threshold(name, trials, rates, delta, names)
    losses = trials.wrong if name == "error_rate" else trials.gap()
    return _with_guarantee(name, thresholds, trials, losses, rates, confidence, conditional, names)


def observed_rate(rule: Calibrated, scores: Any, y: Any, lengths: Any = None, *, least: int = 1) -> Any:
    """Return, on new series, what a rule's guarantee speaks of.

    One number, or one per class, NaN for a class without series. For a guarantee conditional on the stopping
    time, the highest over the steps by which at least `least` series were decided. For "mean_time",
    the mean stopping time.

    Parameters
    ----------
    rule
        A calibrated rule.
    scores, y, lengths
        As for `calibrate`.
    least
        See above: the share among a handful of series says little.

    Examples
    --------
    >>> import stopwise as sw
    >>> _, y, scores = sw.datasets.gaussian(4000, offset=1.0, dim=2, seed=1)
    >>> rule = calibrate(scores[:2000], y[:2000], error_rate=0.05)
    >>> bool(observed_rate(rule, scores[2000:], y[2000:]) < 0.05)
    True
    """
    guarantee, trials = rule.guarantee, Trials.of(scores, y, lengths)
    stop = _stops(trials, rule.threshold)
    if guarantee.target == "mean_time":
        return float((stop + 1).mean())
    losses = trials.wrong if guarantee.target == "error_rate" else trials.gap()
    lost = losses[np.arange(len(stop)), stop]
    if guarantee.conditional:
        decided = np.cumsum(np.bincount(stop))
        shares = np.cumsum(np.bincount(stop, lost)) / np.maximum(decided, 1)
        return float(shares[decided >= least].max(initial=0.0))
    if not isinstance(guarantee.level, tuple):
        return float(lost.mean())
    sizes = np.bincount(trials.y, minlength=len(guarantee.level))
    with np.errstate(invalid="ignore"):
        return np.bincount(trials.y, lost, minlength=len(sizes)) / sizes


def _common_threshold(
    name: str, trials: Trials, rates: np.ndarray, delta: float, names: list[str]
) -> np.ndarray:
    """Return the lowest threshold that can be shown to keep the rates, (1,)."""
    of_all = len(rates) == 1
    groups = np.zeros_like(trials.y) if of_all else trials.y
    sizes = np.bincount(groups, minlength=len(rates))
    losses = trials.wrong if name == "error_rate" else trials.gap()
    counts = totals_by_candidate(trials, losses, groups, len(rates))  # (G, J)
    asked = np.flatnonzero(~np.isnan(rates))  # classes left out are not controlled
    for k in asked[sizes[asked] == 0]:
        raise ValueError(
            f"`y` has no calibration series of class {names[k]!r}, whose rate cannot be tested without. Give "
            f"some, or leave the class out: `{name}`={{class: rate}}."
        )
    # One threshold for all classes: how often a class errs depends on the thresholds of all the others too,
    # and not monotonically, so class-wise thresholds found one by one would promise nothing together.
    accepted = last_accepted(counts[asked], sizes[asked], rates[asked], delta)
    if accepted is None:
        k = asked[np.argmax(p_values(counts[asked, 0], sizes[asked], rates[asked]))]
        of = "" if of_all else f" of class {names[k]!r}"
        if name == "accuracy_gap":
            raise too_few(name, int(sizes[k]), float(rates[k]), delta, of=of)
        raise refusal(name, int(counts[k, 0]), int(sizes[k]), float(rates[k]), delta, of=of)
    return CANDIDATES[accepted : accepted + 1]


def _by_mean_time(scores: Any, trials: Trials, budget: float) -> Calibrated:
    curve = sat_curve(scores, trials.y, trials.lengths)
    threshold = curve.thresholds[np.flatnonzero(curve.mean_time <= budget)[-1]]
    stop = _stops(trials, threshold)
    return Calibrated(
        float(threshold),
        Guarantee(
            "mean_time",
            budget,
            None,
            series=len(stop),
            observed=float(trials.wrong[np.arange(len(stop)), stop].mean()),
            mean_time=float((stop + 1).mean()),
            mean_length=float(trials.lengths.mean()),
        ),
    )


def _with_guarantee(
    name: str,
    thresholds: np.ndarray,
    trials: Trials,
    losses: np.ndarray,
    rates: np.ndarray,
    confidence: float,
    conditional: bool,
    names: list[str],
) -> Calibrated:
    threshold: Any = thresholds if conditional else float(thresholds[0])
    stop = _stops(trials, threshold)
    lost = losses[np.arange(len(stop)), stop]
    of_all = len(rates) == 1
    shares = [lost[trials.y == k].mean() if (trials.y == k).any() else None for k in range(len(rates))]
    guarantee = Guarantee(
        name,
        float(rates[0]) if of_all else tuple(None if np.isnan(rate) else float(rate) for rate in rates),
        float(confidence),
        series=len(stop),
        observed=float(lost.mean()) if of_all else tuple(s if s is None else float(s) for s in shares),
        mean_time=float((stop + 1).mean()),
        mean_length=float(trials.lengths.mean()),
        conditional=conditional,
        classes=None if of_all else tuple(names),
    )
    return Calibrated(threshold, guarantee, per_step=conditional)


def _stops(trials: Trials, threshold: Any) -> np.ndarray:
    """Return the steps (n,), counted from 0, at which series stop; past a table they wait for the end."""
    steps = trials.leads.shape[1]
    full = np.full(steps, np.inf)
    known = np.broadcast_to(threshold, steps) if np.ndim(threshold) == 0 else threshold[:steps]
    full[: len(known)] = known
    return stopping_steps(trials, full)


def _one_target(**targets: Any) -> tuple[str, Any]:
    given = [(name, value) for name, value in targets.items() if value is not None]
    if len(given) != 1:
        raise ValueError(
            "calibration needs exactly one target: `error_rate`, `accuracy_gap` or `mean_time`; got "
            f"{' and '.join(f'`{name}`' for name, _ in given) or 'none'}."
        )
    return given[0]


def _rates(name: str, level: Any, per_class: bool, classes: int) -> np.ndarray:
    """Return the rates allowed: (1,) overall, or (K,) with NaN for classes that are not controlled."""
    if not isinstance(level, Mapping):
        rate = check_real(name, level, 0, 1, open_low=True, open_high=True)
        return np.full(classes if per_class else 1, rate)
    rates = np.full(classes, np.nan)
    unknown = [k for k in level if k not in range(classes)]
    if unknown or not level:
        raise ValueError(
            f"`{name}` as a dict must be {{class index in [0, {classes - 1}]: rate}}; got {dict(level)!r}."
        )
    for k, rate in level.items():
        rates[k] = check_real(f"{name}[{k!r}]", rate, 0, 1, open_low=True, open_high=True)
    return rates


def _names(classes: Sequence[Any] | None, count: int) -> list[str]:
    names = range(count) if classes is None else classes
    if len(names) != count:
        raise ValueError(f"`classes` must name the {count} classes of `scores`; got {len(names)} names.")
    return [str(name) for name in names]
