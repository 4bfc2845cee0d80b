"""Conformance checks: what every early classifier and every stopping rule must keep to.

`yield_checks(thing)` hands out small named functions that raise an AssertionError where a promise is
broken. They are public: run them over a rule or a network of your own.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from stopwise import rules
from stopwise.datasets import gaussian
from stopwise.estimator import EarlyClassifier, load
from stopwise.rules import Rule

Check = tuple[str, Callable[[], None]]


def yield_checks(thing: EarlyClassifier | Rule) -> Iterator[Check]:
    """Yield (name, function) pairs; a function raises AssertionError where `thing` breaks a promise.

    Parameters
    ----------
    thing
        A stopping rule, or an `EarlyClassifier` (not necessarily fitted; its clone is fitted on a small set).

    Examples
    --------
    >>> import stopwise as sw
    >>> for name, check in yield_checks(sw.SPRT(3.0)):
    ...     check()
    """
    if isinstance(thing, Rule):
        checks: list[Callable[..., None]] = RULE_CHECKS
    elif isinstance(thing, EarlyClassifier):
        checks = ESTIMATOR_CHECKS
    else:
        raise TypeError(f"`thing` must be a stopping rule or an EarlyClassifier; got {type(thing).__name__}.")
    for check in checks:
        yield check.__name__.removeprefix("check_"), partial(check, thing)


def check_stepping_equals_deciding(rule: Rule) -> None:
    """A stream stepped sample by sample gets the decision of the whole array."""
    scores, lengths = _walks(rule)
    whole = rule.decide(scores, lengths)
    for row, length in enumerate(lengths):
        answers = (rule.step(scores[row, t], t + 1, last=t == length - 1) for t in range(length))
        decision = next(answer for answer in answers if answer is not None)
        expected = whole[row]
        assert (decision.label, decision.time, decision.forced) == (
            expected.label,
            expected.time,
            expected.forced,
        ), f"series {row}: stepped {decision}, decided {expected}"


def check_accepting_equals_stepping(rule: Rule) -> None:
    """Many streams asked at one moment answer as each alone."""
    scores, _ = _walks(rule)
    for time in (1, 2, scores.shape[1]):
        many = rule.accept(scores[:, time - 1], time)
        alone = [rule.step(row, time) for row in scores[:, time - 1]]
        assert many.tolist() == [-1 if one is None else one.label for one in alone]


def check_the_end_always_decides(rule: Rule) -> None:
    """Every series gets a class and a time inside it; only the last step can be forced."""
    scores, lengths = _walks(rule)
    d = rule.decide(scores, lengths)
    assert ((d.times >= 1) & (d.times <= lengths)).all()
    assert ((d.labels >= 0) & (d.labels < scores.shape[2])).all()
    assert (d.times[d.forced] == lengths[d.forced]).all()


def check_later_scores_change_nothing_earlier(rule: Rule) -> None:
    """What comes after a decision cannot change it."""
    scores, _ = _walks(rule)
    before = rule.decide(scores)
    other = scores.copy()
    after = np.arange(scores.shape[1]) >= before.times[:, None]
    other[after] = -other[after] + 1
    _same_decisions(rule.decide(other), before)


def check_rule_rows_are_independent(rule: Rule) -> None:
    """A series is decided alike alone, in any subset and in any order."""
    scores, lengths = _walks(rule)
    whole = rule.decide(scores, lengths)
    order = np.random.default_rng(0).permutation(len(scores))[:17]
    part = rule.decide(scores[order], lengths[order])
    for name in ("labels", "times", "forced"):
        assert (getattr(part, name) == getattr(whole, name)[order]).all(), name


def check_stricter_never_stops_earlier(rule: Rule) -> None:
    """A higher threshold, probability or time never stops earlier."""
    stricter = _stricter(rule)
    if stricter is None:
        return
    scores, lengths = _walks(rule)
    assert (stricter.decide(scores, lengths).times >= rule.decide(scores, lengths).times).all()


def check_rule_is_class_permutation_equivariant(rule: Rule) -> None:
    """Renaming the classes renames the decisions, where the rule treats classes alike."""
    if any(np.ndim(value) for value in rule._arguments().values()):
        return
    scores, lengths = _walks(rule)
    order = np.roll(np.arange(scores.shape[2]), 1)
    plain, permuted = rule.decide(scores, lengths), rule.decide(scores[..., order], lengths)
    assert (plain.times == permuted.times).all()
    assert (plain.labels == order[permuted.labels]).all()


def check_rule_leaves_inputs_alone(rule: Rule) -> None:
    """Deciding changes neither scores nor lengths."""
    scores, lengths = _walks(rule)
    kept = scores.copy(), lengths.copy()
    rule.decide(scores, lengths)
    assert (scores == kept[0]).all()
    assert (lengths == kept[1]).all()


def check_rule_round_trips(rule: Rule) -> None:
    """Copies, pickles and saved rules are equal and decide alike."""
    scores, lengths = _walks(rule)
    before = rule.decide(scores, lengths)
    for other in (copy.deepcopy(rule), pickle.loads(pickle.dumps(rule)), rules.from_dict(rule.to_dict())):
        assert other == rule
        _same_decisions(other.decide(scores, lengths), before)


def check_prefix_causality(estimator: EarlyClassifier) -> None:
    """Later samples never change earlier scores."""
    clf, X, _ = _fitted(estimator)
    whole = clf.scores(X)
    for t in (1, 2, X.shape[1] // 2):
        changed = X.copy()
        changed[:, t:] = 100 - changed[:, t:]
        _close(clf.scores(changed)[:, :t], whole[:, :t], "changed future")
        _close(clf.scores(X[:, :t]), whole[:, :t], "no future")


def check_rows_are_independent(estimator: EarlyClassifier) -> None:
    """A series has the same scores alone, in any subset, in any order, and among longer ones."""
    clf, X, _ = _fitted(estimator)
    whole = clf.scores(X)
    order = np.random.default_rng(0).permutation(len(X))[:11]
    _close(clf.scores(X[order]), whole[order], "subset")
    _close(clf.scores(X[3:4]), whole[3:4], "alone")
    unequal = clf.scores([X[0], X[1, :3], X[2, :5]])
    _close(unequal[1, :3], whole[1, :3], "among longer ones")
    assert np.isnan(unequal[1, 3:]).all(), "scores past a series' end must be NaN"


def check_inputs_are_left_alone(estimator: EarlyClassifier) -> None:
    """Fitting and scoring change neither series nor labels, nor torch's global random state."""
    X, y = _data(estimator)
    kept, state = (X.copy(), y.copy()), torch.random.get_rng_state()
    clf = clone(estimator).fit(X, y)
    clf.decide(X)
    assert np.array_equal(X, kept[0], equal_nan=True)
    assert np.array_equal(y, kept[1])
    assert torch.equal(torch.random.get_rng_state(), state), "torch's random state was changed"


