"""Text and validation of guarantees."""

import pytest

from stopwise.rules import Calibrated, Guarantee


@pytest.mark.parametrize(
    ("guarantee", "text"),
    [
        (
            Guarantee("error_rate", (0.05, 0.05), 0.9, 10, (0.0, 0.0), 2, 5, classes=("a", "b")),
            "With confidence 90 %, at most 5 % of the new series of each class are decided wrongly",
        ),
        (
            Guarantee("error_rate", (0.05, 0.01, None), 0.9, 10, (0, 0, 0), 2, 5, classes=("a", "b", "c")),
            "of the new series at most 5 % of class 'a' and 1 % of class 'b' are decided wrongly; nothing is "
            "guaranteed for class 'c' (calibrated on 10 series; mean stopping time 2 of 5 samples)",
        ),
        (
            Guarantee("accuracy_gap", 0.02, 0.95, 1000, 0.01, 7.25, 50.0),
            "at most 2 % of new series are decided wrongly that would have been decided correctly at their "
            "end (calibrated on 1000 series; mean stopping time 7.25 of 50 samples)",
        ),
        (
            Guarantee("accuracy_gap", 0.02, 0.95, 1000, 0.01, 7.25, 50.0, conditional=True),
            "of the new series decided by any one step, at most 2 % are decided wrongly that would have been "
            "decided correctly at their end (calibrated on 1000 series, half of them to choose the thr",
        ),
    ],
)
def test_guarantee_is_printed_as_a_sentence(guarantee, text):
    assert text in str(guarantee)
    assert str(guarantee).endswith("Holds if new series come from the same source as the calibration series.")
    assert eval(repr(guarantee)) == guarantee


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (3, TypeError, r"`guarantee` must be a Guarantee, as created by calibrate\(\); got 3"),
        ({"goal": 3}, TypeError, "`guarantee` must be a Guarantee"),
        ({"target": "error_rate"}, TypeError, "`guarantee` must be a Guarantee"),
        (("mean_time", 3.0, 0.9, 10, 0.0, 2, 5), ValueError, "`target` must be one of"),
        (("error_rate", 0.1, None, 10, 0.0, 2, 5), TypeError, "`confidence` must be a number"),
        (("aim", 0.1, 0.9, 10, 0.0, 2, 5), ValueError, "`target` must be one of"),
        (
            ("error_rate", (0.1, 0.2), 0.9, 10, 0.0, 2, 5),
            ValueError,
            "`classes` must hold a name for each of the 2",
        ),
    ],
)
def test_invalid_guarantees_raise(values, error, message):
    with pytest.raises(error, match=message):
        Calibrated(1.0, Guarantee(*values) if isinstance(values, tuple) else values)
