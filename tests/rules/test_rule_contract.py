"""What holds for every rule: three ways to decide agree, and a rule can be copied, shown and saved."""

import copy
import json
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from stopwise import rules
from stopwise.rules import (
    SPRT,
    Calibrated,
    FiniteHorizon,
    FixedTime,
    Guarantee,
    MaxProbability,
    Rule,
    Tapering,
    base,
)

PROMISE = Guarantee("error_rate", 0.05, 0.95, series=100, observed=0.01, mean_time=3.5, mean_length=8)
PROMISE_BY_CLASS = Guarantee(
    "accuracy_gap", (0.1, None, 0.2), 0.9, 50, (0.0, None, 0.1), 2.0, 8.0, classes=("a", "b", "c")
)


def for_a_deadline():
    rng = np.random.default_rng(5)
    y = np.arange(150) % 3
    evidence = rng.normal(size=(150, 6, 3))
    evidence[np.arange(150), :, y] += 0.7
    return FiniteHorizon.fit(evidence.cumsum(1), y, cost=0.02)  # a deadline before the series' end


RULES = [
    SPRT(1.5),
    SPRT(np.inf),
    SPRT([0.5, 2.0, np.inf]),
    SPRT([[0.0, 1.0, 2.0], [0.5, 0.0, 0.5], [3.0, np.inf, 0.0]]),
    SPRT(np.linspace(3, 0, 8), per_step=True),
    SPRT(np.linspace(3, 0, 24).reshape(8, 3), per_step=True),
    SPRT(np.linspace(3, 0, 72).reshape(8, 3, 3), per_step=True),
    SPRT(error_rate=0.2),
    SPRT(error_rate=[0.1, 0.3, 0.2]),
    Tapering(3.0, 8, kappa=0.5),
    FixedTime(3),
    MaxProbability(0.8),
    MaxProbability(0.8, prior=[0.2, 0.3, 0.5]),
    Calibrated(1.5, PROMISE),
    Calibrated([0.5, 2.0, np.inf], PROMISE_BY_CLASS),
    Calibrated(np.linspace(3, 0, 5), PROMISE, per_step=True),  # shorter than the series
    for_a_deadline(),
]
by_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: repr(rule)[:40])


def series(n=40):
    rng = np.random.default_rng(11)
    scores = rng.normal(size=(n, 8, 3)).cumsum(1)
    lengths = rng.integers(1, 9, size=n)
    scores[np.arange(8) >= lengths[:, None]] = np.nan
    return scores, lengths


def same(a, b):
    return all(np.array_equal(getattr(a, f), getattr(b, f)) for f in ("labels", "times", "forced", "scores"))


@by_rule
def test_whole_series_and_sample_by_sample_agree(rule):
    scores, lengths = series()
    decisions = rule.decide(scores, lengths)
    for i, length in enumerate(lengths):
        for t in range(1, length + 1):
            answer = rule.step(scores[i, t - 1], t, last=t == length)
            if answer is not None:
                break
        assert (answer.label, answer.time, answer.forced) == (
            decisions.labels[i],
            decisions.times[i],
            decisions.forced[i],
        )
        assert np.array_equal(answer.scores, decisions.scores[i])


@by_rule
def test_many_streams_at_different_moments_agree(rule):
    scores, lengths = series()
    decisions = rule.decide(scores, lengths)
    stopped = np.where(decisions.forced, lengths, decisions.times)
    at_stop = rule.accept(scores[np.arange(len(scores)), stopped - 1], stopped)
    assert np.array_equal(at_stop, np.where(decisions.forced, -1, decisions.labels))
    later = decisions.times > 1
    before = decisions.times[later] - 1
    assert (rule.accept(scores[later, before - 1], before) == -1).all()
    first = rule.accept(scores[:, 0], 1)
    assert np.array_equal(first >= 0, (decisions.times == 1) & ~decisions.forced)


@by_rule
def test_shifting_all_scores_of_a_step_changes_nothing(rule):
    scores, lengths = series()
    shift = 8.0 * np.random.default_rng(0).integers(-4, 5, size=(len(scores), 8, 1))
    a, b = rule.decide(scores, lengths), rule.decide(scores + shift, lengths)
    assert np.array_equal(a.labels, b.labels)
    assert np.array_equal(a.times, b.times)


@by_rule
def test_input_is_left_alone_and_chunks_do_not_matter(rule, monkeypatch):
    scores, lengths = series()
    before = scores.copy()
    whole = rule.decide(scores, lengths)
    monkeypatch.setattr(base, "CHUNK_NUMBERS", 70)
    assert same(rule.decide(scores, lengths), whole)
    assert np.array_equal(scores, before, equal_nan=True)


@by_rule
def test_copies_are_equal_and_decide_the_same(rule):
    scores, lengths = series()
    expected = rule.decide(scores, lengths)
    copies = [
        copy.deepcopy(rule),
        pickle.loads(pickle.dumps(rule)),
        *([] if isinstance(rule, FiniteHorizon) else [eval(repr(rule))]),  # its tables are not shown
        rules.from_dict(json.loads(json.dumps(rule.to_dict(), allow_nan=False))),
        type(rule).from_dict(rule.to_dict()),
    ]
    for other in copies:
        assert other == rule
        assert hash(other) == hash(rule)
        assert same(other.decide(scores, lengths), expected)


