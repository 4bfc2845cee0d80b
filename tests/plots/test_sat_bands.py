import numpy as np
import pytest

from stopwise import plots

TIMES = [1.0, 2.0, 4.0, 8.0]
ERRORS = {
    "ours": np.array([[0.4, 0.2, 0.1, 0.02], [0.5, 0.3, 0.1, 0.04]]),
    "theirs": np.array([[0.5, 0.4, 0.3, 0.2]]),
}


def test_means_are_drawn_in_percent_with_bands_of_one_standard_error(lines):
    figure = plots.sat_bands(TIMES, ERRORS, reference=("known", [0.3] * 4), points={"fixed": (3.0, 0.2)})
    panel = figure.axes[0]
    ours, theirs, known = lines(panel)
    np.testing.assert_allclose(ours.get_ydata(), [45, 25, 10, 3])
    np.testing.assert_allclose(theirs.get_ydata(), [50, 40, 30, 20])
    assert known.get_linestyle() == "--"
    band, single_run = (collection.get_paths()[0].vertices[:, 1] for collection in panel.collections)
    assert (band.min(), band.max()) == pytest.approx((2, 50))
    assert (single_run.min(), single_run.max()) == pytest.approx((20, 50))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ours", "theirs", "known", "fixed"]


def test_error_axis_is_logarithmic_if_errors_differ_much():
    assert plots.sat_bands(TIMES, ERRORS).axes[0].get_yscale() == "log"
    assert plots.sat_bands(TIMES, {"theirs": ERRORS["theirs"]}).axes[0].get_yscale() == "linear"


def test_neighboring_times_of_one_significance_level_share_their_stars():
    panel = plots.sat_bands(TIMES, ERRORS, p_values=[0.2, 0.03, 0.02, 0.0001]).axes[0]
    assert [text.get_text() for text in panel.texts] == ["*", "***"]
    assert [round(text.get_position()[0], 2) for text in panel.texts] == [(1.5 + 6) / 2, 7.0]


def test_error_bars_show_standard_errors_and_the_largest_p_value_of_each_interval():
    figure = plots.sat_bands(TIMES, ERRORS, p_values=[0.01, 0.2, 0.02, 0.0001], error_bars=True)
    panel = figure.axes[0]
    texts = [text.get_text() for text in panel.texts if text.get_text().startswith("p")]
    assert texts == ["p ≤ 0.01", "p ≤ 0.02"]
    bars = [container for container in panel.containers if container.has_yerr]
    assert len(bars) == len(ERRORS)
    low, high = bars[0].lines[2][0].get_segments()[0][:, 1]
    assert (low, high) == pytest.approx((40, 50))


def test_p_values_of_narrow_intervals_do_not_cross_the_edges():
    times = np.arange(1.0, 33.0)
    p = np.where(np.isin(times, [1, 10, 32]), 0.01, 0.5)
    panel = plots.sat_bands(times, {"ours": np.full((2, 32), 0.1)}, p_values=p, error_bars=True).axes[0]
    sides = [text.get_horizontalalignment() for text in panel.texts if text.get_text().startswith("p")]
    assert sides == ["left", "center", "right"]
