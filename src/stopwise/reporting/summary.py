"""The summary of the report in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stopwise.decision import Decisions
from stopwise.metrics import summarize
from stopwise.reporting.positions import common_threshold
from stopwise.reporting.promise import BROKEN, CHANCE_EXPLAINS, KEPT, Limit, as_text
from stopwise.reporting.wording import fixed, percent
from stopwise.rules import (
    Calibrated,
    FiniteHorizon,
    FixedTime,
    MaxProbability,
    Rule,
    SlopedProbability,
    Tapering,
)

MOST_PAIRS = 3
VERDICTS = {KEPT: "promise kept", CHANCE_EXPLAINS: "above, as by chance", BROKEN: "promise broken"}


class Tile(NamedTuple):
    """A number at the top of the page: what it is, the number, and a remark."""

    name: str
    value: str
    remark: str
    state: str = ""  # "good", "bad" or empty


def tiles(decisions: Decisions, y: np.ndarray, classes: int, promised: list[Limit] | None) -> list[Tile]:
    """Return the numbers at the top of the page.

    Parameters
    ----------
    decisions
        Decisions with class indices as labels.
    y
        (n,) true class indices.
    classes
        Number of classes K.
    promised
        The limits of the guarantee; None without one.
    """
    n, found = len(y), summarize(decisions, y, classes)
    wrong, forced = int((decisions.labels != y).sum()), int(decisions.forced.sum())
    return [
        Tile("Wrong decisions", percent(wrong / n), f"{wrong} of {n} series"),
        Tile(
            "Samples per decision",
            fixed(found["mean_time"]),
            f"on average, of {fixed(decisions.lengths.mean())}",
        ),
        Tile("Forced by the end", percent(forced / n), f"{forced} of {n} series ended undecided"),
        _promise_tile(promised),
    ]


def sentences(
    decisions: Decisions, at_end: np.ndarray, y: np.ndarray, names: Sequence[str], seen: int
) -> list[str]:
    """Return what happened, as sentences.

    Parameters
    ----------
    decisions
        Decisions with class indices as labels.
    at_end
        (n,) class indices that are decided at the end of each series.
    y
        (n,) true class indices.
    names
        Names of the K classes.
    seen
        Number of series that were used in training.

    Examples
    --------
    >>> decisions = Decisions(
    ...     labels=np.array([0, 1, 1]), times=np.array([1, 2, 3]), forced=np.array([False, False, True]),
    ...     scores=np.zeros((3, 2)), lengths=np.array([3, 3, 3]),
    ... )
    >>> for text in sentences(decisions, np.array([0, 1, 0]), np.array([0, 1, 0]), ["sit", "walk"], 0):
    ...     print(text)
    Of 3 series, 2 are decided correctly and 1 wrongly (33.3 %).
    A decision takes 2.0 of 3.0 samples on average, that is 67 % of a series. Waiting for the end of every
    series would give 0.0 % wrong decisions.
    1 series (33.3 %) ended before the rule stopped, so the decision was forced.
    Most often confused: sit taken for walk (once).
    """
    n = len(y)
    wrong, forced = int((decisions.labels != y).sum()), int(decisions.forced.sum())
    share = float((decisions.times / decisions.lengths).mean())
    found = [
        f"Of {n} series, {n - wrong} are decided correctly and {wrong} wrongly ({percent(wrong / n)}).",
        f"A decision takes {fixed(decisions.times.mean())} of {fixed(decisions.lengths.mean())} samples on "
        f"average, that is {percent(share, 0)} of a series. Waiting for the end of every series would give "
        f"{percent(float((at_end != y).mean()))} wrong decisions.",
        f"{forced} series ({percent(forced / n)}) ended before the rule stopped, so the decision was forced."
        if forced
        else "No decision was forced by the end of a series.",
        _confused(decisions.labels, y, names),
    ]
    if seen:
        found.append(
            f"Caution: {seen} of these {n} series were used in training. On new series, expect more errors."
        )
    return found


def promise_as_text(rule: Rule, promised: list[Limit] | None) -> list[str]:
    """Return the guarantee of a rule and what was observed, or that there is none."""
    if promised is None or not isinstance(rule, Calibrated):
        return ["No error rate is promised. Calibrate the classifier on fresh series to get a guarantee."]
    return [f"Promised: {rule.guarantee}", *as_text(promised, rule)]


def rule_name(rule: Rule) -> str:
    """Return the rule as text, without its guarantee and with short numbers."""
    if isinstance(rule, Calibrated):
        return f"{rule.without_guarantee()!r}, calibrated"
    if isinstance(rule, SlopedProbability):
        return f"SlopedProbability(level={rule.level:.4g}, slope={rule.slope:.4g}, horizon={rule.horizon})"
    return repr(rule)


def rule_as_text(rule: Rule, classes: int) -> str:
    """Return how a rule decides, as a sentence.

    Examples
    --------
    >>> from stopwise.rules import SPRT
    >>> rule_as_text(SPRT(2.5), 2)
    'The rule stops as soon as one class leads every other class by a log-likelihood ratio of 2.5.'
    """
    stops = "The rule stops as soon as"
    common = common_threshold(rule, classes)
    if common is not None:
        return f"{stops} one class leads every other class by a log-likelihood ratio of {common:.4g}."
    if isinstance(rule, SlopedProbability):
        change = "falls" if rule.slope < 0 else "rises"
        return f"{stops} a class is probable enough; the probability it needs {change} with time."
    if isinstance(rule, MaxProbability):
        return f"{stops} the probability of a class reaches {percent(rule.probability)}."
    if isinstance(rule, FixedTime):
        return f"The rule decides every series at step {rule.time}."
    if isinstance(rule, Tapering):
        return f"{stops} one class leads by a threshold that falls to 0 at step {rule.horizon}."
    if isinstance(rule, FiniteHorizon):
        return (
            f"{stops} waiting is expected to cost more than deciding ({rule.cost:.3g} per sample), and at "
            f"step {rule.horizon} at the latest."
        )
    return "The rule is not a common one; its settings are below."


def _promise_tile(promised: list[Limit] | None) -> Tile:
    if promised is None:
        return Tile("Promised error rate", "none", "the rule is not calibrated")
    order = [BROKEN, CHANCE_EXPLAINS, KEPT]
    measured = [limit for limit in promised if limit.verdict in order]
    if not measured:
        return Tile("Promised at most", f"{100 * promised[0].level:.3g} %", "too few series to compare")
    worst = min(measured, key=lambda limit: (order.index(limit.verdict), limit.level - (limit.observed or 0)))
    who = "" if worst.who is None else f" (class {worst.who})"
    state = {KEPT: "good", BROKEN: "bad"}.get(worst.verdict, "")
    value = f"{100 * worst.level:.3g} %"
    return Tile(
        "Promised at most",
        value,
        f"observed {percent(worst.observed or 0)}{who}: {VERDICTS[worst.verdict]}",
        state,
    )


def _confused(labels: np.ndarray, y: np.ndarray, names: Sequence[str]) -> str:
    pairs, counts = np.unique(np.stack([y, labels])[:, labels != y], axis=1, return_counts=True)
    if not len(counts):
        return "No class was taken for another."
    top = np.argsort(-counts, kind="stable")[:MOST_PAIRS]
    shown = [f"{names[pairs[0, i]]} taken for {names[pairs[1, i]]} ({_times(int(counts[i]))})" for i in top]
    return f"Most often confused: {', '.join(shown)}."


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count} times"
