"""`SPRT`, compared with plain loops, closed forms and target error rates."""

import itertools
import math

import numpy as np
import pytest

from stopwise.rules import SPRT, Rule


def slow_sprt(scores, lengths, needed):
    """Decide by plain loops; `needed(t, k, l)` is the threshold of class k over l at step t, from 1 on."""
    decided = []
    for series, length in zip(scores.tolist(), lengths.tolist()):
        classes = range(len(series[0]))
        answer = None
        for t in range(1, length + 1):
            at = series[t - 1]
            margins = [min(at[k] - at[c] - needed(t, k, c) for c in classes if c != k) for k in classes]
            if max(margins) >= 0:
                answer = (margins.index(max(margins)), t, False)
                break
        decided.append(answer or (series[length - 1].index(max(series[length - 1])), length, True))
    return [list(column) for column in zip(*decided)]


def random_series(n=60, steps=12, classes=4, seed=0):
    """Return scores that drift towards a class, rounded so that ties and exact hits occur."""
    rng = np.random.default_rng(seed)
    increments = rng.normal(size=(n, steps, classes))
    increments[np.arange(n), :, rng.integers(classes, size=n)] += 0.7
    lengths = rng.integers(1, steps + 1, size=n)
    return np.round(increments.cumsum(1) * 2) / 2, lengths


