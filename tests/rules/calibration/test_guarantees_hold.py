"""Guarantees hold: over many draws of calibration series, the true rate exceeds the level in at most δ.

Series are drawn with replacement from a finite population whose rates are known exactly, so there is no noise
of a test set. The scores are deliberately inaccurate: scaled up or down, with noise.
`pytest -m slow -s tests/rules/calibration/test_guarantees_hold.py` prints the fractions of violations.
"""

import numpy as np
import pytest
from scipy.stats import binom

import stopwise as sw
from helpers import early
from stopwise.rules import calibrate, observed_rate
from stopwise.rules.calibration.trials import CANDIDATES, Trials, totals_by_candidate

pytestmark = pytest.mark.slow

DRAWS = 1000
STEPS = 20
ALPHA, DELTA = 0.1, 0.1
# A procedure that fails with probability exactly δ exceeds this fraction once in ten thousand runs.
MAX_VIOLATED = binom.ppf(0.9999, DRAWS, DELTA) / DRAWS
WORLDS = [(scale, classes) for scale in (2.5, 0.4) for classes in (2, 3)]


def population(scale, classes, n=50_000, ragged=False, seed=0):
    """Return inaccurate scores, labels and lengths; the classes differ in size and difficulty."""
    rng = np.random.default_rng([seed, classes])
    y = rng.choice(classes, n, p=np.array([0.5, 0.3, 0.2][:classes]) / sum([0.5, 0.3, 0.2][:classes]))
    samples = rng.normal(size=(n, STEPS, classes))
    samples[np.arange(n), :, y] += np.array([1.1, 0.8, 1.0])[y, None]
    scores = scale * samples.cumsum(1) + 0.5 * rng.normal(size=samples.shape)
    lengths = rng.integers(STEPS // 2, STEPS + 1, n) if ragged else np.full(n, STEPS)
    return scores, y, lengths


def draws(data, size, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(DRAWS):
        rows = rng.integers(0, len(data[1]), size)
        yield tuple(part[rows] for part in data)


def evaluate(name, data, size, loss, asked, rates):
    """Calibrate on every draw; return the fraction of violations, and the mean true rate and time.

    `rates` holds the maximum rate of each group, NaN for none. There is one group, or one per class.
    """
    trials = Trials.of(*data, asked.get("prior"))
    groups = trials.y if len(rates) > 1 else np.zeros_like(trials.y)
    losses = trials.errors() if loss == "error" else trials.gaps()
    truth = totals_by_candidate(trials, losses, groups, len(rates)) / np.bincount(groups)[:, None]  # (G, J)
    times = totals_by_candidate(trials, trials.times(), np.zeros_like(groups), 1)[0] / len(groups)
    place = {a: j for j, a in enumerate(CANDIDATES)}
    asked = {"counted": np.ones(size, bool)} | asked  # a series that is drawn twice is drawn independently
    chosen = [place[calibrate(*draw, confidence=1 - DELTA, **asked).threshold] for draw in draws(data, size)]
    asked_for = ~np.isnan(rates)
    worst = (truth[asked_for] / rates[asked_for, None]).max(0)[chosen]  # 1 means equal to the level
    violated = (worst > 1).mean()
    print(
        f"\n{name}: violated {violated:.1%} of {DRAWS} (allowed {DELTA:.0%}), worst true rate "
        f"{worst.mean():.0%} of the level on average, mean time {times[chosen].mean():.2f} of "
        f"{data[2].mean():.3g}"
    )
    return violated, worst.mean(), times[chosen].mean()


@pytest.mark.parametrize(("scale", "classes"), WORLDS)
def test_error_rate(scale, classes):
    data = population(scale, classes)
    violated, used, _ = evaluate(
        f"error rate ×{scale} K={classes}", data, 500, "error", {"error_rate": ALPHA}, np.array([ALPHA])
    )
    assert violated <= MAX_VIOLATED
    # Power: the true rate is close to the level, and exceeds it not much less often than allowed.
    assert used > 0.7
    assert violated > DELTA / 5
    # The threshold for exact scores exceeds the level if the scores are too large.
    textbook = observed_rate(sw.rules.Calibrated(np.log((classes - 1) / ALPHA), guarantee(data)), *data)
    assert (textbook > ALPHA) == (scale > 1)


def guarantee(data):
    return calibrate(*data, error_rate=ALPHA).guarantee


@pytest.mark.parametrize(("scale", "classes"), WORLDS)
def test_error_rate_of_every_class(scale, classes):
    data = population(scale, classes, ragged=True)
    asked = {"error_rate": 0.2, "per_class": True}
    violated, used, _ = evaluate(
        f"per class ×{scale} K={classes}", data, 800, "error", asked, np.full(classes, 0.2)
    )
    assert violated <= MAX_VIOLATED
    assert used > 0.6


def test_error_rates_of_some_classes():
    data = population(2.5, 3)
    asked = {"error_rate": {0: 0.05, 2: 0.2}}
    violated, used, _ = evaluate(
        "two of three classes", data, 800, "error", asked, np.array([0.05, np.nan, 0.2])
    )
    assert violated <= MAX_VIOLATED
    assert used > 0.6


@pytest.mark.parametrize(("scale", "classes"), WORLDS)
def test_accuracy_gap(scale, classes):
    data = population(scale, classes, ragged=classes == 3)
    violated, used, _ = evaluate(
        f"accuracy gap ×{scale} K={classes}", data, 500, "gap", {"accuracy_gap": ALPHA}, np.array([ALPHA])
    )
    assert violated <= MAX_VIOLATED
    assert used > 0.7
    assert violated > DELTA / 5


@pytest.mark.parametrize("target", ["error_rate", "accuracy_gap"])
def test_with_a_prior(target):
    """Forced decisions use the class prior."""
    data = population(0.4, 3, ragged=True)
    asked = {target: 0.15, "prior": np.array([0.5, 0.3, 0.2])}
    loss = "error" if target == "error_rate" else "gap"
    violated, used, _ = evaluate(f"{target} with a prior", data, 500, loss, asked, np.array([0.15]))
    assert violated <= MAX_VIOLATED
    assert used > 0.7


@pytest.mark.parametrize(
    ("scale", "classes", "ragged", "prior"),
    [(2.5, 2, False, None), (0.4, 3, True, None), (0.4, 3, False, [0.5, 0.3, 0.2])],
)
def test_accuracy_gap_given_the_stopping_time(scale, classes, ragged, prior):
    data = population(scale, classes, ragged=ragged, n=10_000)
    worst, times = [], []
    asked = {"accuracy_gap": ALPHA, "conditional": True, "prior": prior, "counted": np.ones(600, bool)}
    for i, draw in enumerate(draws(data, 600)):
        rule = calibrate(*draw, confidence=1 - DELTA, random_state=i, **asked)
        worst.append(observed_rate(rule, *data))
        times.append(rule.decide(*data[::2]).times.mean())
    violated = (np.array(worst) > ALPHA).mean()
    print(
        f"\nconditional gap ×{scale} K={classes}: violated {violated:.1%} of {DRAWS} (allowed {DELTA:.0%}), "
        f"worst true rate {np.mean(worst) / ALPHA:.0%} of the level on average, "
        f"mean time {np.mean(times):.2f} of {data[2].mean():.3g}"
    )
    assert violated <= MAX_VIOLATED
    assert np.mean(times) < 0.6 * data[2].mean()


def test_scores_of_a_trained_model():
    X, y, _ = sw.datasets.gaussian(300, classes=3, offset=1.0, channels=6, length=STEPS, seed=0)
    clf = early("tanh", order=None, max_epochs=8, polish=False).fit(X, y)
    X, y, _ = sw.datasets.gaussian(30_000, classes=3, offset=1.0, channels=6, length=STEPS, seed=1)
    data = (clf.scores(X), y, np.full(len(y), STEPS))
    final = (data[0][:, -1].argmax(1) != y).mean()
    level = final + 0.05
    asked = {"error_rate": level}
    name = f"a small LSTM, final error {final:.3f}, level {level:.3f}"
    violated, used, time = evaluate(name, data, 1500, "error", asked, np.array([level]))
    assert violated <= MAX_VIOLATED
    assert used > 0.8
    assert time < 0.8 * STEPS