def check_the_same_seed_gives_the_same_result(estimator: EarlyClassifier) -> None:
    """Fitting a clone, or fitting again, gives the same scores to the bit."""
    clf, X, y = _fitted(estimator)
    first = clf.scores(X)
    assert np.array_equal(clone(clf).fit(X, y).scores(X), first), "clone"
    assert np.array_equal(clf.fit(X, y).scores(X), first), "second fit"


def check_labels_of_any_type(estimator: EarlyClassifier) -> None:
    """Labels are names only: renaming them in the same order changes no score."""
    clf, X, y = _fitted(estimator)
    names = np.array(["ash", "birch", "cedar"])
    named = clone(clf).fit(X, names[y])
    assert np.array_equal(named.scores(X), clf.scores(X))
    assert (named.predict(X) == names[clf.predict(X)]).all()


def check_decisions_follow_the_rule(estimator: EarlyClassifier) -> None:
    """`decide` is the rule on the scores; `predict` and `predict_proba` agree with it."""
    clf, X, _ = _fitted(estimator)
    d, expected = clf.decide(X), clf.rule_.with_prior(clf.prior_).decide(clf.scores(X))
    assert (d.times == expected.times).all()
    assert (d.labels == clf.classes_[expected.labels]).all()
    assert (clf.predict(X) == d.labels).all()
    probability = clf.predict_proba(X)
    assert np.allclose(probability.sum(1), 1)


