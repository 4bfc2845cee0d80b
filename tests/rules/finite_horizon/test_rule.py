"""`FiniteHorizon`, compared with the exact solution on a grid and with constant thresholds."""

import numpy as np
import pytest

import stopwise as sw
from helpers import early
from stopwise.metrics import average_cost
from stopwise.plots import stopping_thresholds
from stopwise.rules import SPRT, FiniteHorizon

OFFSET = 0.5  # as in the fixture `world`


class Grid:
    """Exact solution for two classes: the LLR on a fine grid, with discretized increments N(±a², 2a²)."""

    def __init__(self, cost, steps, spacing=0.02, reach=16.0):
        self.cost, self.steps, self.spacing = cost, steps, spacing
        self.llr = np.arange(-reach, reach + spacing / 2, spacing)
        self.p = 1 / (1 + np.exp(-self.llr))
        self.stop = np.minimum(self.p, 1 - self.p)
        deviation = np.sqrt(2) * OFFSET
        self.width = int(np.ceil((7 * deviation + OFFSET**2) / spacing))
        moves = np.arange(-self.width, self.width + 1) * spacing
        weights = [np.exp(-0.5 * ((moves - mean) / deviation) ** 2) for mean in (-(OFFSET**2), OFFSET**2)]
        self.weights = [w / w.sum() for w in weights]

    def wait(self, after):
        padded = np.pad(after, self.width, mode="edge")
        moved = [np.convolve(padded, w[::-1], "valid") for w in self.weights]
        return (1 - self.p) * moved[0] + self.p * moved[1] + self.cost

    def optimum(self):
        """Return the least possible average cost, and the upper thresholds (T,)."""
        value, upper = self.stop, np.zeros(self.steps)
        for t in range(self.steps - 1, 0, -1):
            wait = self.wait(value)
            upper[t - 1] = self.llr[wait < self.stop].max(initial=0)
            value = np.minimum(self.stop, wait)
        return self.wait(value)[len(self.llr) // 2], upper

    def risk(self, lower, upper):
        """Return the average cost of stopping at the given thresholds (T,)."""
        value = self.stop
        for t in range(self.steps - 1, 0, -1):
            stops = (self.llr <= lower[t - 1]) | (self.llr >= upper[t - 1])
            value = np.where(stops, self.stop, self.wait(value))
        return self.wait(value)[len(self.llr) // 2]

    def best_constant(self):
        return min(self.risk(np.full(self.steps, -a), np.full(self.steps, a)) for a in np.arange(0.3, 8, 0.1))


def risk_of(rule, grid):
    lower, upper = stopping_thresholds(rule, grid.steps, max_llr=16.0)
    return grid.risk(np.nan_to_num(lower, nan=-np.inf), np.nan_to_num(upper, nan=np.inf))


def best_constant(scores, y, cost, thresholds):
    """Return the constant threshold of least cost."""
    return min(thresholds, key=lambda a: average_cost(SPRT(a).decide(scores), y, cost=cost))


def test_grid_agrees_with_simulation(world):
    grid = Grid(0.01, steps=20)
    risk, upper = grid.optimum()
    assert grid.risk(-upper, upper) == pytest.approx(risk, rel=1e-4)
    scores, y = world(20_000, steps=20, seed=3)
    decisions = SPRT(upper, per_step=True).decide(scores)
    assert average_cost(decisions, y, cost=0.01) == pytest.approx(risk, rel=0.03)


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("cost", [0.002, 0.02])
def test_cost_is_close_to_the_exact_optimum(world, cost, labels):
    scores, y = world(4000, steps=20)
    grid = Grid(cost, steps=20)
    rule = FiniteHorizon.fit(scores, y if labels else None, cost=cost)
    optimum, thresholds = grid.optimum()
    assert optimum <= risk_of(rule, grid) <= 1.01 * optimum
    lower, upper = stopping_thresholds(rule, 20)
    assert lower[-1] == upper[-1] == pytest.approx(0, abs=0.25)
    assert np.abs(upper[5:] - thresholds[5:]).max() < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("labels", [True, False])
def test_cheaper_than_every_constant_threshold(world, labels):
    """Costs are computed exactly on the grid, without the noise of a test set.

    If a sample costs 0.01 or more, the deadline hardly matters and a constant threshold is close to optimal.
    """
    scores, y = world(10_000)
    costs = [0.0005, 0.001, 0.002, 0.005, 0.02]
    for cost, rule in zip(costs, FiniteHorizon.path(scores, y if labels else None, costs=costs)):
        grid = Grid(cost, steps=50)
        assert risk_of(rule, grid) < grid.best_constant() * (1 if cost < 0.01 else 1.0005)
        assert risk_of(rule, grid) < 1.005 * grid.optimum()[0]
        upper = stopping_thresholds(rule, 50)[1]
        assert (np.diff(upper[46:]) <= 0.1).all()
        assert upper[-1] == pytest.approx(0, abs=0.25)


@pytest.mark.slow
def test_three_classes_cheaper_than_every_constant_threshold(world):
    """Costs are computed from exact posteriors of new series, which have less noise than labels."""
    scores, _ = world(10_000, classes=3)
    fresh, _ = world(40_000, classes=3, seed=1)
    shares = np.exp(fresh - fresh.max(-1, keepdims=True))
    risk = 1 - shares.max(-1) / shares.sum(-1)  # (n, T)

    def cost_of(rule, cost):
        times = rule.decide(fresh).times
        return risk[np.arange(len(fresh)), times - 1].mean() + cost * times.mean()

    costs = [0.0005, 0.002, 0.01]
    for cost, rule in zip(costs, FiniteHorizon.path(scores, costs=costs)):
        constants = [cost_of(SPRT(a), cost) for a in np.arange(1.5, 7, 0.25)]
        assert cost_of(rule, cost) < min(constants)


def distorted(scores, how, seed):
    rng = np.random.default_rng(seed + 100)
    return {
        "overconfident": lambda: 2 * scores,
        "underconfident": lambda: 0.5 * scores,
        "noisy": lambda: scores + 2 * rng.standard_normal(scores.shape),
        "saturating": lambda: 4 * np.tanh(scores / 4),
    }[how]()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["overconfident", "underconfident", "noisy", "saturating"])
def test_inaccurate_scores_cost_at_most_one_percent_more_than_a_constant_threshold(world, how):
    (held, y), (fresh, y_fresh) = world(10_000, seed=801), world(40_000, seed=851)
    held, fresh = distorted(held, how, 801), distorted(fresh, how, 851)
    costs = [0.002, 0.01, 0.02]
    for cost, rule in zip(costs, FiniteHorizon.path(held, y, costs=costs)):
        constant = SPRT(best_constant(held, y, cost, np.arange(0, 16, 0.2)))
        mine, theirs = (average_cost(r.decide(fresh), y_fresh, cost=cost) for r in (rule, constant))
        assert mine < 1.01 * theirs


def test_overconfident_and_noisy_scores_are_corrected(world):
    """Noisy scores cost less than with the best constant; a factor of four costs at most 2 % more."""
    (held, y), (fresh, y_fresh) = world(2000, steps=15), world(5000, steps=15, seed=1)
    noisy, fresh_noisy = distorted(held, "noisy", 0), distorted(fresh, "noisy", 1)
    rule = FiniteHorizon.fit(noisy, y, cost=0.005)
    constant = SPRT(best_constant(noisy, y, 0.005, np.arange(0, 12, 0.5)))
    costs = [average_cost(r.decide(fresh_noisy), y_fresh, cost=0.005) for r in (rule, constant)]
    assert costs[0] < 0.98 * costs[1]
    corrected, grid = FiniteHorizon.fit(4 * held, y, cost=0.005), Grid(0.005, steps=15)
    lower, upper = (line / 4 for line in stopping_thresholds(corrected, 15, max_llr=64.0))
    assert grid.risk(lower, upper) < 1.02 * grid.optimum()[0]


@pytest.mark.slow
def test_scores_of_a_trained_classifier_cost_at_most_one_percent_more_than_a_constant_threshold():
    X, y, _ = sw.datasets.gaussian(n=1000, offset=OFFSET, channels=4, length=30, seed=0)
    clf = early(order=0, max_epochs=10).fit(X, y)
    held, y_held, _ = sw.datasets.gaussian(n=3000, offset=OFFSET, channels=4, length=30, seed=1)
    fresh, y_fresh, _ = sw.datasets.gaussian(n=20_000, offset=OFFSET, channels=4, length=30, seed=2)
    scores, fresh_scores = clf.scores(held), clf.scores(fresh)
    for cost, rule in zip((0.002, 0.01), FiniteHorizon.path(scores, y_held, costs=[0.002, 0.01])):
        constant = SPRT(best_constant(scores, y_held, cost, np.arange(0, 10, 0.1)))
        mine, theirs = (average_cost(r.decide(fresh_scores), y_fresh, cost=cost) for r in (rule, constant))
        assert mine < 1.01 * theirs


def test_classifier_uses_and_saves_the_rule(tmp_path):
    X, y, _ = sw.datasets.gaussian(n=200, offset=1.0, channels=3, length=8, seed=0)
    clf = early(order=0, max_epochs=2, polish=False).fit(X, np.array(["no", "yes"])[y])
    clf.rule_ = FiniteHorizon.fit(clf.scores(X), y, cost=0.02, loss=[[0, 1], [4, 0]], horizon=6)
    clf.save(tmp_path / "model")
    loaded = sw.load(tmp_path / "model")
    assert loaded.rule_ == clf.rule_
    decisions = loaded.decide(X)
    assert decisions.times.max() <= 6
    assert not decisions.forced.any()
    stream = loaded.stream()
    answers = (stream.update(x) for x in X[0])
    decision = next(answer for answer in answers if answer is not None)
    assert (decision.label, decision.time) == (decisions.labels[0], decisions.times[0])


def test_path_equals_single_fits_and_only_the_ratio_of_cost_and_loss_matters(world):
    scores, y = world(300, steps=8)
    path = FiniteHorizon.path(scores, y, costs=[0.005, 0.05])
    for rule in path:
        alone = FiniteHorizon.fit(scores, y, cost=rule.cost)
        assert alone.value == pytest.approx(rule.value, abs=1e-6)
    cheap, expensive = (rule.decide(scores).times for rule in path)
    assert cheap.mean() > expensive.mean() + 1
    in_cents = FiniteHorizon.fit(scores, y, cost=0.5, loss=100.0).decide(scores)
    assert np.array_equal(in_cents.times, FiniteHorizon.fit(scores, y, cost=0.005).decide(scores).times)


def test_only_differences_of_scores_matter(world):
    scores, y = world(300, classes=3, steps=8)
    common = np.random.default_rng(0).normal(size=(300, 8, 1)).round(2)
    rule = FiniteHorizon.fit(scores, y, cost=0.01)
    assert np.array_equal(rule.decide(scores).times, rule.decide(scores + common).times)


def test_constant_added_to_a_row_of_the_loss_has_no_effect(world):
    scores, y = world(300, steps=8)
    plain = FiniteHorizon.fit(scores, y, cost=0.01, loss=[[0.0, 1.0], [3.0, 0.0]])
    assert FiniteHorizon.fit(scores, y, cost=0.01, loss=[[2.0, 3.0], [3.5, 0.5]]) == plain


def test_loss_and_prior_change_the_boundary(world):
    scores, y = world(2000, steps=12)
    plain, expensive, rare = (
        FiniteHorizon.fit(scores, y, cost=0.01, **more)
        for more in ({}, {"loss": [[0, 1], [8, 0]]}, {"prior": [0.1, 0.9]})
    )
    plain_lower, expensive_lower, rare_lower = (
        stopping_thresholds(r, 12)[0][3] for r in (plain, expensive, rare)
    )
    assert expensive_lower < plain_lower - 1  # deciding for class 0 needs more evidence
    assert rare_lower < plain_lower - 1
    # At the deadline, the expected losses are equal at log-odds -log 8, the posteriors at -log 9.
    assert stopping_thresholds(expensive, 12)[1][-1] == pytest.approx(-np.log(8), abs=0.25)
    assert stopping_thresholds(rare, 12)[1][-1] == pytest.approx(-np.log(9), abs=0.25)
    undecided = np.array([[[0.0, -1.0]]])
    assert SPRT(9.0).decide(undecided).labels.tolist() == [0]
    assert expensive.decide(undecided).labels.tolist() == [1]  # forced, by least expected loss


def test_class_proportions_of_the_labels_do_not_matter(world):
    scores, y = world(6000, steps=10)
    keep = (y == 0) | (np.arange(6000) % 6 == 1)  # three series of class 0 per series of class 1
    grid = Grid(0.01, steps=10)
    assert risk_of(FiniteHorizon.fit(scores[keep], y[keep], cost=0.01), grid) < 1.01 * grid.optimum()[0]


def test_unequal_lengths_and_the_deadline(world):
    scores, y = world(400, steps=12)
    lengths = np.random.default_rng(0).integers(3, 13, 400)
    padded = np.where(np.arange(12)[:, None] < lengths[:, None, None], scores, np.nan)
    rule = FiniteHorizon.fit(padded, y, cost=0.001)
    assert rule == FiniteHorizon.fit(scores, y, lengths, cost=0.001)
    assert rule.horizon == 12
    short = FiniteHorizon.fit(scores, y, lengths, cost=0.001, horizon=5)
    assert short.horizon == 5
    decisions = short.decide(scores)
    assert decisions.times.max() == 5
    assert not decisions.forced.any()
    assert FiniteHorizon.fit(scores, y, cost=0.01, horizon=1).decide(scores).times.tolist() == [1] * 400


def degenerate(kind):
    """Return scores and labels with which least squares are singular."""
    rng = np.random.default_rng(0)
    if kind == "26 classes":
        return rng.normal(size=(30, 2, 26)), np.arange(30) % 26
    if kind == "12 classes, dead from the middle on":
        scores = rng.normal(size=(105, 8, 12))
        scores[:, 4:] = scores[:, 4:5]
        return scores, np.arange(105) % 12
    if kind == "7 classes":
        return rng.normal(size=(105, 10, 7)).cumsum(1), np.arange(105) % 7
    if kind == "identical series":
        return np.tile(rng.normal(size=(1, 10, 3)), (40, 1, 1)), np.arange(40) % 3
    if kind == "a dead sensor":
        return np.zeros((40, 10, 2)), np.arange(40) % 2
    return 1e8 * rng.normal(size=(60, 6, 5)).cumsum(1), np.arange(60) % 5


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize(
    "kind",
    [
        "26 classes",
        "12 classes, dead from the middle on",
        "7 classes",
        "identical series",
        "a dead sensor",
        "huge scores",
    ],
)
def test_degenerate_scores_give_a_rule(kind, labels):
    scores, y = degenerate(kind)
    for cost in (1e-4, 0.01, 0.5):
        rule = FiniteHorizon.fit(scores, y if labels else None, cost=cost)
        decisions = rule.decide(scores)
        assert not decisions.forced.any()
        if kind == "a dead sensor":  # more samples tell nothing
            assert (decisions.times == 1).all()


def test_ten_series_are_enough_for_a_sensible_rule(world):
    scores, y = world(10, steps=12)
    new, truth = world(4000, steps=12)
    rule = FiniteHorizon.fit(scores, np.arange(10) % 2, np.r_[[12] * 9, 5], cost=0.02)
    assert rule.horizon == 5  # the last step that ten series reach
    rule = FiniteHorizon.fit(scores, y, cost=0.02)
    first, last = (average_cost(SPRT(a).decide(new), truth, cost=0.02) for a in (0.0, np.inf))
    assert average_cost(rule.decide(new), truth, cost=0.02) < min(first, last)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"cost": 0.0}, ValueError, r"`cost` must be in \(0, inf\); got 0"),
        ({"loss": 0.0}, ValueError, r"`loss` must be in \(0, inf\); got 0"),
        (
            {"loss": np.ones((3, 3))},
            ValueError,
            r"have shape \(2, 2\), true classes by decided.*got shape \(3, 3\)",
        ),
        ({"loss": [[1.0, 1.0], [2.0, 2.0]]}, ValueError, "`loss` must be finite, >= 0 and differ"),
        ({"loss": [[0.0, -1.0], [2.0, 0.0]]}, ValueError, "`loss` must be finite, >= 0"),
        ({"prior": [0.2, 0.3, 0.5]}, ValueError, r"`prior` must have shape \(2,\), one per class; got"),
        ({"horizon": 9}, ValueError, "at least 30 series reach, here at most 8; got 9"),
        ({"y": np.zeros(60, dtype=int)}, ValueError, r"every class; missing: 1. Hold out more"),
        ({"scores": np.zeros((9, 8, 2)), "y": None}, ValueError, "at least 10 series.*got 9"),
    ],
)
def test_invalid_arguments_raise(world, arguments, error, message):
    scores, y = world(60, steps=8)
    with pytest.raises(error, match=message):
        FiniteHorizon.fit(**{"scores": scores, "y": y, "cost": 0.01} | arguments)


def test_scores_or_arrays_of_another_shape_raise(world):
    scores, y = world(60, steps=8)
    rule = FiniteHorizon.fit(scores, y, cost=0.01)
    with pytest.raises(ValueError, match="was fitted on scores of 2 classes; got scores of 3"):
        rule.decide(np.zeros((2, 5, 3)))
    tampered = rule.to_dict() | {"slopes": [[1.0]]}
    with pytest.raises(
        ValueError, match=r"`slopes` must be finite and have shape \(8, 6\); got shape \(1, 1\)"
    ):
        FiniteHorizon.from_dict(tampered)
