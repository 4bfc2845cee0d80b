"""Fit a rule on labeled series to an objective: least cost, a mean stopping time or the harmonic mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stopwise.metrics import sat_curve
from stopwise.metrics.records import lead_records
from stopwise.rules.arrays import check_class_labels, check_prior
from stopwise.rules.base import Rule
from stopwise.rules.calibration.trials import Trials
from stopwise.rules.classes import absent, check_every_class, check_several_classes, listed
from stopwise.rules.finite_horizon.rule import FiniteHorizon
from stopwise.rules.line_search import LineOutcomes, fit_line
from stopwise.rules.sprt import SPRT
from stopwise.validation import check_choice, check_class_indices, check_real, warn

OBJECTIVES = ("harmonic_mean",)
METHODS = LINE, FINITE_HORIZON = ("line", "finite_horizon")
UNCERTAIN = 150  # series below which the spread of a fitted rule is warned about


def fit_rule(
    scores: Any,
    y: Any,
    lengths: Any = None,
    *,
    cost: float | None = None,
    mean_time: float | None = None,
    objective: str | None = None,
    loss: Any = None,
    method: str | None = None,
    prior: Any = None,
    classes: Sequence[Any] | None = None,
) -> Rule:
    """Fit a stopping rule to an objective on labeled series.

    Exactly one of `cost`, `mean_time` and `objective` must be given. The fitted rule has no guarantee; see
    `calibrate` for rules with a guaranteed error rate. The scores should come from series that the model was
    not trained on, because scores of training series are too optimistic.

    Parameters
    ----------
    scores
        (n, T, K) scores of every prefix.
    y
        (n,) true class indices.
    lengths
        (n,) lengths of the series; None means all have T steps.
    cost
        The cost of one sample, in the same units as `loss`. Returns the rule of least cost, by `method`.
    mean_time
        The maximum mean stopping time, in samples. Returns the `SPRT` with the highest threshold whose mean
        stopping time does not exceed it.
    objective
        "harmonic_mean" returns the `SPRT` with the threshold that maximizes the harmonic mean of accuracy
        and 1 − earliness, where earliness is the mean of time ÷ length.
    loss
        The loss of a wrong decision, 1 by default; can only be used with `cost`. One number; or, together
        with `classes`, a dict {(true label, decided label): loss} with all pairs of different classes; or
        (K, K) with true classes as rows and decided classes as columns. A table by position is accepted only
        if the labels are the integers 0 to K − 1 or `classes` is None, because the order of other labels is
        easily mistaken.
    method
        With `cost`. "line": a `SlopedProbability`, whose two numbers are averaged over bootstrap samples; it
        needs few series, and one number as `loss`. "finite_horizon": a `FiniteHorizon`, learned by backward
        induction; it can weigh the losses of different errors. None: "line", or "finite_horizon" if `loss`
        is a table or a dict.
    prior
        (K,) class probabilities of the data that the rule is applied to; None means equal probabilities. The
        returned rule is bound to this prior; see `Rule.with_prior`.
    classes
        (K,) labels of the classes, in the order of the class indices.

    Returns
    -------
    rule
        A `SlopedProbability` or `FiniteHorizon` rule with `cost`, otherwise an `SPRT`.

    Examples
    --------
    >>> import stopwise as sw
    >>> _, y, scores = sw.datasets.gaussian(1000, offset=1.0, channels=2, length=20, seed=1)
    >>> rule = fit_rule(scores, y, mean_time=3)
    >>> rule
    SPRT(threshold=2.225)
    >>> bool(rule.decide(scores).times.mean() <= 3)
    True
    >>> fit_rule(scores, y, cost=0.01, loss={("a", "b"): 1, ("b", "a"): 5}, classes=["a", "b"])
    FiniteHorizon(cost=0.01, horizon=20, 2 classes)
    """
    goals = {"cost": cost, "mean_time": mean_time, "objective": objective}
    given = [name for name, value in goals.items() if value is not None]
    if len(given) != 1:
        raise ValueError(
            "fit_rule() needs exactly one of `cost`, `mean_time` and `objective`; got "
            f"{' and '.join(f'`{name}`' for name in given) or 'none'}."
        )
    if method is not None and cost is None:
        raise ValueError(f"`method` can only be used with `cost`, not with `{given[0]}`. Leave out `method`.")
    if loss is not None and cost is None:
        raise ValueError(
            f"`loss` can only be used with `cost`, not with `{given[0]}`. Leave out `loss`, or give `cost` "
            f"instead of `{given[0]}`."
        )
    shares = None if prior is None else check_prior(prior)
    rule: Rule
    scores = np.asarray(scores)
    table = 1.0 if loss is None else loss_table(loss, classes, scores.shape[-1] if scores.ndim else 0)
    if cost is not None:
        method = _method(method, table)
    _check_classes(scores, y, classes, every=method == FINITE_HORIZON)
    if cost is not None and method == LINE:
        rule = _line_of_least_cost(LineOutcomes(scores, y, lengths, shares), cost, float(table))
    elif cost is not None:
        rule = FiniteHorizon.fit(scores, y, lengths, cost=cost, loss=table, prior=shares)
    elif mean_time is not None:
        rule = _within_mean_time(scores, y, lengths, mean_time)
    else:
        check_choice("objective", objective, OBJECTIVES)
        rule = _of_best_harmonic_mean(Trials.of(scores, y, lengths, shares))
    return rule if shares is None else rule.with_prior(shares)


def _check_classes(scores: np.ndarray, y: Any, classes: Sequence[Any] | None, *, every: bool) -> None:
    """Warn about classes without series, or raise an error if every class is needed.

    Other problems of `scores` are found later.
    """
    if scores.ndim != 3 or y is None:
        return
    indices = check_class_indices(y, scores.shape[0], scores.shape[2])
    names = check_class_labels(classes, scores.shape[2])
    check_several_classes(indices, names)
    if every:
        check_every_class(indices, names)
    elif missing := absent(indices, names):
        warn(
            f"`y` has no series of class {listed(missing)}, so their errors and times are not counted in the "
            "choice of the rule. Hold out series of every class."
        )


def _method(method: str | None, loss: Any) -> str:
    """Return the method for a cost; raise a ValueError if it cannot use the loss."""
    if method is None:
        return FINITE_HORIZON if np.ndim(loss) else LINE
    if check_choice("method", method, METHODS) == LINE and np.ndim(loss):
        raise ValueError(
            f"`method`={LINE!r} needs one number as `loss`; got different losses. Use "
            f"method={FINITE_HORIZON!r}, which can weigh them."
        )
    return method


def _line_of_least_cost(outcomes: LineOutcomes, cost: float, loss: float) -> Rule:
    cost = check_real("cost", cost, 0, open_low=True, open_high=True)
    loss = check_real("loss", loss, 0, open_low=True, open_high=True)
    rule = fit_line(outcomes, lambda errors, times: loss * errors + cost * times)
    n = len(outcomes.lengths)
    if n < UNCERTAIN and rule.cost_range is not None:
        low, high = rule.cost_range
        warn(
            f"the rule is uncertain, because it was fitted to {n} series: over bootstrap samples, the mean "
            f"cost is between {low:.3g} and {high:.3g}. More series make it more certain."
        )
    return rule


def _within_mean_time(scores: Any, y: Any, lengths: Any, mean_time: float) -> SPRT:
    budget = check_real("mean_time", mean_time, 1, open_high=True)
    curve = sat_curve(scores, y, lengths)
    return SPRT(float(curve.thresholds[np.flatnonzero(curve.mean_time <= budget)[-1]]))


def _of_best_harmonic_mean(trials: Trials) -> SPRT:
    records = lead_records(trials.leads, trials.wrong, trials.forced_wrong, trials.lengths)
    n, length = len(trials.y), trials.lengths[records.series]
    wrong_first = int((records.wrong & (records.time == 1)).sum())
    wrong = records.totals(wrong_first, records.next_wrong.astype(np.int64) - records.wrong)  # (P,)
    seen = records.totals((1 / trials.lengths).sum(), (records.next_time - records.time) / length)
    accuracy, saved = 1 - wrong / n, np.maximum(1 - seen / n, 0)
    both = accuracy + saved
    mean = np.divide(2 * accuracy * saved, both, out=np.zeros_like(both), where=both > 0)
    return SPRT(float(records.thresholds[mean.argmax()]))


def loss_table(loss: Any, classes: Sequence[Any] | None, count: int) -> Any:
    """Return `loss` as one number or (K, K); convert a dict to a table in the order of `classes`."""
    if not isinstance(loss, Mapping):
        if classes is not None and np.ndim(loss):
            _check_positions(check_class_labels(classes, count))
        return loss
    if classes is None:
        raise ValueError(
            "`loss` as a dict {(true label, decided label): loss} needs `classes`, the labels in the order "
            "of the class indices."
        )
    labels = check_class_labels(classes, count)
    places = {label: k for k, label in enumerate(labels)}
    table = np.where(np.eye(len(labels), dtype=bool), 0.0, np.nan)
    for pair, value in loss.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(
                f"`loss` as a dict must have keys (true label, decided label); got the key {pair!r}."
            )
        unknown = [label for label in pair if label not in places]
        if unknown:
            raise ValueError(
                f"`loss` has the pair {pair!r}, but {unknown[0]!r} is not a class; the classes are "
                f"{', '.join(map(repr, labels))}."
            )
        table[places[pair[0]], places[pair[1]]] = check_real(f"loss[{pair!r}]", value, 0, open_high=True)
    missing = [(labels[true], labels[decided]) for true, decided in np.argwhere(np.isnan(table))]
    if missing:
        raise ValueError(
            "`loss` must contain every pair of different classes; missing: "
            f"{', '.join(map(repr, missing[:5]))}"
            f"{' and more' if len(missing) > 5 else ''}."
        )
    return table


def _check_positions(labels: list[Any]) -> None:
    """Raise an error if the position of a class in a table is not its label."""
    if labels != list(range(len(labels))):
        raise ValueError(
            "`loss` as a table is by position, which is clear only if the labels are 0 to K − 1; they are "
            f"{listed(labels)}. Name the losses by true and decided label: loss={{({labels[0]!r}, "
            f"{labels[1]!r}): 1, ...}}."
        )
