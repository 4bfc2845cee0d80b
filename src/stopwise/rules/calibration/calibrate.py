"""Calibration of thresholds on held-out series, with a guarantee that holds for any scores.

The scores of a model are only estimates of log-likelihood ratios, so thresholds derived from error rates
(`SPRT(error_rate=...)`) give no guarantee. Calibration measures the error rate of each threshold on series
that the model was not trained on. It tests the thresholds in a fixed order, from strict to lenient, and
returns the most lenient one before the first that fails its test ("learn then test", Angelopoulos et al.,
2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stopwise.rules.arrays import check_class_labels, check_prior
from stopwise.rules.calibration.calibrated import Calibrated
from stopwise.rules.calibration.conditional import conditional_thresholds
from stopwise.rules.calibration.guarantee import Guarantee
from stopwise.rules.calibration.learn_then_test import last_accepted, p_values, refusal, too_few
from stopwise.rules.calibration.sample import check_classes, check_counted
from stopwise.rules.calibration.trials import CANDIDATES, Outcomes, Trials, stops, totals_by_candidate
from stopwise.rules.classes import listed
from stopwise.validation import check_integer, check_real


def calibrate(
    scores: Any,
    y: Any,
    lengths: Any = None,
    *,
    error_rate: float | Mapping[int, float] | None = None,
    accuracy_gap: float | Mapping[int, float] | None = None,
    confidence: float = 0.95,
    per_class: bool = False,
    conditional: bool = False,
    counted: Any = None,
    prior: Any = None,
    classes: Sequence[Any] | None = None,
    random_state: int = 0,
) -> Calibrated:
    """Calibrate the threshold of a sequential test on held-out series, with a guaranteed error rate.

    The returned rule has the lowest threshold that passes the tests, so it stops as early as the guarantee
    allows. The guarantee holds with probability `confidence` over draws of the calibration series, for any
    scores and any number of series. It requires that the calibration series are independent draws from the
    same source as new series, and that they were not used to train the model, to choose the epoch or to tune
    settings. Exactly one of `error_rate` and `accuracy_gap` must be given.

    Parameters
    ----------
    scores
        (n, T, K) scores of every prefix of the calibration series.
    y
        (n,) true class indices.
    lengths
        (n,) lengths of the series; None means all have T steps.
    error_rate
        The maximum fraction of new series that are decided wrongly, including forced decisions. A dict
        {class index: rate} limits the error rate of each of these classes separately.
    accuracy_gap
        The maximum fraction of new series that are decided wrongly but would have been decided correctly at
        their end. One number or a dict, as for `error_rate`.
    confidence
        The probability that the guarantee holds.
    per_class
        If True, the rate holds for each class separately, that is, among the series of the class. Only with
        one number as rate.
    conditional
        If True, the accuracy gap holds among the series decided by step t, for every t. Requires one number
        as `accuracy_gap`. The thresholds then depend on the step, and half of the series are used to choose
        them.
    counted
        (n,) whether a series counts as an independent draw: False for a copy of another series, or for a
        series of the training data. None means all count. A threshold must pass the tests on the counted
        series and also on all series. So the guarantee holds for copies, and also if the series are equal by
        chance. If `conditional` is True, only the counted series are used.
    prior
        (K,) class probabilities of the data that the rule is applied to; None means equal probabilities.
        Decisions forced by the end of a series are made for the class with the highest `S + log prior`. The
        returned rule is bound to this prior; see `Rule.with_prior`.
    classes
        (K,) labels of the classes, used in the text of the guarantee.
    random_state
        Seed of the split into halves; used only if `conditional` is True.

    Returns
    -------
    rule
        A `Calibrated` rule. `print(rule.guarantee)` shows the guarantee as a sentence.

    Raises
    ------
    NoThresholdError
        If no threshold passes the tests. The message says how many series would be enough, if any number is.

    Examples
    --------
    The scores are 2.5 times too large. The threshold for exact scores exceeds the error rate of 5 %; the
    calibrated one does not.

    >>> import stopwise as sw
    >>> _, y, truth = sw.datasets.gaussian(4000, offset=1.0, channels=2, seed=1)
    >>> scores, held, new = 2.5 * truth, slice(0, 2000), slice(2000, None)
    >>> wrong = sw.SPRT(error_rate=0.05).decide(scores[new]).labels != y[new]
    >>> rule = calibrate(scores[held], y[held], error_rate=0.05)
    >>> right = rule.decide(scores[new]).labels == y[new]
    >>> print(f"{wrong.mean():.3f} {1 - right.mean():.3f}")
    0.102 0.039
    """
    target, level = _one_target(error_rate=error_rate, accuracy_gap=accuracy_gap)
    for flag, value in (("per_class", per_class), ("conditional", conditional)):
        if not isinstance(value, bool):
            raise TypeError(f"`{flag}` must be True or False; got {value!r}.")
    check_integer("random_state", random_state, 0)
    shares = None if prior is None else check_prior(prior)
    everything, count = Trials.of(scores, y, lengths, shares), np.shape(scores)[2]
    trials = everything.part(np.flatnonzero(check_counted(counted, everything)))
    names = [str(label) for label in check_class_labels(classes, count)]
    delta = 1 - check_real("confidence", confidence, 0, 1, open_low=True, open_high=True)
    rates = _rates(target, level, per_class, count)
    if len(rates) == 1:
        check_classes(trials.y, names)
    threshold: Any
    if conditional:
        if target != "accuracy_gap" or len(rates) > 1:
            raise ValueError(
                "`conditional`=True needs one number as `accuracy_gap`, for all classes together. Leave out "
                "`error_rate` and `per_class`."
            )
        threshold = _conditional_thresholds(trials, float(rates[0]), delta, random_state)
    else:
        threshold = _common_threshold(target, [trials, everything], rates, delta, names)
    guarantee = _guarantee(target, threshold, trials, rates, confidence, names)
    rule = Calibrated(threshold, guarantee, per_step=conditional)
    return rule if shares is None else rule.with_prior(shares)


def _common_threshold(
    target: str, samples: list[Trials], rates: np.ndarray, delta: float, names: list[str]
) -> float:
    """Return the lowest threshold up to which all candidates pass the tests of all rates on all samples."""
    overall = len(rates) == 1
    asked = np.flatnonzero(~np.isnan(rates))  # the other classes have no limit
    missing = asked[~np.isin(asked, samples[0].y)]
    if len(missing) and not overall:
        raise ValueError(
            f"`y` has no calibration series of class {listed([names[k] for k in missing])}, so its rate "
            f"cannot be tested. Add some, or leave the class out: `{target}`={{class: rate}}."
        )
    groups = [np.zeros_like(trials.y) if overall else trials.y for trials in samples]
    sizes = np.concatenate([np.bincount(own, minlength=len(rates))[asked] for own in groups])  # (G,)
    counts = np.concatenate(
        [
            totals_by_candidate(trials, _losses(target, trials), own, len(rates))[asked]
            for trials, own in zip(samples, groups)
        ]
    )  # (G, J)
    limits, of_group = np.tile(rates[asked], len(samples)), np.tile(asked, len(samples))
    # One threshold for all classes: the error rate of a class also depends on the thresholds of the other
    # classes, and not monotonically. Thresholds calibrated per class would give no joint guarantee.
    accepted = last_accepted(counts, sizes, limits, delta)
    if accepted is None:
        worst = int(np.argmax(p_values(counts[:, 0], sizes, limits)))
        of = "" if overall else f" of class {names[of_group[worst]]!r}"
        size, limit = int(sizes[worst]), float(limits[worst])
        if target == "accuracy_gap":
            raise too_few(target, size, limit, delta, of=of)
        raise refusal(target, int(counts[worst, 0]), size, limit, delta, of=of)
    return float(CANDIDATES[accepted])


def _conditional_thresholds(trials: Trials, rate: float, delta: float, random_state: int) -> np.ndarray:
    """Return thresholds (T,); raise if there are too few series to pass a test, even without any loss."""
    tested = len(trials.y) - len(trials.y) // 2
    if p_values(np.array(0), np.array(tested), np.array(rate)) > delta:
        raise too_few("accuracy_gap", tested, rate, delta, of=" that test the thresholds")
    return conditional_thresholds(trials, rate, delta, random_state)


def _guarantee(
    target: str,
    threshold: Any,
    trials: Trials,
    rates: np.ndarray,
    confidence: float,
    names: list[str],
) -> Guarantee:
    stop, forced = stops(trials, np.broadcast_to(threshold, trials.leads.shape[1]))
    lost = _losses(target, trials).at(stop, forced)
    overall = len(rates) == 1
    shares = [lost[trials.y == k].mean() if (trials.y == k).any() else None for k in range(len(rates))]
    return Guarantee(
        target,
        float(rates[0]) if overall else tuple(None if np.isnan(rate) else float(rate) for rate in rates),
        float(confidence),
        series=len(stop),
        observed=float(lost.mean()) if overall else tuple(s if s is None else float(s) for s in shares),
        mean_time=float((stop + 1).mean()),
        mean_length=float(trials.lengths.mean()),
        conditional=np.ndim(threshold) > 0,
        classes=None if overall else tuple(names),
    )


def _losses(target: str, trials: Trials) -> Outcomes:
    return trials.errors() if target == "error_rate" else trials.gaps()


def _one_target(**targets: Any) -> tuple[str, Any]:
    given = [(name, value) for name, value in targets.items() if value is not None]
    if len(given) != 1:
        raise ValueError(
            "calibrate() needs exactly one target, `error_rate` or `accuracy_gap`; got "
            f"{'both' if given else 'none'}."
        )
    return given[0]


def _rates(target: str, level: Any, per_class: bool, classes: int) -> np.ndarray:
    """Return the maximum rates: (1,) overall, or (K,) with NaN for classes without a limit."""
    if isinstance(level, Mapping) and per_class:
        raise ValueError(
            f"`per_class` cannot be used with a dict of rates, which already holds one per class. Leave out "
            f"`per_class`, or give one number as `{target}`."
        )
    if not isinstance(level, Mapping):
        rate = check_real(target, level, 0, 1, open_low=True, open_high=True)
        return np.full(classes if per_class else 1, rate)
    rates = np.full(classes, np.nan)
    unknown = [k for k in level if k not in range(classes)]
    if unknown or not level:
        raise ValueError(
            f"`{target}` as a dict must be {{class index in [0, {classes - 1}]: rate}}; got {dict(level)!r}."
        )
    for k, rate in level.items():
        rates[k] = check_real(f"{target}[{k!r}]", rate, 0, 1, open_low=True, open_high=True)
    return rates
