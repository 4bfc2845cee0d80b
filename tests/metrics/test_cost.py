"""Error rates, earliness and cost, compared with values computed by hand."""

import json

import numpy as np
import pytest

from stopwise.decision import Decisions
from stopwise.metrics import average_cost, earliness, error_rates, harmonic_mean, summarize


def make_decisions(labels, times, lengths, classes=3):
    n = len(labels)
    return Decisions(
        labels=np.array(labels),
        times=np.array(times),
        forced=np.equal(times, lengths),
        scores=np.zeros((n, classes)),
        lengths=np.array(lengths),
    )


FOUR = make_decisions(labels=[0, 1, 2, 0], times=[1, 2, 3, 8], lengths=[4, 4, 6, 8])


def test_macro_error_gives_classes_equal_weight():
    macro, per_class = error_rates([0, 0, 0, 1, 0], [0, 0, 0, 0, 2], classes=3)
    np.testing.assert_array_equal(per_class, [0.25, np.nan, 1.0])
    assert macro == 0.625


def test_error_rates_with_one_class_only():
    macro, per_class = error_rates([1, 0], [1, 1], classes=2)
    assert macro == 0.5
    assert np.isnan(per_class[0])


def test_earliness_is_the_mean_fraction_of_each_series():
    assert earliness(FOUR) == pytest.approx((1 / 4 + 2 / 4 + 3 / 6 + 8 / 8) / 4)


@pytest.mark.parametrize(
    ("accuracy", "early", "expected"), [(1, 0, 1), (0, 1, 0), (1, 1, 0), (0.5, 0.5, 0.5), (0.8, 0.8, 0.32)]
)
def test_harmonic_mean(accuracy, early, expected):
    assert harmonic_mean(accuracy, early) == pytest.approx(expected)


def test_average_cost_with_scalar_and_matrix_loss():
    y = [0, 2, 2, 1]
    assert average_cost(FOUR, y, cost=0.0) == 0.5
    assert average_cost(FOUR, y, cost=0.1, loss=3.0) == pytest.approx((6 + 1.4) / 4)
    # Rows are true classes, columns predicted ones: 0 -> 0, 2 -> 1, 2 -> 2, 1 -> 0.
    loss = [[-1, 10, 20], [30, 0, 40], [50, 60, 2]]
    assert average_cost(FOUR, y, cost=1.0, loss=loss) == pytest.approx((-1 + 60 + 2 + 30 + 14) / 4)


def test_summary_is_complete_and_json_serializable():
    summary = summarize(FOUR, [0, 1, 2, 1], classes=3)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary.pop("class_error") == [0.0, 0.5, 0.0]
    assert summary == pytest.approx(
        {
            "macro_error": 1 / 6,
            "accuracy": 0.75,
            "mean_time": 3.5,
            "std_time": 7.25**0.5,
            "forced": 0.25,
            "earliness": 0.5625,
            "harmonic_mean": 2 * 0.75 * 0.4375 / 1.1875,
        }
    )


EMPTY = make_decisions([], [], [])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: error_rates([], [], 2), ValueError, r"`labels` must have shape \(n,\) with n >= 1"),
        (lambda: error_rates([0, 1], [0], 2), ValueError, r"`y` must have shape \(2,\)"),
        (lambda: error_rates([0, 3], [0, 1], 2), ValueError, r"`labels` must hold .*\[0, 1\].* 0 to 3"),
        (lambda: error_rates([0.0, 1.0], [0, 1], 2), TypeError, "`labels` must hold class indices"),
        (lambda: error_rates([0, 1], ["a", "b"], 2), TypeError, "`y` must hold class indices"),
        (lambda: error_rates([0], [0], 1), ValueError, "`classes` must be >= 2; got 1"),
        (
            lambda: earliness([1, 2]),
            TypeError,
            r"`decisions` must be .* returned by rule.decide\(\); got list",
        ),
        (lambda: earliness(EMPTY), ValueError, "`decisions` is empty"),
        (lambda: summarize(EMPTY, [], 3), ValueError, "`decisions` is empty"),
        (lambda: harmonic_mean(1.2, 0.5), ValueError, r"`accuracy` must be in \[0, 1\]; got 1.2"),
        (lambda: harmonic_mean(0.5, -1), ValueError, r"`earliness` must be in \[0, 1\]; got -1"),
        (lambda: average_cost(FOUR, [0] * 4, cost=-1), ValueError, r"`cost` must be in \[0, inf\)"),
        (
            lambda: average_cost(FOUR, [0] * 4, cost=0, loss=[[0, 1], [1, 0]]),
            ValueError,
            r"`loss` must be a number or have shape \(3, 3\).*got shape \(2, 2\)",
        ),
        (
            lambda: average_cost(FOUR, [0] * 4, cost=0, loss=np.full((3, 3), np.nan)),
            ValueError,
            "`loss` must be finite",
        ),
        (lambda: average_cost(FOUR, [0, 1, 2, 3], cost=0), ValueError, r"class indices in \[0, 2\]"),
    ],
)
def test_invalid_arguments_raise(call, error, message):
    with pytest.raises(error, match=message):
        call()
