"""The base class `Rule`: decisions on arrays and streams, bound priors, and argument validation."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from stopwise.rules import SPRT, FiniteHorizon, FixedTime, MaxProbability, Rule, Tapering, base, calibrate

PRIOR = np.array([0.05, 0.15, 0.8])


class Lead(Rule):
    """A custom rule that implements only `margins`."""

    def __init__(self, lead=1.0):
        self.lead = lead

    def margins(self, scores, times):
        return scores - scores.mean(-1, keepdims=True) - self.lead


def same(a, b):
    return all(np.array_equal(getattr(a, f), getattr(b, f)) for f in ("labels", "times", "forced", "scores"))


def test_adding_a_constant_to_all_scores_of_a_step_does_not_change_decisions(any_rule):
    rng = np.random.default_rng(0)
    classes = 2 if "2 classes" in repr(any_rule) or any_rule == SPRT.wald(0.05, 0.1) else 3
    scores = rng.normal(size=(40, 12, classes)).cumsum(1)
    lengths = rng.integers(1, 13, size=40)
    shift = 8.0 * rng.integers(-4, 5, size=(40, 12, 1))
    a, b = any_rule.decide(scores, lengths), any_rule.decide(scores + shift, lengths)
    assert np.array_equal(a.labels, b.labels)
    assert np.array_equal(a.times, b.times)


def test_chunk_size_and_padding_do_not_change_decisions(series, monkeypatch):
    scores, lengths = series  # NaN past the end
    for rule in (SPRT(2.0), MaxProbability(0.8).with_prior(PRIOR), Lead(2.0)):
        whole = rule.decide(scores, lengths)
        assert same(rule.decide(np.nan_to_num(scores), lengths), whole)
        monkeypatch.setattr(base, "CHUNK_NUMBERS", 70)
        assert same(rule.decide(scores, lengths), whole)
        monkeypatch.undo()


def test_decision_copies_the_scores():
    buffer = np.array([3.0, 0.0])
    decision = SPRT(1.0).step(buffer, 1)
    buffer[:] = -1
    assert decision.scores.tolist() == [3.0, 0.0]


def test_no_series_give_no_decisions():
    assert len(SPRT(1.0).decide(np.empty((0, 5, 3)))) == 0


def slow_forced(scores, lengths, prior):
    """Return the class with the highest S + log prior at the end of each series, by plain loops."""
    answers = []
    for series, length in zip(scores.tolist(), lengths.tolist()):
        weighed = [s + float(np.log(p)) for s, p in zip(series[length - 1], prior)]
        answers.append(weighed.index(max(weighed)))
    return answers


@pytest.mark.parametrize("rule", [SPRT(np.inf), Tapering(99.0, 999), FixedTime(99), Lead(1e9)], ids=repr)
def test_forced_decisions_take_the_highest_posterior(rule, series):
    scores, lengths = series
    decisions = rule.with_prior(PRIOR).decide(scores, lengths)
    assert decisions.forced.all()
    assert decisions.labels.tolist() == slow_forced(scores, lengths, PRIOR)
    assert decisions.labels.tolist() != rule.decide(scores, lengths).labels.tolist()


def test_fixed_time_decides_by_the_posterior(series):
    scores, _ = series
    scores = np.nan_to_num(scores)
    decisions = FixedTime(3).with_prior(PRIOR).decide(scores)
    assert not decisions.forced.any()
    assert decisions.labels.tolist() == slow_forced(scores, np.full(40, 3), PRIOR)


def test_max_probability_uses_the_bound_prior_only_without_a_prior_parameter(series):
    own = MaxProbability(0.9, prior=[0.6, 0.3, 0.1])
    bound = MaxProbability(0.9).with_prior(PRIOR)
    assert same(bound.decide(*series), MaxProbability(0.9, prior=PRIOR).decide(*series))
    assert same(own.with_prior(PRIOR).decide(*series), own.decide(*series))
    assert not same(bound.decide(*series), MaxProbability(0.9).decide(*series))


@pytest.mark.parametrize(
    "rule", [SPRT(2.0), SPRT([1.0, 2.0, 3.0]), SPRT(error_rate=0.1), Tapering(4.0, 12)], ids=repr
)
def test_acceptance_by_llr_does_not_depend_on_a_prior(rule, series):
    scores = np.nan_to_num(series[0])
    times = np.arange(1, 13)
    bound = rule.with_prior(PRIOR)
    assert np.array_equal(bound.margins(scores, times), rule.margins(scores, times))
    assert np.array_equal(bound.accept(scores[:, 5], 6), rule.accept(scores[:, 5], 6))


def test_finite_horizon_ignores_a_bound_prior():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    scores = (rng.normal(size=(90, 6, 3)) + 0.7 * np.eye(3)[y][:, None]).cumsum(1)
    lengths = rng.integers(1, 7, 90)
    rule = FiniteHorizon.fit(scores, y, cost=0.01)
    assert same(rule.with_prior(PRIOR).decide(scores, lengths), rule.decide(scores, lengths))


def test_calibrated_rules_accept_by_llr(series):
    scores, lengths = series
    y = np.arange(40) % 3
    rule = calibrate(scores, y, lengths, error_rate=0.95)
    bound = rule.with_prior(PRIOR)
    margins = (one.margins(np.nan_to_num(scores), np.arange(1, 13)) for one in (rule, bound))
    assert np.array_equal(*margins)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forced_decisions_of_streams_equal_those_of_complete_series(dtype):
    """Also if the prior makes two posteriors equal up to rounding."""
    prior = [0.25, 0.75]
    scores = np.array([[[np.log(3), 0.0]], [[np.log(3) + 1e-7, 0.0]], [[1.0, 0.0]]], dtype=dtype)
    rule = SPRT(9.0).with_prior(prior)
    whole = rule.decide(scores).labels.tolist()
    assert [rule.step(row[0], 1, last=True).label for row in scores] == whole


def test_with_prior_returns_an_equal_copy():
    rule = SPRT([1.0, 2.0, 3.0])
    bound = rule.with_prior(PRIOR.tolist())
    assert rule.bound_prior is None
    assert np.array_equal(bound.bound_prior, PRIOR)
    assert bound == rule
    assert hash(bound) == hash(rule)
    assert repr(bound) == repr(rule)
    assert bound.to_dict() == rule.to_dict()
    assert bound.get_params().keys() == rule.get_params().keys()
    assert np.array_equal(bound.with_prior([0.2, 0.2, 0.6]).bound_prior, [0.2, 0.2, 0.6])


def test_copies_keep_the_bound_prior_and_it_is_read_only():
    bound = Lead(3.0).with_prior(PRIOR)
    for other in (copy.copy(bound), copy.deepcopy(bound), clone(bound), pickle.loads(pickle.dumps(bound))):
        assert np.array_equal(other.bound_prior, PRIOR)
        with pytest.raises(ValueError, match="read-only"):
            other.bound_prior[0] = 1.0
    assert np.array_equal(bound.set_params(lead=2.0).bound_prior, PRIOR)
    assert Lead.from_dict(bound.to_dict()).bound_prior is None


def test_with_prior_does_not_freeze_arrays_of_the_caller():
    table = np.ones(3)
    Lead(table).with_prior(PRIOR)
    table[0] = 2.0  # still writeable


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([0.5, 0.6], "`prior` must be positive and sum to 1; got .* with sum 1.1"),
        ([1.0, 0.0], "`prior` must be positive"),
        (0.5, r"`prior` must have shape \(K,\) with K >= 2; got shape \(\)"),
    ],
)
def test_invalid_priors_raise(prior, message):
    with pytest.raises(ValueError, match=message):
        SPRT(1.0).with_prior(prior)


@pytest.mark.parametrize(
    "decide",
    [
        lambda rule: rule.decide(np.zeros((1, 2, 2))),
        lambda rule: rule.accept(np.zeros((1, 2)), 1),
        lambda rule: rule.step(np.zeros(2), 1),
    ],
    ids=["decide", "accept", "step"],
)
@pytest.mark.parametrize("rule", [SPRT(0.0), FixedTime(1), MaxProbability(0.1), Lead()], ids=repr)
def test_prior_for_another_number_of_classes_raises(rule, decide):
    with pytest.raises(
        ValueError, match=r"`prior` is for 3 classes; the scores have 2\. Give one probability"
    ):
        decide(rule.with_prior(PRIOR))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SPRT(1.0).decide(np.zeros((5, 3))), ValueError, r"`scores` must have shape \(n, T, K\)"),
        (
            lambda: SPRT(1.0).decide(np.full((1, 2, 2), np.nan)),
            ValueError,
            "`scores` must be finite up to the end",
        ),
        (lambda: SPRT(1.0).decide(np.zeros((1, 2, 2)), [3]), ValueError, r"`lengths` must be in \[1, 2\]"),
        (lambda: SPRT(1.0).step([1.0, np.nan], 1), ValueError, "`scores` must be finite"),
        (lambda: SPRT(1.0).step([[1.0, 0.0]], 1), ValueError, r"shape \(K,\).*got shape \(1, 2\).*accept"),
        (lambda: SPRT(1.0).step([1.0, 0.0], 0), ValueError, "`time` must be >= 1; got 0"),
        (lambda: SPRT(1.0).accept([1.0, 0.0], 1), ValueError, r"shape \(n, K\).*got shape \(2,\).*step"),
        (lambda: SPRT(1.0).accept([[1.0, 0.0]], [1, 2]), ValueError, r"shape \(1,\), one per stream"),
        (
            lambda: SPRT(1.0).accept([[1.0, 0.0]], 0),
            ValueError,
            "`times` must be >= 1, because samples are counted from 1; got 0",
        ),
        (lambda: SPRT(1.0).accept([[1.0, 0.0]], 1.5), TypeError, "`times` must be integers; got dtype float"),
    ],
)
def test_invalid_arguments_raise(call, error, message):
    with pytest.raises(error, match=message):
        call()
