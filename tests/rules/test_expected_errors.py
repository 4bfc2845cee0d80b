import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from stopwise.rules.expected_errors import expected_errors


def drawn(n=4000, steps=10, seed=0):
    """Return log-odds that grow in time, errors drawn with their probabilities, and these probabilities."""
    rng = np.random.default_rng(seed)
    odds = np.abs(rng.standard_normal((n, steps)).cumsum(axis=1))
    truth = 1 / (1 + np.exp(odds))
    return odds, rng.random(odds.shape) < truth, truth


@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
def test_over_and_underconfident_odds_are_corrected(factor):
    odds, wrong, truth = drawn()
    found = expected_errors(factor * odds, wrong, np.full(len(odds), odds.shape[1]))
    assert abs(found - truth).mean() < 0.01
    assert factor == 1.0 or abs(1 / (1 + np.exp(factor * odds)) - truth).mean() > 0.05


def test_it_is_a_logistic_regression():
    odds, wrong, _ = drawn(n=3000, steps=4)
    lengths = np.random.default_rng(1).integers(1, 5, size=len(odds))
    rows, steps = np.nonzero(np.arange(4) < lengths[:, None])
    share = (steps + 1) / 4
    own = odds[rows, steps]
    x = np.stack([own, share, own * share], axis=1)
    plain = LogisticRegression(C=1e6, tol=1e-8, max_iter=1000)
    plain.fit(x, ~wrong[rows, steps], sample_weight=1 / lengths[rows])
    expected = plain.predict_proba(x)[:, 0]
    assert expected_errors(odds, wrong, lengths)[rows, steps] == pytest.approx(expected, abs=2e-3)


def test_steps_after_the_end_do_not_matter():
    odds, wrong, _ = drawn(n=200)
    lengths = np.random.default_rng(1).integers(2, 11, size=len(odds))
    inside = np.arange(10) < lengths[:, None]
    changed = expected_errors(np.where(inside, odds, np.nan), np.where(inside, wrong, ~wrong), lengths)
    assert np.array_equal(changed[inside], expected_errors(odds, wrong, lengths)[inside])


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e6])
def test_extreme_series_have_finite_probabilities(always, size):
    odds = np.full((3, 200), size)
    found = expected_errors(odds, np.full(odds.shape, always), np.full(3, 200))
    assert ((found >= 0) & (found <= 1)).all()
