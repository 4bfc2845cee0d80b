"""Calibration against plain twins: rules run one threshold at a time, tests written out in words."""

import copy
import json
import pickle

import numpy as np
import pytest
from scipy.stats import binom

import stopwise as sw
from stopwise import rules
from stopwise.rules import SPRT, Calibrated, Guarantee, NoThresholdError, calibrate, observed_rate
from stopwise.rules.calibration.conditional import _test, conditional_thresholds
from stopwise.rules.calibration.learn_then_test import last_accepted, series_needed
from stopwise.rules.calibration.trials import CANDIDATES, Trials, stopping_steps, totals_by_candidate


def walks(n=120, steps=9, classes=3, seed=0, ragged=True, digits=None):
    """Scores with drift to the true class; rounded to few digits they have ties."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    evidence = rng.normal(size=(n, steps, classes))
    evidence[np.arange(n), :, y] += 0.8
    scores = evidence.cumsum(1)
    if digits is not None:
        scores = scores.round(digits)
    lengths = rng.integers(1, steps + 1, n) if ragged else np.full(n, steps)
    scores[np.arange(steps) >= lengths[:, None]] = np.nan
    return scores, y, lengths


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("digits", [None, 0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_totals_of_all_candidates_equal_the_rule_run_at_each(classes, digits, dtype):
    scores, y, lengths = walks(classes=classes, digits=digits)
    scores = scores.astype(dtype)
    trials = Trials.of(scores, y, lengths)
    errors = totals_by_candidate(trials, trials.wrong, y, classes)
    gaps = totals_by_candidate(trials, trials.gap(), y, classes)
    times = totals_by_candidate(trials, trials.times(), np.zeros_like(y), 1)[0]
    final = SPRT(np.inf).decide(scores, lengths).labels == y
    for j in [*range(0, len(CANDIDATES), 23), len(CANDIDATES) - 2, len(CANDIDATES) - 1]:
        d = SPRT(CANDIDATES[j]).decide(scores, lengths)
        wrong = d.labels != y
        assert errors[:, j].tolist() == np.bincount(y[wrong], minlength=classes).tolist()
        assert gaps[:, j].tolist() == np.bincount(y[wrong & final], minlength=classes).tolist()
        assert times[j] == d.times.sum()
        assert (stopping_steps(trials, np.full(9, CANDIDATES[j])) + 1 == d.times).all()


def test_whole_nats_on_a_candidate_are_reached():
    scores = np.array([[[0.0, 1.0], [0.0, 2.0], [0.0, 4.0]]])  # 1, 2 and 4 are candidates
    trials = Trials.of(scores, [1])
    times = totals_by_candidate(trials, trials.times(), np.zeros(1, int), 1)[0]
    found = {a: times[np.flatnonzero(a == CANDIDATES)[0]] for a in (0.0, 1.0, 2.0, 4.0, 8.0, np.inf)}
    assert found == {0.0: 1, 1.0: 1, 2.0: 2, 4.0: 3, 8.0: 3, np.inf: 3}


def test_candidates_go_from_waiting_to_the_first_sample():
    assert CANDIDATES[0] == np.inf
    assert CANDIDATES[-1] == 0
    assert (np.diff(CANDIDATES[1:]) < 0).all()
    assert not CANDIDATES.flags.writeable


def slow_threshold(scores, y, lengths, rates, delta, gap=False):
    """One candidate after another; every class in `rates` must pass."""
    final = SPRT(np.inf).decide(scores, lengths).labels == y
    kept = None
    for a in [np.inf, *CANDIDATES[CANDIDATES < 64]]:  # no lead reaches 64
        lost = SPRT(a).decide(scores, lengths).labels != y
        if gap:
            lost &= final
        for k, rate in rates.items():
            own = np.full(len(y), True) if k is None else y == k
            losses, n = lost[own].sum(), own.sum()
            if binom.cdf(losses, n, rate) > delta:
                return kept
        kept = a
    return kept


@pytest.mark.parametrize(
    ("asked", "rates", "gap"),
    [
        ({"error_rate": 0.4}, {None: 0.4}, False),
        ({"error_rate": 0.5, "per_class": True}, {0: 0.5, 1: 0.5, 2: 0.5}, False),
        ({"error_rate": {0: 0.6, 2: 0.4}}, {0: 0.6, 2: 0.4}, False),
        ({"accuracy_gap": 0.2}, {None: 0.2}, True),
        ({"accuracy_gap": 0.3, "per_class": True}, {0: 0.3, 1: 0.3, 2: 0.3}, True),
    ],
)
@pytest.mark.parametrize("confidence", [0.9, 0.6])
def test_the_threshold_is_that_of_testing_one_after_another(asked, rates, gap, confidence):
    scores, y, lengths = walks(n=150, seed=3)
    rule = calibrate(scores, y, lengths, confidence=confidence, **asked)
    expected = slow_threshold(scores, y, lengths, rates, 1 - confidence, gap)
    assert rule.threshold == expected
    d = rule.decide(scores, lengths)
    assert rule.guarantee.mean_time == d.times.mean()
    assert rule.guarantee.mean_length == lengths.mean()
    assert np.allclose(observed_rate(rule, scores, y, lengths), rule.guarantee.observed)
    if asked == {"error_rate": 0.4}:
        assert rule.guarantee.observed == (d.labels != y).mean()


def test_a_later_candidate_that_would_pass_is_not_reached():
    losses = np.array([[0, 0, 9, 0]])
    assert last_accepted(losses, np.array([100]), np.array([0.05]), 0.05) == 1
    assert last_accepted(losses[:, 2:], np.array([100]), np.array([0.05]), 0.05) is None
    assert last_accepted(losses[:, :2], np.array([100]), np.array([0.05]), 0.05) == 1


def slow_conditional(trials, suggested, rate, delta):
    """The test half, in words: stop from step t on, and look at everyone decided by s >= t."""
    kept = np.full(len(suggested), np.inf)
    for t in reversed(range(len(suggested))):
        if suggested[t] == np.inf:
            continue
        candidate = np.where(np.arange(len(suggested)) >= t, suggested, np.inf)
        lost, times = [], []
        for lead, wrong, length in zip(trials.leads, trials.wrong, trials.lengths):
            stop = next((s for s in range(length) if lead[s] >= candidate[s]), length - 1)
            lost.append(bool(wrong[stop]) and not wrong[length - 1])
            times.append(stop)
        for s in range(t, len(suggested)):
            decided = [loss for loss, time in zip(lost, times) if time <= s]
            if not decided or binom.cdf(sum(decided), len(decided), rate) > delta:
                return kept
        kept = candidate
    return kept


@pytest.mark.parametrize("seed", range(6))
def test_the_conditional_test_equals_its_plain_twin(seed):
    rng = np.random.default_rng(seed)
    trials = Trials.of(*walks(n=80, seed=seed, ragged=seed % 2 == 0))
    suggested = np.where(rng.random(9) < 0.3, np.inf, rng.uniform(0, 6 - seed, 9))
    expected = slow_conditional(trials, suggested, 0.25, 0.3)
    found = _test(trials, suggested, 0.25, 0.3)
    assert found.tolist() == expected.tolist()


def test_the_conditional_rule_decides_as_the_guarantee_counts():
    scores, y, lengths = walks(n=600, seed=5)
    rule = calibrate(scores, y, lengths, accuracy_gap=0.1, conditional=True)
    assert rule.per_step
    assert np.isfinite(rule.threshold).any()
    d = rule.decide(scores, lengths)
    assert rule.guarantee.mean_time == d.times.mean()
    final = SPRT(np.inf).decide(scores, lengths).labels == y
    lost = (d.labels != y) & final
    worst = max(lost[d.times <= t].mean() for t in range(d.times.min(), 10))
    assert observed_rate(rule, scores, y, lengths) == pytest.approx(worst)


@pytest.mark.parametrize("n", range(1, 9))
def test_a_handful_of_series_waits_rather_than_fails(n):
    scores, y, lengths = walks(n=n)
    rule = calibrate(scores, y, lengths, accuracy_gap=0.9, confidence=0.5, conditional=True)
    assert (rule.decide(scores, lengths).times <= lengths).all()


def test_halves_that_suggest_and_test_are_disjoint():
    """What the suggesting half holds cannot change the verdict on given thresholds."""
    trials = Trials.of(*walks(n=400, seed=2))
    order = np.random.default_rng(7).permutation(400)
    thresholds = conditional_thresholds(trials, 0.15, 0.1, seed=7)
    again = _test(trials.part(order[200:]), thresholds, 0.15, 0.1)
    assert again.tolist() == thresholds.tolist()


def test_past_the_calibrated_steps_a_conditional_rule_waits():
    scores, y, _ = walks(n=600, seed=5, ragged=False)
    rule = calibrate(scores, y, accuracy_gap=0.1, conditional=True)
    longer = np.concatenate([np.zeros((600, 9, 3)), 100 * scores], axis=1)
    longer[:, :9, 0] = -1e-9  # no lead to speak of while there are thresholds
    rule = Calibrated(np.maximum(rule.threshold, 0.1), rule.guarantee, per_step=True)
    d = rule.decide(longer)
    assert d.forced.all()
    assert rule.step(longer[0, 17], 18) is None
    assert rule.step(longer[0, 17], 18, last=True).forced


def test_mean_time_takes_the_highest_threshold_within_the_budget():
    scores, y, lengths = walks(seed=8)
    for budget in (1.0, 2.5, 3.0, 100.0):
        rule = calibrate(scores, y, lengths, mean_time=budget)
        times = rule.decide(scores, lengths).times
        assert times.mean() <= budget
        if np.isfinite(rule.threshold):
            above = SPRT(np.nextafter(rule.threshold, np.inf)).decide(scores, lengths)
            assert above.times.mean() > budget
        assert rule.guarantee.confidence is None
        assert "Nothing is promised about errors" in str(rule.guarantee)
    assert rule.threshold == np.inf


def test_scaling_the_scores_by_a_candidate_step_changes_nothing():
    scores, y, lengths = walks(seed=4)
    one, two = (calibrate(s, y, lengths, error_rate=0.45) for s in (scores, 8 * scores))
    assert two.threshold == 8 * one.threshold
    assert two.guarantee == one.guarantee


def test_more_series_and_less_confidence_stop_earlier():
    many = walks(n=4000, ragged=False)
    few = tuple(part[:300] for part in many)
    times = [
        calibrate(*data, error_rate=0.2, confidence=c).guarantee.mean_time
        for data, c in ((few, 0.99), (few, 0.8), (many, 0.8))
    ]
    assert times[0] > times[1] > times[2]


@pytest.mark.parametrize(("loss", "rate", "delta"), [(0.0, 0.05, 0.05), (0.03, 0.05, 0.1), (0.2, 0.25, 0.01)])
def test_series_needed_are_needed(loss, rate, delta):
    needed = series_needed(loss, rate, delta)
    assert binom.cdf(np.ceil(loss * needed), needed, rate) <= delta
    fewer = int(0.8 * needed)
    assert binom.cdf(np.ceil(loss * fewer), fewer, rate) > delta


def easy(n, wrong=0, classes=2):
    """Series of one step that are right but for the first `wrong` of them."""
    y = np.arange(n) % classes
    scores = np.zeros((n, 1, classes))
    scores[np.arange(n), 0, y] = 5.0
    scores[:wrong] *= -1
    return scores, y


@pytest.mark.parametrize(
    ("data", "asked", "message"),
    [
        (
            easy(200, 16),
            {"error_rate": 0.05},
            r"`error_rate`=0.05 with confidence 95 %: even waiting for the end of every series decides 16 of "
            r"200 calibration series wrongly \(8 %\). No number of calibration series would do",
        ),
        (
            easy(100, 4),
            {"error_rate": 0.05},
            r"4 of 100 calibration series wrongly \(4 %\). At this error it takes about 1\d00 such series",
        ),
        (easy(58), {"error_rate": 0.05}, "0 of 58 .* it takes about 59 such series"),
        (
            easy(100),
            {"error_rate": 0.05, "per_class": True},
            "`error_rate`=0.05 of class '0' .* decides 0 of 50 calibration series of class '0' wrongly",
        ),
        (
            easy(58),
            {"accuracy_gap": 0.05},
            "`accuracy_gap`=0.05 with confidence 95 % on 58 calibration series: it takes 59 at least",
        ),
        (
            easy(110),
            {"accuracy_gap": 0.05, "conditional": True},
            "on 55 calibration series that test the thresholds: it takes 59 at least",
        ),
    ],
)
def test_where_nothing_can_be_shown_it_says_what_would_do(data, asked, message):
    with pytest.raises(NoThresholdError, match=message):
        calibrate(*data, **asked)


def test_just_enough_series_do():
    assert calibrate(*easy(59), error_rate=0.05).threshold == 0
    assert calibrate(*easy(118), error_rate=0.05, per_class=True).threshold == 0


BAD = {
    "none": ({}, ValueError, "exactly one target: `error_rate`, `accuracy_gap` or `mean_time`; got none"),
    "two": ({"error_rate": 0.1, "mean_time": 3}, ValueError, "got `error_rate` and `mean_time`"),
    "rate": ({"error_rate": 0.0}, ValueError, r"`error_rate` must be in \(0, 1\); got 0"),
    "text": ({"error_rate": "5%"}, TypeError, "`error_rate` must be a number"),
    "confidence": ({"error_rate": 0.1, "confidence": 95}, ValueError, r"`confidence` must be in \(0, 1\)"),
    "flag": ({"error_rate": 0.1, "per_class": 1}, TypeError, "`per_class` must be True or False; got 1"),
    "class": ({"error_rate": {5: 0.1}}, ValueError, r"class index in \[0, 2\]: rate}; got {5: 0.1}"),
    "no class": ({"error_rate": {}}, ValueError, "`error_rate` as a dict must be"),
    "class rate": ({"error_rate": {1: 2.0}}, ValueError, r"`error_rate\[1\]` must be in \(0, 1\); got 2"),
    "conditional": ({"error_rate": 0.1, "conditional": True}, ValueError, "one number as `accuracy_gap`"),
    "conditional classes": (
        {"accuracy_gap": 0.1, "conditional": True, "per_class": True},
        ValueError,
        "one number as `accuracy_gap`, for all classes",
    ),
    "time classes": ({"mean_time": 3.0, "per_class": True}, ValueError, "`mean_time` is one number"),
    "time": ({"mean_time": 0.5}, ValueError, r"`mean_time` must be in \[1, inf\); got 0.5"),
    "names": ({"error_rate": 0.1, "classes": ["a"]}, ValueError, "`classes` must name the 3 classes"),
}


@pytest.mark.parametrize(("asked", "error", "message"), BAD.values(), ids=BAD)
def test_wrong_calls(asked, error, message):
    with pytest.raises(error, match=message):
        calibrate(*walks(), **asked)


def test_a_class_without_series_is_named():
    scores, y, lengths = walks()
    y = np.minimum(y, 1)
    with pytest.raises(ValueError, match=r"has no calibration series of class 'oak'.*leave the class out"):
        calibrate(scores, y, lengths, error_rate=0.9, per_class=True, classes=["ash", "elm", "oak"])
    rule = calibrate(scores, y, lengths, error_rate={0: 0.9}, classes=["ash", "elm", "oak"])
    assert rule.guarantee.level == (0.9, None, None)
    assert rule.guarantee.observed[2] is None
    assert np.isnan(observed_rate(rule, scores, y, lengths)[2])


def test_no_series_and_labels_that_do_not_fit():
    with pytest.raises(ValueError, match="`scores` holds no series"):
        calibrate(np.zeros((0, 3, 2)), np.zeros(0, int), error_rate=0.1)
    with pytest.raises(ValueError, match="`y` must be class indices in"):
        calibrate(np.zeros((2, 3, 2)), [0, 2], error_rate=0.1)


def test_a_calibrated_rule_is_saved_with_its_guarantee():
    scores, y, lengths = walks(n=600)
    for asked in (
        {"error_rate": {0: 0.6, 1: 0.7}},
        {"accuracy_gap": 0.2, "conditional": True},
        {"mean_time": 2.0},
    ):
        rule = calibrate(scores, y, lengths, **asked)
        stored = json.loads(json.dumps(rule.to_dict(), allow_nan=False))
        for other in (rules.from_dict(stored), copy.deepcopy(rule), pickle.loads(pickle.dumps(rule))):
            assert other == rule
            assert isinstance(other, Calibrated)
            assert other.guarantee == rule.guarantee
            assert str(other.guarantee) == str(rule.guarantee)
        assert not isinstance(rule.without_guarantee(), Calibrated)
        assert (
            rule.without_guarantee().decide(scores, lengths).times == rule.decide(scores, lengths).times
        ).all()


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        (
            Guarantee("error_rate", (0.05, 0.05), 0.9, 10, (0.0, 0.0), 2, 5, classes=("a", "b")),
            "With confidence 90 %, at most 5 % of the new series of each class are decided wrongly",
        ),
        (
            Guarantee("error_rate", (0.05, 0.01, None), 0.9, 10, (0, 0, 0), 2, 5, classes=("a", "b", "c")),
            "of the new series at most 5 % of class 'a' and 1 % of class 'b' are decided wrongly; nothing is "
            "promised for class 'c' (calibrated on 10 series; mean stopping time 2 of 5 samples)",
        ),
        (
            Guarantee("accuracy_gap", 0.02, 0.95, 1000, 0.01, 7.25, 50.0),
            "at most 2 % of new series are decided wrongly that would have been decided rightly at their end",
        ),
        (
            Guarantee("accuracy_gap", 0.02, 0.95, 1000, 0.01, 7.25, 50.0, conditional=True),
            "of the new series decided by any one step, at most 2 % are decided wrongly that would have been "
            "decided rightly at their end (calibrated on 1000 series, half of them to choose the thresholds",
        ),
    ],
)
def test_guarantees_in_words(guarantee, words):
    assert words in str(guarantee)
    assert str(guarantee).endswith("Holds if new series come from the same source as the calibration series.")
    assert eval(repr(guarantee)) == guarantee


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (3, TypeError, "`guarantee` must be a Guarantee, as calibrate makes; got 3"),
        ({"goal": 3}, TypeError, "`guarantee` must be a Guarantee"),
        (("aim", 0.1, 0.9, 10, 0.0, 2, 5), ValueError, "`target` must be one of"),
        (("error_rate", (0.1, 0.2), 0.9, 10, 0.0, 2, 5), ValueError, "`classes` must name each of the 2"),
    ],
)
def test_what_is_no_guarantee(values, error, message):
    with pytest.raises(error, match=message):
        Calibrated(1.0, Guarantee(*values) if isinstance(values, tuple) else values)


def test_true_scores_are_calibrated_close_to_the_best():
    """With many series the threshold comes within a few percent of the one the truth asks for."""
    _, y, scores = sw.datasets.gaussian(10_000, offset=1.0, dim=2, length=30, seed=4)
    rule = calibrate(scores, y, error_rate=0.05)
    trials = Trials.of(scores, y)
    error = totals_by_candidate(trials, trials.wrong, np.zeros_like(y), 1)[0] / len(y)
    best = CANDIDATES[np.flatnonzero(error <= 0.05)[-1]]
    assert best <= rule.threshold <= 1.1 * best
