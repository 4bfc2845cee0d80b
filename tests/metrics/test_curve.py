"""Lookup on a SAT curve, thinning, and the area under the curve."""

import numpy as np
import pytest

from stopwise.metrics import ausat, sat_curve


def drifting_curve(n, classes=5, steps=9):
    """Return the curve of random scores that drift to the label."""
    rng = np.random.default_rng(13)
    y = rng.integers(classes, size=n)
    increments = rng.normal(size=(n, steps, classes))
    increments[np.arange(n), :, y] += 0.8
    return sat_curve(increments.cumsum(1), y, rng.integers(1, steps + 1, size=n))


# Leads: 1 then 3 in series 0, 2 then 5 in series 1. Series 0 is wrong after one sample only.
SMALL = np.array([[[0.0, 1.0], [3.0, 0.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 5.0], [0.0, 5.0]]])


def test_at_time_is_a_step_function_and_constant_beyond_both_ends():
    curve = sat_curve(SMALL, [0, 1])
    assert curve.mean_time.tolist() == [1.0, 1.5, 2.0, 2.5, 3.0]
    assert curve.error.tolist() == [0.5, 0.0, 0.0, 0.0, 0.0]
    assert curve.at_time([0.0, 1.0, 1.49, 1.5, 9.0]).tolist() == [0.5, 0.5, 0.5, 0.0, 0.0]
    assert isinstance(curve.at_time(1.2), float)
    assert curve.at_time(1.2) == 0.5


def test_area_under_the_curve():
    # Error 0.5 on [1, 1.5), 0 on [1.5, 3]: area 0.25, divided by the width 2.
    assert ausat(sat_curve(SMALL, [0, 1])) == pytest.approx(0.125)
    # With swapped labels series 0 is correct first, then wrong; series 1 is always wrong.
    # Error 0.5 on [1, 1.5), 1 on [1.5, 3]: area 1.75, divided by the width 2.
    assert ausat(sat_curve(SMALL, [1, 0])) == pytest.approx(0.875)


def test_area_is_extended_to_the_longest_series():
    # Series 1 ends after one step, so the mean time is at most 2, but T = 3.
    # Error 0.5 on [1, 1.5), 0 on [1.5, 3].
    curve = sat_curve(SMALL, [0, 1], lengths=[3, 1])
    assert curve.mean_time[-1] == 2.0
    assert ausat(curve) == pytest.approx(0.25 / 2)
    # With swapped labels: error 0.5 on [1, 1.5), 1 on [1.5, 3].
    assert ausat(sat_curve(SMALL, [1, 0], lengths=[3, 1])) == pytest.approx(0.875)


def test_area_of_one_step_is_the_error():
    assert ausat(sat_curve([[[0.0, 1.0]], [[0.0, 2.0]], [[3.0, 0.0]]], [1, 0, 0])) == 0.25


def test_thin_selects_evenly_spaced_points_and_both_ends():
    curve = drifting_curve(n=200)
    thin = curve.thin(12)
    assert 8 <= len(thin) <= 12
    where = np.searchsorted(curve.thresholds, thin.thresholds)
    assert (where[0], where[-1]) == (0, len(curve) - 1)
    for name in ("thresholds", "mean_time", "std_time", "error", "forced", "class_error"):
        np.testing.assert_array_equal(getattr(thin, name), getattr(curve, name)[where])
    gap = np.ptp(curve.mean_time) / 11
    assert np.abs(np.diff(thin.mean_time) - gap).max() < 0.3 * gap
    assert ausat(thin) == pytest.approx(ausat(curve), rel=0.15)
    assert curve.thin(10**6) is curve


def test_class_error_is_computed_on_first_use():
    curve = drifting_curve(n=40)
    assert "class_error" not in vars(curve)
    assert curve.class_error is curve.class_error
    assert repr(curve).startswith(f"SATCurve({len(curve)} points, mean time 1.00 to ")


CURVE = sat_curve(SMALL, [0, 1])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ausat([0.1, 0.2]),
            TypeError,
            r"`curve` must be a SATCurve, as returned by sat_curve\(\); got list",
        ),
        (lambda: CURVE.thin(1), ValueError, "`points` must be >= 2; got 1"),
        (lambda: CURVE.at_threshold(-1.0), ValueError, "`threshold` must be numbers >= 0, not NaN; got -1.0"),
        (lambda: CURVE.at_threshold([1.0, np.nan]), ValueError, "`threshold` must be numbers >= 0, not NaN"),
        (lambda: CURVE.at_time(np.nan), ValueError, "`mean_time` must be numbers, not NaN"),
        (lambda: CURVE.at_time("soon"), ValueError, "`mean_time` must be numbers.*got 'soon'"),
    ],
)
def test_invalid_arguments_raise(call, error, message):
    with pytest.raises(error, match=message):
        call()
