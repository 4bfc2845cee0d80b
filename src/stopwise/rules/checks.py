"""Conformance checks of stopping rules; `stopwise.checks.yield_checks` yields the applicable ones."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from stopwise.rules.arrays import add_log_prior
from stopwise.rules.base import Rule

STEPS = 12


def applicable_checks(rule: Rule) -> list[Callable[[Rule], None]]:
    """Return the checks that apply to a rule."""
    checks: list[Callable[[Rule], None]] = [
        check_stepping_equals_deciding,
        check_accepting_equals_deciding,
        check_the_end_always_decides,
        check_later_scores_change_nothing_earlier,
        check_rows_are_independent,
        check_inputs_are_not_changed,
        check_copies_are_equal,
        check_saved_rule_is_equal,
        check_parameters,
        check_bound_prior,
    ]
    if _stricter(rule) is not None:
        checks.append(check_stricter_never_stops_earlier)
    if rule.bound_prior is None and not any(np.ndim(value) for value in rule.get_params().values()):
        checks.append(check_classes_can_be_permuted)
    return checks


def check_stepping_equals_deciding(rule: Rule) -> None:
    """Check that `step`, called sample by sample, makes the same decisions as `decide`."""
    scores, lengths = _series(rule)
    decisions = rule.decide(scores, lengths)
    for row, length in enumerate(lengths):
        answers = (rule.step(scores[row, t], t + 1, last=t == length - 1) for t in range(length))
        stepped = next((answer for answer in answers if answer is not None), None)
        assert stepped is not None, f"series {row}: step() returned no decision at the end of the series"
        decided = decisions[row]
        assert (stepped.label, stepped.time, stepped.forced) == (
            decided.label,
            decided.time,
            decided.forced,
        ), f"series {row}: step() returned {stepped}, decide() returned {decided}"
        assert np.array_equal(stepped.scores, decided.scores), (
            f"series {row}: the scores of the decisions differ"
        )


def check_accepting_equals_deciding(rule: Rule) -> None:
    """Check that `accept` accepts the same classes at the same steps as `decide`."""
    scores, lengths = _series(rule)
    decisions = rule.decide(scores, lengths)
    at_stop = rule.accept(scores[np.arange(len(scores)), decisions.times - 1], decisions.times)
    assert np.array_equal(at_stop, np.where(decisions.forced, -1, decisions.labels))
    later = decisions.times > 1
    before = decisions.times[later] - 1
    assert (rule.accept(scores[later, before - 1], before) == -1).all()
    at_first = rule.accept(scores[:, 0], 1)  # one time for all streams
    assert np.array_equal(at_first >= 0, (decisions.times == 1) & ~decisions.forced)


def check_the_end_always_decides(rule: Rule) -> None:
    """Check that every series is decided at one of its steps, and forced decisions at its last step."""
    scores, lengths = _series(rule)
    d = rule.decide(scores, lengths)
    assert ((d.times >= 1) & (d.times <= lengths)).all()
    assert ((d.labels >= 0) & (d.labels < scores.shape[2])).all()
    assert (d.times[d.forced] == lengths[d.forced]).all()


def check_later_scores_change_nothing_earlier(rule: Rule) -> None:
    """Check that scores after a decision do not change it."""
    scores, _ = _series(rule)
    before = rule.decide(scores)
    other = scores.copy()
    after = np.arange(scores.shape[1]) >= before.times[:, None]
    other[after] = -other[after] + 1
    check_same_decisions(rule.decide(other), before)


def check_rows_are_independent(rule: Rule) -> None:
    """Check that the decision on a series does not depend on the other series or on their order."""
    scores, lengths = _series(rule)
    whole = rule.decide(scores, lengths)
    permutation = np.random.default_rng(0).permutation(len(scores))
    for rows in (permutation[:17], permutation[:1]):
        part = rule.decide(scores[rows], lengths[rows])
        for name in ("labels", "times", "forced"):
            assert (getattr(part, name) == getattr(whole, name)[rows]).all(), name


def check_inputs_are_not_changed(rule: Rule) -> None:
    """Check that `decide` changes neither scores nor lengths."""
    scores, lengths = _series(rule)
    kept = scores.copy(), lengths.copy()
    rule.decide(scores, lengths)
    assert np.array_equal(scores, kept[0])
    assert np.array_equal(lengths, kept[1])


def check_copies_are_equal(rule: Rule) -> None:
    """Check that copies, clones and pickles are equal, decide the same and keep the bound prior."""
    for other in (copy.copy(rule), copy.deepcopy(rule), clone(rule), pickle.loads(pickle.dumps(rule))):
        _check_equal(other, rule)
        assert np.array_equal(other.bound_prior, rule.bound_prior)  # type: ignore[arg-type]


def check_saved_rule_is_equal(rule: Rule) -> None:
    """Check that a rule saved as JSON and loaded again is equal and makes the same decisions."""
    rule.check_saveable()
    restored = type(rule).from_dict(json.loads(json.dumps(rule.to_dict(), allow_nan=False)))
    if rule.bound_prior is not None:  # not a parameter, so it is not saved
        restored = restored.with_prior(rule.bound_prior)
    _check_equal(restored, rule)


def check_parameters(rule: Rule) -> None:
    """Check that `set_params` accepts what `get_params` returns, and raises for an unknown name."""
    other = clone(rule)
    assert other.set_params(**rule.get_params()) is other
    _check_equal(other, rule)
    _check_value_error(lambda: other.set_params(no_such_parameter=1), "an unknown parameter")


def check_bound_prior(rule: Rule) -> None:
    """Check that a bound prior either acts as a log prior added to the scores or has no effect."""
    scores, lengths = _series(rule)
    classes, before = scores.shape[2], rule.decide(scores, lengths)
    prior = np.arange(1, classes + 1) / (classes * (classes + 1) / 2)
    bound = rule.with_prior(prior)
    assert (bound, hash(bound), repr(bound)) == (rule, hash(rule), repr(rule))
    check_same_decisions(rule.decide(scores, lengths), before)  # the original rule is unchanged
    free = rule.with_prior(np.full(classes, 1 / classes))
    weighed, times = add_log_prior(scores, prior), np.arange(1, scores.shape[1] + 1)
    _check_one_of(
        "margins", bound.margins(scores, times), free.margins(scores, times), free.margins(weighed, times)
    )
    guesses = free.best_guess(weighed, times)
    if type(rule).best_guess is Rule.best_guess:
        assert np.array_equal(bound.best_guess(scores, times), guesses), (
            "forced decisions ignore the bound prior"
        )
    _check_one_of("best_guess", bound.best_guess(scores, times), free.best_guess(scores, times), guesses)
    check_stepping_equals_deciding(bound)
    check_accepting_equals_deciding(bound)
    wide = np.concatenate([scores, scores], axis=2)
    for call in (
        lambda: bound.decide(wide),
        lambda: bound.accept(wide[:, 0], 1),
        lambda: bound.step(wide[0, 0], 1),
    ):
        _check_value_error(call, "a prior for another number of classes")


def check_stricter_never_stops_earlier(rule: Rule) -> None:
    """Check that a higher threshold, probability or time never stops earlier."""
    stricter = _stricter(rule)
    assert stricter is not None, "the rule has no numeric parameter that makes it stricter"
    scores, lengths = _series(rule)
    assert (stricter.decide(scores, lengths).times >= rule.decide(scores, lengths).times).all()


def check_classes_can_be_permuted(rule: Rule) -> None:
    """Check that permuting the classes permutes the decisions, for rules that treat all classes the same."""
    scores, lengths = _series(rule)
    permutation = np.roll(np.arange(scores.shape[2]), 1)
    plain, permuted = rule.decide(scores, lengths), rule.decide(scores[..., permutation], lengths)
    assert (plain.times == permuted.times).all()
    assert (plain.labels == permutation[permuted.labels]).all()


def check_same_decisions(actual: Any, expected: Any) -> None:
    """Check that two sets of decisions have the same labels, times and forced flags."""
    for name in ("labels", "times", "forced"):
        assert (getattr(actual, name) == getattr(expected, name)).all(), name


def _check_equal(other: Rule, rule: Rule) -> None:
    assert other == rule
    assert hash(other) == hash(rule)
    scores, lengths = _series(rule)
    check_same_decisions(other.decide(scores, lengths), rule.decide(scores, lengths))


def _check_value_error(call: Callable[[], Any], what: str) -> None:
    try:
        call()
    except ValueError:
        return
    raise AssertionError(f"{what} must raise ValueError")


def _check_one_of(name: str, actual: np.ndarray, *allowed: np.ndarray) -> None:
    assert any(np.allclose(actual, one, rtol=1e-9, atol=1e-9) for one in allowed), (
        f"with a bound prior, `{name}` must use either the scores or the scores plus the log prior"
    )


def _series(rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Return random walks of scores (n, T, K) that drift towards one class, and unequal lengths (n,)."""
    sizes = [np.shape(value)[-1] for value in rule.get_params().values() if np.ndim(value)]
    if rule.bound_prior is not None:
        sizes = [len(rule.bound_prior)]
    n, classes = 60, (*sizes, 3)[0]
    rng = np.random.default_rng(0)
    increments = rng.standard_normal((n, STEPS, classes))
    increments[np.arange(n), :, rng.integers(0, classes, n)] += 0.7
    return increments.cumsum(1), rng.integers(1, STEPS + 1, n)


def _stricter(rule: Rule) -> Rule | None:
    """Return a stricter version of the rule, or None if no single parameter makes it stricter."""
    arguments = rule.get_params()
    higher: dict[str, Callable[[Any], Any]] = {
        "threshold": lambda a: 1.5 * a + 0.1,
        "error_rate": lambda alpha: alpha / 2,
        "probability": lambda p: (1 + p) / 2,
        "time": lambda t: t + 1,
    }
    for name, raised in higher.items():
        if np.asarray(arguments.get(name)).dtype.kind in "fiu":
            stricter = type(rule)(**{**arguments, name: raised(arguments[name])})
            return stricter if rule.bound_prior is None else stricter.with_prior(rule.bound_prior)
    return None
