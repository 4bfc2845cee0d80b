"""Which calibration series count as independent draws."""

import numpy as np
import pytest
from scipy.stats import binom

from stopwise.rules import SPRT, NoThresholdError, calibrate
from stopwise.rules.calibration.trials import CANDIDATES
from stopwise.rules.classes import listed


def copied(walks, n=150, times=4, **options):
    """Return series, each of them several times, and which of them are the first."""
    data = walks(n=n, **options)
    return tuple(np.tile(part, (times,) + (1,) * (part.ndim - 1)) for part in data), np.arange(n * times) < n


def slow_threshold(scores, y, lengths, counted, rate, delta):
    """Test one candidate after another, on the counted series and on all."""
    kept = None
    for a in [np.inf, *CANDIDATES[CANDIDATES < 64]]:  # no lead reaches 64
        wrong = SPRT(a).decide(scores, lengths).labels != y
        if any(binom.cdf(wrong[own].sum(), own.sum(), rate) > delta for own in (counted, counted | True)):
            return kept
        kept = a
    return kept


def test_copies_do_not_change_the_threshold(walks):
    data, first = copied(walks)
    once = calibrate(*walks(n=150), error_rate=0.45)
    assert calibrate(*data, error_rate=0.45, counted=first).threshold == once.threshold
    guarantee = calibrate(*data, error_rate=0.45, counted=first).guarantee
    assert (guarantee.series, guarantee.observed) == (150, once.guarantee.observed)
    # Without the information they lead to a lower threshold than 150 series can justify.
    everything = np.ones(len(first), bool)
    assert calibrate(*data, error_rate=0.45, counted=everything).threshold < once.threshold


def test_a_threshold_must_pass_on_the_counted_series_and_on_all(walks):
    scores, y, lengths = walks(n=400, seed=5)
    rng = np.random.default_rng(0)
    wrong = SPRT(1.0).decide(scores, lengths).labels != y
    for leave_out in (wrong, ~wrong):  # the easy ones or the hard ones are "copies"
        counted = ~(leave_out & (rng.random(400) < 0.4))
        expected = slow_threshold(scores, y, lengths, counted, 0.45, 0.05)
        assert calibrate(scores, y, lengths, error_rate=0.45, counted=counted).threshold == expected


def test_too_few_distinct_series_are_refused(walks):
    data, first = copied(walks, n=40, times=20)
    with pytest.raises(NoThresholdError, match="on 40 calibration series: at least 59 are needed"):
        calibrate(*data, accuracy_gap=0.05, counted=first)


def test_conditional_thresholds_use_the_counted_series(walks):
    data, first = copied(walks, n=400, times=3)
    asked = {"accuracy_gap": 0.2, "conditional": True}
    once = calibrate(*walks(n=400), **asked)
    assert calibrate(*data, counted=first, **asked) == once


def test_equal_scores_are_warned_about(walks):
    data, _ = copied(walks, n=200, times=2)
    with pytest.warns(UserWarning, match=r"\d+ of 400 series with the same scores.*pass `counted`"):
        calibrate(*data, error_rate=0.6)
    calibrate(*data, error_rate=0.6, counted=np.ones(400, bool))  # no warning


@pytest.mark.parametrize("counted", [[True] * 3, np.ones(150), np.zeros(150, bool), np.ones((150, 1), bool)])
def test_invalid_counted_raises(walks, counted):
    with pytest.raises(ValueError, match="`counted` must hold 150 booleans, one per series"):
        calibrate(*walks(n=150), error_rate=0.5, counted=counted)


def test_long_lists_of_names_are_cut():
    assert listed([str(i) for i in range(12)]).endswith("'9' and 2 more")
