"""The exact SAT curve, compared with a plain loop over thresholds."""

import numpy as np
import pytest

from stopwise.metrics import ausat, records, sat_curve
from stopwise.rules import SPRT


def slow_point(scores, y, lengths, threshold):
    """Return mean time, std of time, macro error, class errors and forced fraction by plain loops."""
    times, forced, wrong = [], [], {}
    for series, label, length in zip(scores.tolist(), y.tolist(), lengths.tolist()):
        for t in range(length):
            ordered = sorted(series[t])
            reached = ordered[-1] - ordered[-2] >= threshold
            if reached:
                break
        times.append(t + 1)
        forced.append(not reached)
        wrong.setdefault(label, []).append(series[t].index(max(series[t])) != label)
    class_error = {k: sum(w) / len(w) for k, w in wrong.items()}
    mean = sum(times) / len(times)
    std = (sum((t - mean) ** 2 for t in times) / len(times)) ** 0.5
    macro = sum(class_error.values()) / len(class_error)
    return mean, std, macro, class_error, sum(forced) / len(forced)


def world(classes, *, grid=0, unequal=True, seed=0, n=40, steps=9):
    """Return scores that drift to the label; rounding to a grid gives ties and exact zeros."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, p=np.arange(1, classes + 1) / (classes * (classes + 1) / 2), size=n)
    increments = rng.normal(size=(n, steps, classes))
    increments[np.arange(n), :, y] += 0.8
    scores = increments.cumsum(1)
    if grid:
        scores = np.round(scores / grid) * grid
    lengths = rng.integers(1, steps + 1, size=n) if unequal else np.full(n, steps)
    return scores, y, lengths


WORLDS = {
    "two classes": world(2),
    "two classes, ties": world(2, grid=1.0, seed=1),
    "five classes": world(5, seed=2),
    "five classes, ties": world(5, grid=0.5, seed=3),
    "equal lengths": world(3, unequal=False, seed=4),
    "duplicates": tuple(np.repeat(a, 3, axis=0) for a in world(3, seed=5, n=10)),
    "one series": world(3, seed=6, n=1),
    "one step": world(4, seed=7, steps=1),
}
by_world = pytest.mark.parametrize("name", WORLDS)


@by_world
def test_every_point_equals_the_result_of_its_threshold(name):
    scores, y, lengths = WORLDS[name]
    curve = sat_curve(scores, y, lengths)
    assert (np.diff(curve.thresholds) > 0).all()
    assert curve.thresholds[-1] == np.inf
    for p, threshold in enumerate(curve.thresholds):
        mean, std, error, class_error, forced = slow_point(scores, y, lengths, threshold)
        assert curve.mean_time[p] == pytest.approx(mean, abs=1e-12)
        assert curve.std_time[p] == pytest.approx(std, abs=1e-7)
        assert curve.error[p] == pytest.approx(error, abs=1e-12)
        assert curve.forced[p] == pytest.approx(forced, abs=1e-12)
        for k in range(scores.shape[-1]):
            assert curve.class_error[p, k] == pytest.approx(class_error.get(k, np.nan), nan_ok=True)


@by_world
def test_at_threshold_equals_the_result_of_any_threshold(name):
    """Also between two listed thresholds, and one float above each."""
    scores, y, lengths = WORLDS[name]
    curve = sat_curve(scores, y, lengths)
    finite = curve.thresholds[:-1]
    sweep = np.concatenate([[0.0, 1e9], np.linspace(0, finite[-1], 60), finite, np.nextafter(finite, np.inf)])
    points = curve.at_threshold(sweep)
    for i, threshold in enumerate(sweep):
        mean, _, error, _, forced = slow_point(scores, y, lengths, threshold)
        assert points.mean_time[i] == pytest.approx(mean, abs=1e-12)
        assert points.error[i] == pytest.approx(error, abs=1e-12)
        assert points.forced[i] == pytest.approx(forced, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_curve_agrees_with_the_sprt(dtype):
    scores, y, lengths = world(4, seed=8)
    scores = scores.astype(dtype)
    curve = sat_curve(scores, y, lengths)
    assert len(curve) > 50
    for p, threshold in enumerate(curve.thresholds):
        decisions = SPRT(threshold).decide(scores, lengths)
        assert decisions.times.mean() == pytest.approx(curve.mean_time[p], abs=1e-12)
        assert decisions.forced.mean() == pytest.approx(curve.forced[p], abs=1e-12)
        wrong = decisions.labels != y
        assert np.mean([wrong[y == k].mean() for k in np.unique(y)]) == pytest.approx(curve.error[p])


def test_points_are_distinct():
    scores, y, lengths = world(3, grid=1.0, seed=9)
    curve = sat_curve(scores, y, lengths)
    points = set(zip(curve.mean_time.tolist(), curve.std_time.tolist(), curve.forced.tolist()))
    assert len(points) == len(curve)


def test_curve_starts_at_the_first_sample_and_ends_at_the_last():
    scores, y, lengths = world(3, seed=10)
    curve = sat_curve(scores, y, lengths)
    assert (curve.mean_time[0], curve.std_time[0], curve.forced[0]) == (1.0, 0.0, 0.0)
    assert curve.mean_time[-1] == lengths.mean()
    assert curve.std_time[-1] == pytest.approx(lengths.std())
    assert curve.forced[-1] == 1.0


def test_a_threshold_reached_at_the_last_step_is_not_forced():
    curve = sat_curve([[[0.0, 1.0], [0.0, 2.0]]], [1])
    assert curve.thresholds.tolist() == [1.0, 2.0, np.inf]
    assert curve.forced.tolist() == [0.0, 0.0, 1.0]
    assert curve.mean_time.tolist() == [1.0, 2.0, 2.0]


@pytest.mark.parametrize("filler", [np.nan, np.inf, 1e6])
def test_padding_and_chunk_size_do_not_change_the_curve(filler, monkeypatch):
    scores, y, lengths = world(5, seed=11)
    plain = sat_curve(scores, y, lengths)
    padded = np.concatenate([scores, np.zeros_like(scores)], axis=1)
    padded[np.arange(18) >= lengths[:, None]] = filler
    monkeypatch.setattr(records, "CHUNK_NUMBERS", 200)
    other = sat_curve(padded, y, lengths)
    assert np.array_equal(other.thresholds, plain.thresholds)
    assert np.array_equal(other.error, plain.error)
    assert np.array_equal(other.class_error, plain.class_error, equal_nan=True)
    assert ausat(other) == ausat(plain)


def test_permuting_series_and_classes_does_not_change_the_curve():
    scores, y, lengths = world(4, seed=12)
    plain = sat_curve(scores, y, lengths)
    rows, classes = np.random.default_rng(0).permutation(len(y)), np.array([2, 3, 1, 0])
    other = sat_curve(scores[rows][..., classes], np.argsort(classes)[y[rows]], lengths[rows])
    assert np.array_equal(other.mean_time, plain.mean_time)
    np.testing.assert_allclose(other.error, plain.error, atol=1e-14)
    np.testing.assert_allclose(other.class_error, plain.class_error[:, classes], atol=1e-14)


SMALL = np.zeros((2, 3, 2))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sat_curve(np.empty((0, 3, 2)), []), ValueError, "`scores` holds no series"),
        (lambda: sat_curve(np.zeros((3, 2)), [0, 1, 0]), ValueError, r"`scores` must have shape \(n, T, K\)"),
        (lambda: sat_curve(SMALL, [0]), ValueError, r"`y` must have shape \(2,\)"),
        (lambda: sat_curve(SMALL, [0, 2]), ValueError, r"class indices in \[0, 1\]"),
        (lambda: sat_curve(SMALL, ["a", "b"]), TypeError, "Map labels with np.unique"),
        (lambda: sat_curve(SMALL, [0, 1], [0, 3]), ValueError, r"`lengths` must be in \[1, 3\]"),
        (lambda: sat_curve(SMALL * np.nan, [0, 1]), ValueError, "`scores` must be finite"),
    ],
)
def test_invalid_arguments_raise(call, error, message):
    with pytest.raises(error, match=message):
        call()
