"""`calibrate`, compared with a slow version that tests one threshold after another."""

import copy
import json
import pickle

import numpy as np
import pytest
from scipy.stats import binom

import stopwise as sw
from stopwise import rules
from stopwise.rules import SPRT, Calibrated, NoThresholdError, calibrate, observed_rate
from stopwise.rules.calibration.trials import CANDIDATES, Trials, totals_by_candidate

SKEWED = np.array([0.7, 0.25, 0.05])


def with_prior(rule, prior):
    return rule if prior is None else rule.with_prior(prior)


def slow_threshold(scores, y, lengths, rates, delta, gap=False, prior=None):
    """Test one candidate after another; every class in `rates` must pass."""
    right_at_end = with_prior(SPRT(np.inf), prior).decide(scores, lengths).labels == y
    kept = None
    for a in [np.inf, *CANDIDATES[CANDIDATES < 64]]:  # no lead reaches 64
        lost = with_prior(SPRT(a), prior).decide(scores, lengths).labels != y
        if gap:
            lost &= right_at_end
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
@pytest.mark.parametrize(("confidence", "prior"), [(0.9, None), (0.6, None), (0.7, SKEWED)])
def test_threshold_equals_sequential_testing(walks, asked, rates, gap, confidence, prior):
    scores, y, lengths = walks(n=150, seed=3)
    expected = slow_threshold(scores, y, lengths, rates, 1 - confidence, gap, prior)
    if expected is None:
        with pytest.raises(NoThresholdError):
            calibrate(scores, y, lengths, confidence=confidence, prior=prior, **asked)
        return
    rule = calibrate(scores, y, lengths, confidence=confidence, prior=prior, **asked)
    assert rule.threshold == expected
    d = rule.decide(scores, lengths)
    assert rule.guarantee.mean_time == d.times.mean()
    assert rule.guarantee.mean_length == lengths.mean()
    observed = np.array(rule.guarantee.observed, dtype=float)
    assert np.allclose(observed_rate(rule, scores, y, lengths), observed)
    if asked == {"error_rate": 0.4}:
        assert rule.guarantee.observed == (d.labels != y).mean()


def test_prior_is_bound_to_the_rule_and_used_in_calibration(walks):
    """The class proportions equal the prior, so forced decisions are better with it."""
    scores, y, lengths = walks(n=4000, seed=1)
    keep = np.random.default_rng(0).random(4000) < (SKEWED / SKEWED.max())[y]
    data = scores[keep], y[keep], lengths[keep]
    with pytest.raises(NoThresholdError):
        calibrate(*data, error_rate=0.22)
    rule = calibrate(*data, error_rate=0.22, prior=SKEWED)
    assert np.array_equal(rule.bound_prior, SKEWED)
    assert rule.guarantee.observed == (rule.decide(*data[::2]).labels != data[1]).mean()
    plain = Calibrated(rule.threshold, rule.guarantee)
    assert observed_rate(plain, *data) > 0.22 > observed_rate(rule, *data)
    assert np.array_equal(rule.without_guarantee().bound_prior, SKEWED)


def test_uniform_prior_equals_no_prior(walks):
    data = walks(n=300, seed=4)
    for asked in ({"error_rate": 0.45}, {"accuracy_gap": 0.2}, {"accuracy_gap": 0.3, "conditional": True}):
        assert calibrate(*data, prior=np.full(3, 1 / 3), **asked) == calibrate(*data, **asked)


def test_scaling_the_scores_scales_the_threshold(walks):
    scores, y, lengths = walks(seed=4)
    one, two = (calibrate(s, y, lengths, error_rate=0.45) for s in (scores, 8 * scores))
    assert two.threshold == 8 * one.threshold
    assert two.guarantee == one.guarantee


def test_more_series_and_less_confidence_stop_earlier(walks):
    many = walks(n=4000, ragged=False)
    few = tuple(part[:300] for part in many)
    times = [
        calibrate(*data, error_rate=0.2, confidence=c).guarantee.mean_time
        for data, c in ((few, 0.99), (few, 0.8), (many, 0.8))
    ]
    assert times[0] > times[1] > times[2]