TABLES = {
    "common": (1.5, False),
    "zero": (0.0, False),
    "infinite": (np.inf, False),
    "per class": ([0.5, 3.0, 0.0, np.inf], False),
    "per pair": (np.arange(16.0).reshape(4, 4) / 4, False),
    "per step": (np.linspace(4, 0, 12), True),
    "per step and class": (np.linspace(4, 0, 48).reshape(12, 4), True),
    "per step and pair": (np.random.default_rng(5).uniform(0, 4, size=(12, 4, 4)).round(1), True),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_decisions_equal_plain_loops(name, dtype):
    table, per_step = TABLES[name]
    array = np.asarray(table)

    def needed(t, k, other):
        at = array[t - 1] if per_step else array
        return float([at, at[k] if at.ndim else at, at[k, other] if at.ndim == 2 else None][at.ndim])

    scores, lengths = random_series()
    decisions = SPRT(table, per_step=per_step).decide(scores.astype(dtype), lengths)
    labels, times, forced = slow_sprt(scores, lengths, needed)
    assert decisions.labels.tolist() == labels
    assert decisions.times.tolist() == times
    assert decisions.forced.tolist() == forced
    assert np.array_equal(decisions.scores, scores[np.arange(len(scores)), np.array(times) - 1])


@pytest.mark.parametrize("error_rate", [0.2, [0.02, 0.3, 0.1, 0.05]])
def test_error_rate_sets_the_threshold_by_the_rejected_class(error_rate):
    scores, lengths = random_series(seed=1)
    scores = scores + np.random.default_rng(1).normal(size=scores.shape)  # no exact hits
    rates = np.broadcast_to(error_rate, 4)
    decisions = SPRT(error_rate=error_rate).decide(scores, lengths)
    labels, times, forced = slow_sprt(scores, lengths, lambda t, k, other: math.log(3 / rates[other]))
    assert 0 < sum(forced) < len(forced)
    assert decisions.labels.tolist() == labels
    assert decisions.times.tolist() == times
    assert decisions.forced.tolist() == forced


def test_a_lead_equal_to_the_threshold_stops():
    scores = np.array([[[0.0, 2.0], [0.0, 3.0]]])
    assert SPRT(3.0).decide(scores).times[0] == 2
    assert not SPRT(3.0).decide(scores).forced[0]
    assert SPRT(np.nextafter(3.0, 4.0)).decide(scores).forced[0]


def test_diagonal_is_ignored():
    scores, lengths = random_series()
    table = np.full((4, 4), 2.0)
    np.fill_diagonal(table, np.nan)
    assert SPRT(table) == SPRT(np.full((4, 4), 2.0) - 9 * np.eye(4))
    with_table, common = SPRT(table).decide(scores, lengths), SPRT(2.0).decide(scores, lengths)
    assert np.array_equal(with_table.times, common.times)


@pytest.mark.parametrize("table", [[2.0] * 4, np.full((4, 4), 2.0)])
def test_equal_thresholds_have_the_margins_of_a_common_threshold(table):
    scores, _ = random_series()
    times = np.arange(1, 13)
    margins = SPRT(table).margins(scores, times)
    assert np.array_equal(margins, SPRT(2.0).margins(scores, times))
    assert margins.max() > 3


def test_wald_thresholds():
    lower, upper = SPRT.wald(alpha=0.01, beta=0.2).threshold
    assert upper == pytest.approx(math.log(80))  # accept class 1: (1 - 0.2) / 0.01
    assert lower == pytest.approx(math.log(4.95))  # accept class 0: (1 - 0.01) / 0.2


def test_wald_error_rates_are_close_to_their_targets():
    """With small increments the overshoot is small, so both error rates are close to their targets."""
    rng = np.random.default_rng(3)
    n, steps, shift = 4000, 400, 0.3
    y = np.arange(n) % 2
    x = rng.normal(size=(n, steps)) + shift * y[:, None]
    llr = (shift * x - shift**2 / 2).cumsum(1)
    decisions = SPRT.wald(alpha=0.05, beta=0.15).decide(np.stack([0 * llr, llr], -1))
    wrong = decisions.labels != y
    assert decisions.forced.mean() < 0.01
    assert 0.03 < wrong[y == 0].mean() < 0.06
    assert 0.10 < wrong[y == 1].mean() < 0.17


@pytest.mark.parametrize("alpha", [0.1, [0.02, 0.2, 0.05]])
def test_error_rate_is_not_exceeded_with_exact_scores(alpha):
    """Class k has mean 0.5 e_k, i.i.d.: log p(x|k) = 0.5 x_k. Within 4 binomial standard errors."""
    rng = np.random.default_rng(7)
    per_class, classes, steps, offset = 2000, 3, 300, 0.5
    for k, bound in enumerate(np.broadcast_to(alpha, classes)):
        x = rng.normal(size=(per_class, steps, classes))
        x[..., k] += offset
        decisions = SPRT(error_rate=alpha).decide(offset * x.cumsum(1))
        error = (decisions.labels != k).mean()
        assert decisions.forced.mean() < 0.001
        assert 0 < error <= bound + 4 * math.sqrt(bound * (1 - bound) / per_class)


def test_higher_threshold_never_stops_earlier():
    scores, lengths = random_series(n=200, seed=2)
    times = [SPRT(a).decide(scores, lengths).times for a in np.linspace(0, 8, 33)]
    assert all((later >= earlier).all() for earlier, later in itertools.pairwise(times))
    assert times[0].max() == 1
    assert times[-1].mean() > times[0].mean() + 2


def test_permuting_classes_permutes_decisions():
    rng = np.random.default_rng(4)
    scores, lengths = rng.normal(size=(80, 9, 4)).cumsum(1), rng.integers(1, 10, size=80)
    table = rng.uniform(0, 3, size=(4, 4))
    permutation = np.array([2, 0, 3, 1])
    plain = SPRT(table).decide(scores, lengths)
    renamed = SPRT(table[np.ix_(permutation, permutation)]).decide(scores[..., permutation], lengths)
    assert np.array_equal(permutation[renamed.labels], plain.labels)
    assert np.array_equal(renamed.times, plain.times)
    assert len(set(plain.labels)) == 4


def test_thresholds_per_step_do_not_have_to_cover_padding():
    scores = np.zeros((2, 10, 2))
    decisions = SPRT([1.0, 1.0, 1.0], per_step=True).decide(scores, lengths=[3, 2])
    assert decisions.times.tolist() == [3, 2]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "exactly one of `threshold` and `error_rate`; got neither"),
        ({"threshold": 1.0, "error_rate": 0.1}, ValueError, "got both"),
        ({"threshold": -0.5}, ValueError, r"`threshold` must be in \[0, inf\]; got -0.5"),
        ({"threshold": np.nan}, ValueError, r"`threshold` must be in \[0, inf\]; got nan"),
        ({"threshold": "high"}, TypeError, "`threshold` must be a number; got 'high'"),
        ({"threshold": True}, TypeError, "`threshold` must be a number; got True"),
        ({"threshold": ["a", "b"]}, TypeError, "`threshold` must be a number or a rectangular array"),
        ({"threshold": [1.0, -2.0]}, ValueError, "all values of `threshold` must be >= 0, not NaN; got -2"),
        ({"threshold": [[0.0, np.nan], [1.0, 0.0]]}, ValueError, "not NaN; got nan"),
        ({"threshold": [[1.0, 2.0]]}, ValueError, r"shape \(\), \(K,\) or \(K, K\).*got shape \(1, 2\)"),
        ({"threshold": [1.0]}, ValueError, r"K >= 2.*got shape \(1,\)"),
        ({"threshold": np.zeros((2, 3, 3))}, ValueError, r"per_step=False; got shape \(2, 3, 3\)"),
        ({"threshold": 1.0, "per_step": True}, ValueError, r"\(T,\), \(T, K\) or \(T, K, K\).*shape \(\)"),
        ({"threshold": [], "per_step": True}, ValueError, r"got shape \(0,\)"),
        ({"threshold": 1.0, "per_step": 1}, TypeError, "`per_step` must be True or False; got 1"),
        (
            {"error_rate": 0.1, "per_step": True},
            ValueError,
            "`per_step` can only be used with `threshold`; got `error_rate`",
        ),
        ({"error_rate": 0.0}, ValueError, r"`error_rate` must be in \(0, 1\); got 0"),
        ({"error_rate": [0.1, 1.0]}, ValueError, r"`error_rate` must be in \(0, 1\); got 1"),
        ({"error_rate": [[0.1, 0.1]]}, ValueError, r"one number or have shape \(K,\).*got shape \(1, 2\)"),
    ],
)
def test_invalid_arguments_raise(arguments, error, message):
    with pytest.raises(error, match=message):
        SPRT(**arguments)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (SPRT([1.0, 2.0]), "`threshold` is for 2 classes; the scores have 3. Give 3 values"),
        (SPRT(np.ones((4, 4))), "`threshold` is for 4 classes; the scores have 3"),
        (SPRT(error_rate=[0.1, 0.1]), "`error_rate` is for 2 classes; the scores have 3"),
        (SPRT(np.ones((5, 2)), per_step=True), "`threshold` is for 2 classes; the scores have 3"),
        (
            SPRT(np.ones(4), per_step=True),
            "it has 4 steps, but the scores reach step 5. Give thresholds for more steps",
        ),
    ],
)
def test_scores_of_another_shape_raise(rule, message):
    with pytest.raises(ValueError, match=message):
        rule.decide(np.zeros((2, 5, 3)))


@pytest.mark.parametrize(
    ("alpha", "beta", "message"),
    [
        (0.0, 0.1, r"`alpha` must be in \(0, 1\)"),
        (0.1, 1.5, "`beta`"),
        (0.6, 0.4, "must be below 1; got 0.6"),
    ],
)
def test_invalid_error_rates_of_wald_raise(alpha, beta, message):
    with pytest.raises(ValueError, match=message):
        SPRT.wald(alpha, beta)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("rule", [SPRT(0.0), SPRT(1.3), SPRT(np.inf), SPRT(error_rate=0.2)], ids=repr)
def test_fast_acceptance_equals_acceptance_by_margins(rule, classes):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, classes)).round(1)  # with ties
    times = np.ones(300, dtype=np.int64)
    expected = Rule.accept_checked(rule, scores, times)
    np.testing.assert_array_equal(rule.accept_checked(scores, times), expected)
    alone = [rule.accept_checked(scores[i : i + 1], times[:1]) for i in range(300)]
    np.testing.assert_array_equal(np.concatenate(alone), expected)
