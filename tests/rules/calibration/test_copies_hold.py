"""Guarantees hold if calibration series are copies of each other, or equal by chance.

`pytest -m slow -s tests/rules/calibration/test_copies_hold.py` prints the fractions of violations.
"""

import warnings

import numpy as np
import pytest
from scipy.stats import binom

import stopwise as sw
from helpers import early
from stopwise.rules import NoThresholdError, calibrate
from stopwise.rules.calibration.trials import CANDIDATES, Trials, totals_by_candidate

pytestmark = pytest.mark.slow

DELTA = 0.05


def most_violated(draws):
    """Return the share that a procedure that fails with probability δ exceeds once in ten thousand runs."""
    return binom.ppf(0.9999, draws, DELTA) / draws


def population(n=50_000, steps=20, seed=0):
    """Return inaccurate scores and labels of two classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    samples = rng.normal(size=(n, steps, 2))
    samples[np.arange(n), :, y] += 0.8
    return 2.0 * samples.cumsum(1), y


def true_rates(scores, y, prior=None):
    """Return the error rate of each candidate threshold in the population."""
    trials = Trials.of(scores, y, None, prior)
    wrong = totals_by_candidate(trials, trials.errors(), np.zeros_like(trials.y), 1)[0]
    return dict(zip(CANDIDATES.tolist(), wrong / len(y)))


def violations(data, draw, level, draws=1000):
    """Return the share of draws with a guarantee whose true rate exceeds the level, and their number."""
    broken, found, truth = 0, 0, true_rates(*data)
    for i in range(draws):
        rows, counted = draw(np.random.default_rng(i), len(data[1]))
        try:
            rule = calibrate(*(part[rows] for part in data), error_rate=level, counted=counted)
        except NoThresholdError:
            continue
        found += 1
        broken += truth[rule.threshold] > level
    return broken / draws, found


def copied(times):
    """Return a draw of 30 series, each copied as often as `times(rng)` says."""

    def draw(rng, n):
        numbers = np.repeat(np.arange(30), times(rng))
        first = np.diff(numbers, prepend=-1) > 0
        return rng.integers(0, n, 30)[numbers], first

    return draw


COPIES = {
    "20 copies each": lambda rng: np.full(30, 20),
    "1 to 40 copies": lambda rng: rng.integers(1, 41, 30),
}


def counting_all(rows):
    return rows, np.ones(len(rows), bool)


@pytest.mark.parametrize("name", COPIES)
def test_copies(name):
    data, draw = population(), copied(COPIES[name])
    once, found = violations(data, draw, 0.2)
    everything, _ = violations(data, lambda *arguments: counting_all(draw(*arguments)[0]), 0.2)
    print(f"\n{name}: {once:.1%} of 1000 broken ({found} with a guarantee); {everything:.1%} if each counts")
    assert once <= most_violated(1000)
    assert everything > 0.15
    assert found > 500


def test_series_that_are_equal_by_chance():
    """The most frequent series is decided wrongly: counting it once hides most of the errors."""
    scores, y = population(200)
    scores[0], y[0] = [[9.0, 0.0]] * 20, 1
    shares = np.r_[0.15, np.full(199, 0.85 / 199)]
    rows = np.random.default_rng(0).choice(200, 20_000, p=shares)

    def draw(rng, n, only_first=False):
        chosen = rng.integers(0, n, 400)
        first = np.zeros(400, bool)
        first[np.unique(rows[chosen], return_index=True)[1]] = True
        return (chosen[first], None) if only_first else (chosen, first)

    data = scores[rows], y[rows]
    both, found = violations(data, draw, 0.2, draws=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, _ = violations(data, lambda *a: draw(*a, only_first=True), 0.2, draws=300)
    print(f"\nequal by chance: {both:.1%} of 300 broken ({found} with a guarantee); {first:.1%} if dropped")
    assert both <= most_violated(300)
    assert first > 0.5


def test_copies_given_to_a_classifier():
    """30 series with 20 copies each, the copies with noise of 1e-6 standard deviations."""
    X, y, _ = sw.datasets.gaussian(4300, offset=0.6, channels=3, length=15, seed=0)
    clf = early(order=0, max_epochs=10).fit(X[:300], y[:300])
    pool, labels = X[300:], y[300:]
    truth = true_rates(clf.scores(pool), labels, clf.prior_)
    broken = {"once": 0, "all": 0}
    for i in range(200):
        rng = np.random.default_rng(i)
        rows = np.repeat(rng.integers(0, len(labels), 30), 20)
        noisy = pool[rows] + 1e-6 * rng.normal(size=(600, 15, 3))
        for copies in broken:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    clf.calibrate(noisy, labels[rows], error_rate=0.2, copies=copies)
                except NoThresholdError:
                    continue
            broken[copies] += truth[clf.rule_.threshold] > 0.2
    print(f"\na classifier: {broken['once']} of 200 broken; {broken['all']} if each copy counts")
    assert broken["once"] / 200 <= most_violated(200)
    assert broken["all"] / 200 > 0.15