def easy(n, wrong=0, classes=2):
    """Return series of one step; only the first `wrong` of them are decided wrongly."""
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
            r"200 calibration series wrongly \(8 %\). With this error rate, no number of calibration series "
            "is enough",
        ),
        (
            easy(100, 4),
            {"error_rate": 0.05},
            r"4 of 100 calibration series wrongly \(4 %\). With this error rate, about 1\d00 such series are "
            "needed",
        ),
        (easy(58), {"error_rate": 0.05}, "0 of 58 .* about 59 such series are needed"),
        (
            easy(100),
            {"error_rate": 0.05, "per_class": True},
            "`error_rate`=0.05 of class '0' .* decides 0 of 50 calibration series of class '0' wrongly",
        ),
        (
            easy(58),
            {"accuracy_gap": 0.05},
            "`accuracy_gap`=0.05 with confidence 95 % on 58 calibration series: at least 59 are needed",
        ),
        (
            easy(110),
            {"accuracy_gap": 0.05, "conditional": True},
            "on 55 calibration series that test the thresholds: at least 59 are needed",
        ),
    ],
)
def test_error_says_how_many_series_are_needed(data, asked, message):
    with pytest.raises(NoThresholdError, match=message):
        calibrate(*data, **asked)


def test_minimal_number_of_series_is_enough():
    assert calibrate(*easy(59), error_rate=0.05).threshold == 0
    assert calibrate(*easy(118), error_rate=0.05, per_class=True).threshold == 0


BAD = {
    "none": ({}, ValueError, "exactly one target, `error_rate` or `accuracy_gap`; got none"),
    "two": ({"error_rate": 0.1, "accuracy_gap": 0.1}, ValueError, "exactly one target.*; got both"),
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
        "one number as `accuracy_gap`, for all classes together",
    ),
    "labels": ({"error_rate": 0.1, "classes": ["a"]}, ValueError, "`classes` must hold 3 distinct labels"),
    "prior": (
        {"error_rate": 0.1, "prior": [0.5, 0.5]},
        ValueError,
        "`prior` is for 2 classes; the",
    ),
    "shares": ({"error_rate": 0.1, "prior": [1, 1, 1]}, ValueError, "`prior` must be positive and sum to 1"),
    "per_class with a dict": (
        {"error_rate": {0: 0.1}, "per_class": True},
        ValueError,
        "`per_class` cannot be used with a dict of rates.*give one number as `error_rate`",
    ),
    "seed": ({"error_rate": 0.1, "random_state": -1}, ValueError, "`random_state` must be >= 0; got -1"),
}


@pytest.mark.parametrize(("asked", "error", "message"), BAD.values(), ids=BAD)
def test_invalid_arguments_raise(walks, asked, error, message):
    with pytest.raises(error, match=message):
        calibrate(*walks(), **asked)


def test_error_names_the_class_without_series(walks):
    scores, y, lengths = walks()
    y = np.minimum(y, 1)
    names = ["ash", "elm", "oak"]
    with pytest.raises(ValueError, match=r"has no calibration series of class 'oak'.*leave the class out"):
        calibrate(scores, y, lengths, error_rate=0.9, per_class=True, classes=names)
    with pytest.raises(ValueError, match="has no calibration series of class 'ash', 'oak'"):
        calibrate(scores, 0 * y + 1, lengths, error_rate=0.9, per_class=True, classes=names)
    with pytest.warns(UserWarning, match="`y` has no series of class 'oak'. The rule is not tested on"):
        calibrate(scores, y, lengths, error_rate=0.9, classes=names)
    with pytest.raises(ValueError, match=r"all series are of class 'ash'. Missing: 'elm', 'oak'. Give"):
        calibrate(scores, 0 * y, lengths, error_rate=0.9, classes=names)
    rule = calibrate(scores, y, lengths, error_rate={0: 0.9}, classes=["ash", "elm", "oak"])
    assert rule.guarantee.level == (0.9, None, None)
    assert rule.guarantee.observed[2] is None
    assert np.isnan(observed_rate(rule, scores, y, lengths)[2])


def test_no_series_or_invalid_labels_raise():
    with pytest.raises(ValueError, match="`scores` holds no series"):
        calibrate(np.zeros((0, 3, 2)), np.zeros(0, int), error_rate=0.1)
    with pytest.raises(ValueError, match="`y` must hold class indices in"):
        calibrate(np.zeros((2, 3, 2)), [0, 2], error_rate=0.1)


def test_calibrated_rule_is_saved_with_its_guarantee(walks):
    scores, y, lengths = walks(n=600)
    for asked in (
        {"error_rate": {0: 0.6, 1: 0.7}},
        {"accuracy_gap": 0.2, "conditional": True},
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


def test_threshold_for_true_scores_is_close_to_the_best():
    """With many series the threshold is at most 10 % above the best one."""
    _, y, scores = sw.datasets.gaussian(10_000, offset=1.0, channels=2, length=30, seed=4)
    rule = calibrate(scores, y, error_rate=0.05)
    trials = Trials.of(scores, y)
    error = totals_by_candidate(trials, trials.errors(), np.zeros_like(y), 1)[0] / len(y)
    best = CANDIDATES[np.flatnonzero(error <= 0.05)[-1]]
    assert best <= rule.threshold <= 1.1 * best
