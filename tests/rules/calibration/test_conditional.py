"""Guarantees conditional on the stopping time, compared with plain loops."""

import numpy as np
import pytest
from scipy.stats import binom

from stopwise.rules import SPRT, Calibrated, calibrate, observed_rate
from stopwise.rules.calibration.conditional import _greedy, _test, conditional_thresholds
from stopwise.rules.calibration.trials import Trials

SKEWED = np.array([0.9, 0.08, 0.02])
by_prior = pytest.mark.parametrize("prior", [None, SKEWED], ids=["equal", "skewed"])


def slow_conditional(trials, suggested, rate, delta):
    """Run the test in plain loops: stop from step t on, and test the series decided by each s >= t."""
    kept = np.full(len(suggested), np.inf)
    for t in reversed(range(len(suggested))):
        if suggested[t] == np.inf:
            continue
        candidate = np.where(np.arange(len(suggested)) >= t, suggested, np.inf)
        lost, times = [], []
        for lead, wrong, forced_wrong, length in zip(*trials[:4]):
            stop = next((s for s in range(length) if lead[s] >= candidate[s]), None)
            lost.append(stop is not None and bool(wrong[stop]) and not forced_wrong)
            times.append(length - 1 if stop is None else stop)
        for s in range(t, len(suggested)):
            decided = [loss for loss, time in zip(lost, times) if time <= s]
            if not decided or binom.cdf(sum(decided), len(decided), rate) > delta:
                return kept
        kept = candidate
    return kept


@by_prior
@pytest.mark.parametrize("seed", range(6))
def test_threshold_test_equals_plain_loops(walks, seed, prior):
    rng = np.random.default_rng(seed)
    trials = Trials.of(*walks(n=80, seed=seed, ragged=seed % 2 == 0), prior)
    suggested = np.where(rng.random(9) < 0.3, np.inf, rng.uniform(0, 6 - seed, 9))
    expected = slow_conditional(trials, suggested, 0.25, 0.3)
    found = _test(trials, suggested, 0.25, 0.3)
    assert found.tolist() == expected.tolist()


@by_prior
def test_guarantee_agrees_with_the_decisions_of_the_rule(walks, prior):
    scores, y, lengths = walks(n=600, seed=5)
    rule = calibrate(scores, y, lengths, accuracy_gap=0.1, conditional=True, prior=prior)
    assert rule.per_step
    assert np.isfinite(rule.threshold).any()
    d = rule.decide(scores, lengths)
    assert rule.guarantee.mean_time == d.times.mean()
    waiting = SPRT(np.inf) if prior is None else SPRT(np.inf).with_prior(prior)
    right_at_end = waiting.decide(scores, lengths).labels == y
    lost = (d.labels != y) & right_at_end
    assert rule.guarantee.observed == lost.mean()
    worst = max(lost[d.times <= t].mean() for t in range(d.times.min(), 10))
    assert observed_rate(rule, scores, y, lengths) == pytest.approx(worst)


def test_skewed_prior_still_allows_early_decisions(walks):
    """At the last step, the class with the highest score may be worse than the forced decision."""
    scores, y, lengths = walks(n=3000, seed=6, ragged=False)
    keep = np.random.default_rng(0).random(3000) < (SKEWED / SKEWED.max())[y]
    data = scores[keep], y[keep], lengths[keep]
    rule = calibrate(*data, accuracy_gap=0.05, conditional=True, prior=SKEWED)
    assert rule.decide(data[0]).times.mean() < 0.8 * 9


def test_greedy_thresholds_count_gaps_of_ending_series():
    """Two series end at step 1 with a small lead; the prior changes their class, so accepting is a loss."""
    scores = np.zeros((6, 2, 2))
    scores[:, :, 0] = [[3.0, 9.0]] * 4 + [[1.0, 0.0]] * 2
    y = np.array([0, 0, 0, 0, 1, 1])
    lengths = np.array([2, 2, 2, 2, 1, 1])
    trials = Trials.of(scores, y, lengths, np.array([0.01, 0.99]))
    assert trials.gaps().accepted[4:, 0].all()
    assert _greedy(trials, rate=0.3, level=0.5)[0] == np.nextafter(1.0, 2.0)  # accepts the other four
    assert _greedy(Trials.of(scores, y, lengths), rate=0.3, level=0.5)[0] == 0.0


@pytest.mark.parametrize("n", range(3, 9))
def test_few_series_give_a_rule_that_waits(walks, n):
    scores, _, lengths = walks(n=n)
    y = np.arange(n) % 3
    rule = calibrate(scores, y, lengths, accuracy_gap=0.9, confidence=0.5, conditional=True)
    assert (rule.decide(scores, lengths).times <= lengths).all()


def test_thresholds_are_tested_on_the_second_half_only(walks):
    """The final thresholds pass a test on the second half alone."""
    trials = Trials.of(*walks(n=400, seed=2))
    permutation = np.random.default_rng(7).permutation(400)
    thresholds = conditional_thresholds(trials, 0.15, 0.1, random_state=7)
    again = _test(trials.part(permutation[200:]), thresholds, 0.15, 0.1)
    assert again.tolist() == thresholds.tolist()


def test_random_state_sets_the_split(walks):
    scores, y, lengths = walks(n=600, seed=5)
    found = [
        calibrate(scores, y, lengths, accuracy_gap=0.1, conditional=True, random_state=s) for s in (0, 0, 1)
    ]
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_rule_waits_after_the_calibrated_steps(walks):
    scores, y, _ = walks(n=600, seed=5, ragged=False)
    rule = calibrate(scores, y, accuracy_gap=0.1, conditional=True)
    longer = np.concatenate([np.zeros((600, 9, 3)), 100 * scores], axis=1)
    longer[:, :9, 0] = -1e-9  # almost no lead during the calibrated steps
    rule = Calibrated(np.maximum(rule.threshold, 0.1), rule.guarantee, per_step=True)
    d = rule.decide(longer)
    assert d.forced.all()
    assert rule.step(longer[0, 17], 18) is None
    assert rule.step(longer[0, 17], 18, last=True).forced
