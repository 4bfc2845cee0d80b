import numpy as np
import pytest

from stopwise import plots

LEVELS = [0.05, 0.1, 0.2]
RATES = {
    "textbook": [0.1, 0.2, 0.3],
    "calibrated": [[0.04, 0.08, 0.17], [0.05, 0.09, 0.19], [0.03, 0.1, 0.18]],
}


def test_rates_and_medians_of_draws_are_shown_in_percent(lines):
    figure = plots.guarantees(LEVELS, {"one": RATES})
    textbook, calibrated = lines(figure.axes[0])
    assert calibrated.get_xdata().tolist() == [5, 10, 20]
    assert np.allclose(textbook.get_ydata(), [10, 20, 30])
    assert np.allclose(calibrated.get_ydata(), [4, 9, 18])


BAD = {
    "levels": (([0.2, 0.1], {"one": RATES}), "two or more increasing rates"),
    "no panels": ((LEVELS, {}), "`panels` must be a dict"),
    "shape": (([0.1, 0.2], {"a": RATES}), r"the rates of 'textbook' must have shape \(2,\) or"),
    "percent": (([0.1, 0.2], {"a": {"b": [3, 4]}}), r"the rates of 'b' must be in \[0, 1\]"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_invalid_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.guarantees(*arguments)
