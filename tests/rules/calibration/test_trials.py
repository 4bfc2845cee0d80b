"""Totals of all candidate thresholds, compared with decisions at each threshold."""

import numpy as np
import pytest

from stopwise.rules import SPRT, Calibrated, Guarantee
from stopwise.rules.calibration.trials import CANDIDATES, Trials, stops, totals_by_candidate

GUARANTEE = Guarantee("error_rate", 0.05, 0.95, series=100, observed=0.01, mean_time=3.5, mean_length=8)
CHECKED = [*range(0, len(CANDIDATES), 23), len(CANDIDATES) - 2, len(CANDIDATES) - 1]


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("digits", [None, 0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("skew", [None, 1.0, 6.0])
def test_totals_equal_the_decisions_of_each_candidate(walks, classes, digits, dtype, skew):
    scores, y, lengths = walks(classes=classes, digits=digits)
    scores = scores.astype(dtype)
    prior = None
    if skew is not None:  # class probabilities decrease exponentially
        prior = np.exp(-skew * np.arange(classes) / (classes - 1))
        prior /= prior.sum()

    def rule(threshold):
        plain = Calibrated(threshold, GUARANTEE)
        return plain if prior is None else plain.with_prior(prior)

    trials = Trials.of(scores, y, lengths, prior)
    errors = totals_by_candidate(trials, trials.errors(), y, classes)
    gaps = totals_by_candidate(trials, trials.gaps(), y, classes)
    times = totals_by_candidate(trials, trials.times(), np.zeros_like(y), 1)[0]
    right_at_end = rule(np.inf).decide(scores, lengths).labels == y
    for j in CHECKED:
        d = rule(CANDIDATES[j]).decide(scores, lengths)
        wrong = d.labels != y
        assert errors[:, j].tolist() == np.bincount(y[wrong], minlength=classes).tolist()
        assert gaps[:, j].tolist() == np.bincount(y[wrong & right_at_end], minlength=classes).tolist()
        assert times[j] == d.times.sum()
        step, forced = stops(trials, np.full(9, CANDIDATES[j]))
        assert np.array_equal(step + 1, d.times)
        assert np.array_equal(forced, d.forced)
        assert np.array_equal(trials.errors().at(step, forced), wrong)
        assert np.array_equal(trials.gaps().at(step, forced), wrong & right_at_end)


def test_prior_changes_only_forced_decisions(walks):
    scores, y, lengths = walks(n=400)
    plain, skewed = (Trials.of(scores, y, lengths, p) for p in (None, np.array([0.98, 0.01, 0.01])))
    assert np.array_equal(plain.wrong, skewed.wrong)
    assert np.array_equal(plain.leads, skewed.leads)
    assert skewed.forced_wrong.sum() > plain.forced_wrong.sum()
    assert np.array_equal(plain.forced_wrong, SPRT(np.inf).decide(scores, lengths).labels != y)


def test_a_lead_equal_to_a_candidate_stops():
    scores = np.array([[[0.0, 1.0], [0.0, 2.0], [0.0, 4.0]]])  # 1, 2 and 4 are candidates
    trials = Trials.of(scores, [1])
    times = totals_by_candidate(trials, trials.times(), np.zeros(1, int), 1)[0]
    found = {a: times[np.flatnonzero(a == CANDIDATES)[0]] for a in (0.0, 1.0, 2.0, 4.0, 8.0, np.inf)}
    assert found == {0.0: 1, 1.0: 1, 2.0: 2, 4.0: 3, 8.0: 3, np.inf: 3}


def test_candidates_decrease_from_infinity_to_zero():
    assert CANDIDATES[0] == np.inf
    assert CANDIDATES[-1] == 0
    assert (np.diff(CANDIDATES[1:]) < 0).all()
    assert not CANDIDATES.flags.writeable
