"""`fit_rule`, compared with a search over all thresholds."""

import numpy as np
import pytest

from stopwise.metrics import average_cost, earliness, harmonic_mean, sat_curve
from stopwise.rules import SPRT, FiniteHorizon, fit_rule

SKEWED = np.array([0.7, 0.2, 0.1])


def make(n=150, steps=9, classes=3, seed=0, grid=0.0):
    """Return scores that drift to the true class, labels and unequal lengths; a grid gives ties."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, n, p=SKEWED[:classes] / SKEWED[:classes].sum())
    increments = rng.normal(size=(n, steps, classes))
    increments[np.arange(n), :, y] += 0.5
    scores = increments.cumsum(1)
    if grid:
        scores = np.round(scores / grid) * grid
    return scores, y, rng.integers(1, steps + 1, n)


def every_threshold(scores, y, lengths):
    """Return all leads of the best class, and infinity; other thresholds give no other results."""
    return sat_curve(scores, y, lengths).thresholds


def value(rule, scores, y, lengths):
    d = rule.decide(scores, lengths)
    return harmonic_mean((d.labels == y).mean(), earliness(d))


@pytest.mark.parametrize("prior", [None, SKEWED], ids=["equal", "skewed"])
@pytest.mark.parametrize(("seed", "grid"), [(0, 0.0), (1, 0.0), (2, 0.5), (3, 1.0)])
def test_no_threshold_has_a_higher_harmonic_mean(seed, grid, prior):
    data = make(seed=seed, grid=grid)
    rule = fit_rule(*data, objective="harmonic_mean", prior=prior)
    assert type(rule) is SPRT
    thresholds = every_threshold(*data)
    rules = [SPRT(a) if prior is None else SPRT(a).with_prior(prior) for a in thresholds]
    assert value(rule, *data) == pytest.approx(max(value(one, *data) for one in rules), abs=1e-12)


def test_prior_is_used_for_forced_decisions():
    """With weak scores many decisions are forced, so a prior changes the optimal threshold."""
    scores, y, lengths = make(n=400, seed=5)
    found = {
        name: fit_rule(0.3 * scores, y, lengths, objective="harmonic_mean", prior=prior)
        for name, prior in (("plain", None), ("skewed", np.array([0.9, 0.08, 0.02])))
    }
    assert found["plain"].bound_prior is None
    assert found["skewed"].bound_prior is not None
    assert found["plain"].threshold != found["skewed"].threshold


def test_harmonic_mean_with_series_of_one_step():
    rule = fit_rule(np.ones((3, 1, 2)), [0, 1, 1], objective="harmonic_mean")
    assert rule.decide(np.ones((1, 1, 2))).times.tolist() == [1]


def test_harmonic_mean_is_maximal_with_many_series():
    scores, y, lengths = make(n=5000, steps=40, seed=6)
    rule = fit_rule(scores, y, lengths, objective="harmonic_mean")
    best = value(rule, scores, y, lengths)
    assert all(value(SPRT(a), scores, y, lengths) <= best + 1e-12 for a in np.linspace(0, 4, 21))


@pytest.mark.parametrize("budget", [1.0, 2.5, 3.0, 100.0])
def test_mean_time_gives_the_highest_threshold_within_it(budget):
    scores, y, lengths = make(seed=8)
    rule = fit_rule(scores, y, lengths, mean_time=budget)
    assert type(rule) is SPRT
    assert rule.decide(scores, lengths).times.mean() <= budget
    if np.isfinite(rule.threshold):
        above = SPRT(np.nextafter(rule.threshold, np.inf)).decide(scores, lengths)
        assert above.times.mean() > budget
    assert (rule.threshold == np.inf) == (budget == 100)


def test_cost_gives_the_finite_horizon_rule():
    data = make(n=300, seed=2)
    asked = {"cost": 0.02, "method": "finite_horizon"}
    assert fit_rule(*data, **asked) == FiniteHorizon.fit(*data, cost=0.02)
    assert fit_rule(*data, **asked, loss=3.0) == FiniteHorizon.fit(*data, cost=0.02, loss=3.0)
    table = [[0, 1, 2], [5, 0, 5], [1, 2, 0]]
    rule = fit_rule(*data, cost=0.02, loss=table, prior=SKEWED)
    assert rule == FiniteHorizon.fit(*data, cost=0.02, loss=table, prior=SKEWED)
    assert np.array_equal(rule.bound_prior, SKEWED)


def test_loss_by_label_equals_the_loss_table():
    data = make(n=300, seed=2)
    labels = np.array(["oak", "ash", "elm"])
    by_label = {
        ("oak", "ash"): 1,
        ("oak", "elm"): 2,
        ("ash", "oak"): 5,
        ("ash", "elm"): 5.0,
        ("elm", "oak"): 1,
        ("elm", "ash"): 2,
    }
    expected = fit_rule(*data, cost=0.02, loss=[[0, 1, 2], [5, 0, 5], [1, 2, 0]])
    assert fit_rule(*data, cost=0.02, loss=by_label, classes=labels) == expected
    assert fit_rule(*data, cost=0.02, loss=by_label | {("oak", "oak"): 0}, classes=list(labels)) == expected
    d = expected.decide(*data[::2])
    assert average_cost(d, data[1], cost=0.02) < 1


def pairs(**changes):
    loss = {("a", "b"): 1.0, ("b", "a"): 2.0}
    return {"cost": 0.02, "loss": loss, "classes": ["a", "b"]} | changes


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "exactly one of `cost`, `mean_time` and `objective`; got none"),
        ({"cost": 0.1, "mean_time": 3}, ValueError, "got `cost` and `mean_time`"),
        ({"mean_time": 0.5}, ValueError, r"`mean_time` must be in \[1, inf\); got 0.5"),
        ({"objective": "f1"}, ValueError, "`objective` must be one of 'harmonic_mean'; got 'f1'"),
        (
            {"mean_time": 3, "loss": 2.0},
            ValueError,
            "`loss` can only be used with `cost`, not with `mean_time`",
        ),
        ({"objective": "harmonic_mean", "loss": 2.0}, ValueError, "Leave out `loss`, or give `cost` instead"),
        ({"cost": -1.0}, ValueError, r"`cost` must be in \(0, inf\); got -1"),
        ({"cost": 0.1, "prior": [0.5, 0.3, 0.2]}, ValueError, r"`prior` is for 3 classes; the scores have 2"),
        ({"mean_time": 3, "prior": [0.5, 0.6]}, ValueError, "`prior` must be positive and sum to 1"),
        (
            pairs(loss=[[0, 1], [2, 0]]),
            ValueError,
            "clear only if the labels are 0 to K − 1; they are 'a', 'b'",
        ),
        (pairs(classes=[1, 2], loss=[[0, 1], [2, 0]]), ValueError, "they are 1, 2. Name the losses"),
        (pairs(classes=None), ValueError, "`loss` as a dict .* needs `classes`"),
        (
            pairs(classes=["a", "b", "c"]),
            ValueError,
            "2 distinct labels, one per class of `scores`; got",
        ),
        (pairs(classes=["a", "a"]), ValueError, "`classes` must hold 2 distinct labels"),
        (
            pairs(loss={("a", "b"): 1.0}),
            ValueError,
            r"of different classes; missing: \('b', 'a'\)\.",
        ),
        (
            pairs(loss={("a", "x"): 1.0}),
            ValueError,
            r"\('a', 'x'\), but 'x' is not a class; the classes",
        ),
        (pairs(loss={"a": 1.0}), ValueError, r"keys \(true label, decided label\); got the key 'a'"),
        (pairs(loss={("a", "b"): -1.0}), ValueError, r"`loss\[\('a', 'b'\)\]` must be in \[0, inf\); got -1"),
        (pairs(loss={("a", "b"): "much"}), TypeError, r"`loss\[\('a', 'b'\)\]` must be a number; got 'much'"),
    ],
)
def test_invalid_arguments_raise(arguments, error, message):
    with pytest.raises(error, match=message):
        fit_rule(*make(n=60, classes=2), **arguments)


def test_prior_for_another_number_of_classes_raises():
    with pytest.raises(ValueError, match="`prior` is for 3 classes; the scores have 2"):
        fit_rule(*make(n=60, classes=2), objective="harmonic_mean", prior=SKEWED)
