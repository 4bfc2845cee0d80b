"""`observed_rate`, compared with plain loops."""

import numpy as np
import pytest

from stopwise.rules import SPRT, Calibrated, Guarantee, observed_rate

PRIOR = [0.1, 0.3, 0.6]


def guarantee(target, level=0.1, **more):
    observed = level
    return Guarantee(target, level, 0.9, series=10, observed=observed, mean_time=2.0, mean_length=5.0, **more)


def slow_losses(rule, scores, y, lengths, target):
    lost, times = [], []
    for series, label, length in zip(scores, y, lengths):
        answers = (rule.step(series[t], t + 1, last=t == length - 1) for t in range(length))
        decision = next(answer for answer in answers if answer is not None)
        prior = np.ones(3) if rule.bound_prior is None else rule.bound_prior
        final = (series[length - 1] + np.log(prior)).argmax()
        lost.append(decision.label != label and (target == "error_rate" or final == label))
        times.append(decision.time)
    return np.array(lost), np.array(times)


@pytest.mark.parametrize("prior", [None, PRIOR], ids=["equal", "skewed"])
@pytest.mark.parametrize("target", ["error_rate", "accuracy_gap"])
@pytest.mark.parametrize("threshold", [1.5, [0.5, 2.0, np.inf]], ids=["common", "per class"])
def test_rates_equal_plain_loops(walks, threshold, target, prior):
    scores, y, lengths = walks(n=200, seed=9)
    level = (0.1, None, 0.2)
    overall = Calibrated(threshold, guarantee(target))
    by_class = Calibrated(threshold, guarantee(target, level, classes=("a", "b", "c")))
    if prior is not None:
        overall, by_class = overall.with_prior(prior), by_class.with_prior(prior)
    lost, _ = slow_losses(overall, scores, y, lengths, target)
    assert observed_rate(overall, scores, y, lengths) == pytest.approx(lost.mean())
    expected = [lost[y == k].mean() for k in range(3)]
    assert observed_rate(by_class, scores, y, lengths) == pytest.approx(expected)


def test_conditional_rate_is_the_highest_over_steps_with_enough_series(walks):
    scores, y, lengths = walks(n=200, seed=9)
    conditional = guarantee("accuracy_gap", conditional=True)
    rule = Calibrated(np.linspace(3, 0, 9), conditional, per_step=True).with_prior(PRIOR)
    lost, times = slow_losses(rule, scores, y, lengths, "accuracy_gap")
    for least in (1, 30, 100):
        by_step = [lost[times <= t] for t in range(1, 10)]
        expected = max(one.mean() for one in by_step if len(one) >= least)
        assert observed_rate(rule, scores, y, lengths, min_series=least) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: observed_rate(SPRT(1.0), np.zeros((1, 2, 2)), [0]),
            TypeError,
            "`rule` must be a Calibrated",
        ),
        (
            lambda: observed_rate(
                Calibrated(1.0, guarantee("error_rate")), np.zeros((0, 2, 2)), np.zeros(0, int)
            ),
            ValueError,
            "`scores` holds no series",
        ),
        (
            lambda: observed_rate(Calibrated(1.0, guarantee("error_rate")), np.zeros((1, 2, 2)), [2]),
            ValueError,
            "`y` must hold class indices",
        ),
    ],
)
def test_invalid_arguments_raise(call, error, message):
    with pytest.raises(error, match=message):
        call()
