import numpy as np
import pytest

from reporting.worlds import walks
from stopwise.metrics import sat_curve
from stopwise.reporting.positions import MOST_POSITIONS, common_threshold, slider_thresholds
from stopwise.rules import SPRT, Calibrated, Guarantee, Tapering


def test_positions_cover_the_curve():
    scores, y, lengths = walks(2000, 40)
    curve = sat_curve(scores, y, lengths)
    thresholds = slider_thresholds(curve, len(y), own=2.718281828)
    assert thresholds[0] == 0
    assert thresholds[-1] == np.inf
    assert 2.718281828 in thresholds
    assert (np.diff(thresholds[:-1]) > 0).all()
    assert 100 < len(thresholds) <= MOST_POSITIONS + 2
    times = curve.at_threshold(thresholds).mean_time
    assert np.diff(times).max() < 0.05 * (times[-1] - times[0])


def test_numbers_are_short():
    scores, y, lengths = walks()
    thresholds = slider_thresholds(sat_curve(scores, y, lengths), len(y))
    assert all(float(f"{value:.3g}") == value for value in thresholds)


def test_close_leads_get_more_digits():
    leads = 1000 + np.linspace(0, 1, 50)
    scores = np.stack([leads, np.zeros(50)], -1)[:, None]
    thresholds = slider_thresholds(sat_curve(scores, np.arange(50) % 2), 50)
    assert len(thresholds) > 25


def test_very_many_series_get_fewer_positions():
    scores, y, lengths = walks(2000, 40)
    curve = sat_curve(scores, y, lengths)
    assert len(slider_thresholds(curve, 100_000)) <= 42
    assert len(slider_thresholds(curve, 10_000_000)) <= 22


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (SPRT(3.0), 3.0),
        (SPRT(error_rate=0.05), np.log(2 / 0.05)),
        (Calibrated(2.0, Guarantee("error_rate", 0.05, 0.95, 100, 0.04, 3.0, 10.0)), 2.0),
        (SPRT([1.0, 2.0, 3.0]), None),
        (SPRT([1.0, 2.0], per_step=True), None),
        (SPRT(error_rate=[0.1, 0.1, 0.2]), None),
        (Tapering(3.0, 10), None),
    ],
)
def test_common_threshold(rule, expected):
    assert common_threshold(rule, 3) == expected
