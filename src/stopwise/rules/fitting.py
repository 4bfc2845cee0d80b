"""Rules fitted to a goal on labeled series: least cost, a mean stopping time, or the harmonic mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stopwise.metrics import sat_curve
from stopwise.metrics.records import lead_records
from stopwise.rules.arrays import check_class_labels, check_prior
from stopwise.rules.base import Rule
from stopwise.rules.calibration.trials import Trials
from stopwise.rules.finite_horizon.rule import FiniteHorizon
from stopwise.rules.sprt import SPRT
from stopwise.validation import check_choice, check_real

OBJECTIVES = ("harmonic_mean",)


def fit_rule(
    scores: Any,
    y: Any,
    lengths: Any = None,
    *,
    cost: float | None = None,
    mean_time: float | None = None,
    objective: str | None = None,
    loss: Any = None,
    prior: Any = None,
    classes: Sequence[Any] | None = None,
) -> Rule:
    """Return the rule that is best for a goal on these series; it carries no guarantee.

    Exactly one of `cost`, `mean_time` and `objective` is the goal. The scores should come from series that
    the model was not trained on: on its own training series a model looks better than it is.

    Parameters
    ----------
    scores
        (n, T, K) scores of every prefix.
    y
        (n,) true class indices.
    lengths
        (n,) lengths of the series; None means all have T steps.
    cost
        The cost of one sample, in the units of `loss`: the rule is the `FiniteHorizon` of least cost.
    mean_time
        The mean stopping time allowed, in samples: the rule is the `SPRT` with the highest threshold that
        keeps it.
    objective
        "harmonic_mean": the rule is the `SPRT` with the threshold that maximises the harmonic mean of
        accuracy and 1 − earliness, where earliness is the mean of time ÷ length.
    loss
        With `cost`: the loss of a wrong decision, 1 by default; or (K, K) losses by true class (row) and
        decided class (column); or, with `classes`, a dict {(true label, decided label): loss} of all pairs
        of different classes.
    prior
        (K,) shares of the classes where the rule is used; None: equal shares. The returned rule is bound to
        it; see `Rule.with_prior`.
    classes
        (K,) labels of the classes, in the order of the class indices.

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
            "a rule is fitted to exactly one of `cost`, `mean_time` and `objective`; got "
            f"{' and '.join(f'`{name}`' for name in given) or 'none'}."
        )
    if loss is not None and cost is None:
        raise ValueError(
            f"`loss` is weighed against `cost`; `{given[0]}` does not use it. Leave out `loss`, or give "
            f"`cost` instead of `{given[0]}`."
        )
    shares = None if prior is None else check_prior(prior)
    rule: Rule
    if cost is not None:
        scores = np.asarray(scores)
        table = 1.0 if loss is None else _loss_table(loss, classes, scores.shape[-1] if scores.ndim else 0)
        rule = FiniteHorizon.fit(scores, y, lengths, cost=cost, loss=table, prior=shares)
    elif mean_time is not None:
        rule = _within_mean_time(scores, y, lengths, mean_time)
    else:
        check_choice("objective", objective, OBJECTIVES)
        rule = _of_best_harmonic_mean(Trials.of(scores, y, lengths, shares))
    return rule if shares is None else rule.with_prior(shares)


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


def _loss_table(loss: Any, classes: Sequence[Any] | None, count: int) -> Any:
    """Return `loss` as one number or (K, K); a dict becomes a table in the order of `classes`."""
    if not isinstance(loss, Mapping):
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
            f"`loss` must have every pair of different classes; missing: {', '.join(map(repr, missing[:5]))}"
            f"{' and more' if len(missing) > 5 else ''}."
        )
    return table