def check_streams_equal_whole_series(estimator: EarlyClassifier) -> None:
    """A series fed sample by sample has the scores and the decision it has as a whole."""
    clf, X, _ = _fitted(estimator)
    whole, decisions = clf.scores(X), clf.decide(X)
    for row in range(5):
        stream = clf.stream()
        for t, x in enumerate(X[row]):
            decision = stream.update(x)
            _close(stream.scores, whole[row, t], f"stream, step {t + 1}")
            if decision is not None:
                break
        decision = stream.finish()
        assert decision.time == decisions[row].time
        assert decision.label == decisions[row].label


def check_save_and_pickle_round_trip(estimator: EarlyClassifier) -> None:
    """A model saved and loaded, or pickled, gives the same scores and decisions to the bit."""
    clf, X, _ = _fitted(estimator)
    with tempfile.TemporaryDirectory() as folder:
        clf.save(folder)
        loaded = load(folder, model=clf.model if clf.model_.name is None else None)
    for other in (loaded, pickle.loads(pickle.dumps(clf))):
        assert np.array_equal(other.scores(X), clf.scores(X))
        _same_decisions(other.decide(X), clf.decide(X))


RULE_CHECKS = [
    check_stepping_equals_deciding,
    check_accepting_equals_stepping,
    check_the_end_always_decides,
    check_later_scores_change_nothing_earlier,
    check_rule_rows_are_independent,
    check_stricter_never_stops_earlier,
    check_rule_is_class_permutation_equivariant,
    check_rule_leaves_inputs_alone,
    check_rule_round_trips,
]

ESTIMATOR_CHECKS = [
    check_prefix_causality,
    check_rows_are_independent,
    check_inputs_are_left_alone,
    check_the_same_seed_gives_the_same_result,
    check_labels_of_any_type,
    check_decisions_follow_the_rule,
    check_streams_equal_whole_series,
    check_save_and_pickle_round_trip,
]


def _walks(rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Random walks of scores (n, T, K) with drift towards one class, and unequal lengths."""
    classes = next((np.shape(value)[-1] for value in rule._arguments().values() if np.ndim(value)), 3)
    rng = np.random.default_rng(0)
    n, steps = 60, 12
    steps_of_evidence = rng.standard_normal((n, steps, classes))
    steps_of_evidence[np.arange(n), :, rng.integers(0, classes, n)] += 0.7
    return steps_of_evidence.cumsum(1), rng.integers(1, steps + 1, n)


def _stricter(rule: Rule) -> Rule | None:
    """Return the same rule with a higher bar, or None where it has no single one."""
    arguments = rule._arguments()
    higher: dict[str, Callable[[Any], Any]] = {
        "threshold": lambda a: 1.5 * a + 0.1,
        "error_rate": lambda alpha: alpha / 2,
        "probability": lambda p: (1 + p) / 2,
        "time": lambda t: t + 1,
    }
    for name, raised in higher.items():
        if arguments.get(name) is not None:
            return type(rule)(**{**arguments, name: raised(arguments[name])})
    return None


def _data(estimator: EarlyClassifier) -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = gaussian(n=45, classes=3, offset=1.5, dim=3, length=7, seed=0)
    if estimator.missing == "mask":
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    return X, y


def _fitted(estimator: EarlyClassifier) -> tuple[EarlyClassifier, np.ndarray, np.ndarray]:
    X, y = _data(estimator)
    return clone(estimator).fit(X, y), X, y


def _close(actual: np.ndarray, expected: np.ndarray, what: str) -> None:
    size = np.abs(expected).max() + 1e-3
    gap = np.abs(actual - expected).max()
    assert gap <= 1e-5 * size, f"{what}: scores differ by {gap:.3g} where they reach {size:.3g}"


def _same_decisions(actual: Any, expected: Any) -> None:
    for name in ("labels", "times", "forced"):
        assert (getattr(actual, name) == getattr(expected, name)).all(), name
