import numpy as np
import pytest

from stopwise.reporting.promise import as_text, limits
from stopwise.rules import Calibrated, Guarantee


def calibrated(level=0.05, **options):
    return Calibrated(0.0, Guarantee("error_rate", level, 0.95, 100, 0.04, 1.0, 1.0, **options))


def one_step(n, wrong):
    """Return n series of class 0, of which some are decided as class 1."""
    scores = np.tile([1.0, 0.0], (n, 1, 1))
    scores[:wrong] = [0.0, 1.0]
    return scores, np.zeros(n, dtype=int), np.ones(n, dtype=int)


@pytest.mark.parametrize(
    ("wrong", "verdict", "text"),
    [
        (5, "kept", "Observed here: 5.00 % of all series decided wrongly; within the promise."),
        (8, "chance", "8.00 % of all series decided wrongly; above the promise, as can happen by chance."),
        (20, "broken", "above the promise by more than chance explains"),
    ],
)
def test_verdicts(wrong, verdict, text):
    rule = calibrated()
    [found] = limits(rule, *one_step(100, wrong))
    assert (found.level, found.observed, found.series, found.verdict) == (0.05, wrong / 100, 100, verdict)
    assert text in as_text([found], rule)[0]


def test_limits_by_class():
    rule = calibrated((0.05, None, 0.1), classes=("<a>", "b", "c"))
    scores, y, lengths = one_step(100, 20)
    scores = np.concatenate([scores, np.full((100, 1, 1), -1.0)], axis=2)
    found = limits(rule, scores, y, lengths)
    assert [(one.who, one.verdict) for one in found] == [("<a>", "broken"), ("c", "unknown")]
    assert as_text(found, rule)[1] == ("Observed for class c: not measured, because there are only 0 series.")


def test_conditional_guarantees_need_enough_series():
    rule = Calibrated(0.0, Guarantee("accuracy_gap", 0.05, 0.95, 100, 0.0, 1.0, 1.0, conditional=True))
    [few] = limits(rule, *one_step(99, 0))
    assert few.verdict == "unknown"
    [enough] = limits(rule, *one_step(100, 50))
    assert (enough.observed, enough.verdict) == (0.0, "kept")
    assert "correctly at the end, at the worst step" in as_text([enough], rule)[0]