def test_different_rules_differ():
    assert len({*RULES}) == len(RULES)
    assert all((a == b) == (i == j) for i, a in enumerate(RULES) for j, b in enumerate(RULES))
    assert SPRT(1.5) != "SPRT(threshold=1.5)"


def test_arrays_are_copied_and_frozen():
    table = np.array([1.0, 2.0])
    rule = SPRT(table)
    table[0] = 9.0
    assert rule.threshold[0] == 1.0
    for one in (rule, copy.deepcopy(rule), pickle.loads(pickle.dumps(rule))):
        with pytest.raises(ValueError, match="read-only"):
            one.threshold[0] = 5.0


def test_an_estimator_that_holds_a_rule_can_be_cloned():
    class Holder(BaseEstimator):
        def __init__(self, rule=None):
            self.rule = rule

    original = Holder(SPRT([1.0, 2.0]))
    cloned = clone(original)
    assert cloned.rule == original.rule
    assert cloned.rule is not original.rule


def test_repr_is_short():
    assert repr(SPRT(2.5)) == "SPRT(threshold=2.5)"
    assert repr(SPRT(np.inf)) == "SPRT(threshold=float('inf'))"
    assert repr(SPRT(error_rate=0.01)) == "SPRT(error_rate=0.01)"
    assert repr(Tapering(3.0, 8)) == "Tapering(threshold=3.0, horizon=8)"
    assert len(repr(SPRT(np.ones((50, 9, 9)), per_step=True))) < 80


def test_to_dict_is_plain():
    assert SPRT([1.0, np.inf]).to_dict() == {
        "rule": "SPRT",
        "threshold": [1.0, "inf"],
        "error_rate": None,
        "per_step": False,
    }


def test_decision_does_not_share_the_callers_buffer():
    buffer = np.array([3.0, 0.0])
    decision = SPRT(1.0).step(buffer, 1)
    buffer[:] = -1
    assert decision.scores.tolist() == [3.0, 0.0]


def test_no_series_no_decisions():
    assert len(SPRT(1.0).decide(np.empty((0, 5, 3)))) == 0


def test_every_public_rule_is_walked_here():
    public = {getattr(rules, name) for name in rules.__all__ if name[0].isupper()} - {Rule}
    assert {type(rule) for rule in RULES} == {one for one in public if issubclass(one, Rule)}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: rules.from_dict({"rule": "SPTR"}),
            ValueError,
            "`rule` must be one of .* Did you mean 'SPRT'",
        ),
        (lambda: rules.from_dict({"threshold": 1.0}), ValueError, "`rule` must be one of .*got None"),
        (lambda: rules.from_dict([1]), TypeError, r"`values` must be a dict, as rule.to_dict\(\) returns"),
        (lambda: rules.from_dict({"rule": "FixedTime"}), ValueError, "unknown: none, missing: time"),
        (
            lambda: rules.from_dict({"rule": "FixedTime", "time": 1, "tme": 2}),
            ValueError,
            "arguments of FixedTime: time; unknown: tme, missing: none",
        ),
        (lambda: rules.from_dict({"rule": "FixedTime", "time": "inf"}), TypeError, "`time` must be a whole"),
        (lambda: SPRT.from_dict({"rule": "FixedTime", "time": 1}), ValueError, "with rule='SPRT'"),
        (lambda: SPRT(1.0).decide(np.zeros((5, 3))), ValueError, r"`scores` must have shape \(n, T, K\)"),
        (lambda: SPRT(1.0).decide(np.full((1, 2, 2), np.nan)), ValueError, "`scores` must be finite inside"),
        (lambda: SPRT(1.0).decide(np.zeros((1, 2, 2)), [3]), ValueError, r"`lengths` must be in \[1, 2\]"),
        (lambda: SPRT(1.0).step([1.0, np.nan], 1), ValueError, "`scores` must be finite"),
        (lambda: SPRT(1.0).step([[1.0, 0.0]], 1), ValueError, r"shape \(K,\).*got shape \(1, 2\).*accept"),
        (lambda: SPRT(1.0).step([1.0, 0.0], 0), ValueError, "`time` must be >= 1; got 0"),
        (lambda: SPRT(1.0).accept([1.0, 0.0], 1), ValueError, r"shape \(n, K\).*got shape \(2,\).*step"),
        (lambda: SPRT(1.0).accept([[1.0, 0.0]], [1, 2]), ValueError, r"shape \(1,\), one per stream"),
        (lambda: SPRT(1.0).accept([[1.0, 0.0]], 0), ValueError, "`times` count samples from 1; got 0"),
        (lambda: SPRT(1.0).accept([[1.0, 0.0]], 1.5), TypeError, "`times` must be whole numbers"),
    ],
)
def test_wrong_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()
