import numpy as np
import pytest

import stopwise as sw
from stopwise import plots


def test_thresholds_equal_those_of_the_rule():
    threshold = np.array([3.0, 2.0, 0.5])
    lower, upper = plots.stopping_thresholds(sw.SPRT(threshold, per_step=True), steps=3, max_llr=10.0)
    assert upper == pytest.approx(threshold, abs=0.02)
    assert lower == pytest.approx(-threshold, abs=0.02)
    lower, upper = plots.stopping_thresholds(sw.SPRT.wald(0.01, 0.2), steps=2, max_llr=10.0)
    assert upper == pytest.approx([np.log(80)] * 2, abs=0.02)
    assert lower == pytest.approx([-np.log(4.95)] * 2, abs=0.02)
    lower, upper = plots.stopping_thresholds(sw.FixedTime(2), steps=3)
    assert np.isnan([lower[0], upper[0]]).all()
    assert lower[1:] == pytest.approx(0, abs=0.03)


def test_thresholds_of_an_object_that_is_not_a_rule_raise():
    with pytest.raises(TypeError, match=r"`rule` must be a stopping rule such as SPRT\(4.0\); got 4.0"):
        plots.stopping_thresholds(4.0, steps=3)


def test_both_thresholds_of_each_rule_and_the_series_are_drawn():
    scores = np.random.default_rng(0).normal(size=(5, 9, 2)).cumsum(1)
    scores[0, 6:] = np.nan
    rules = {"constant": sw.SPRT(2.0), "tapering": sw.Tapering(4.0, horizon=9)}
    panel = plots.stopping_boundaries(rules, scores, np.array([0, 1, 0, 1, 1]), series=3).axes[0]
    drawn = [line.get_ydata() for line in panel.get_lines()]
    assert len(drawn) == 1 + 3 + 2 * 2  # zero, series, thresholds
    assert drawn[1] == pytest.approx(scores[0, :6, 1] - scores[0, :6, 0])
    assert panel.get_ylim()[1] == pytest.approx(1.2 * 4.0 * 8 / 9, abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rules": {}}, "`rules` must be a dict"),
        ({"rules": {"one": sw.SPRT(2.0)}}, "`steps` and `scores` are both None"),
        ({"rules": {"one": sw.SPRT(2.0)}, "scores": np.zeros((4, 5, 3))}, "must have 2 classes.*got 3"),
    ],
)
def test_invalid_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.stopping_boundaries(**arguments)
