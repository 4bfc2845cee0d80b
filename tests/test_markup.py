"""What notebooks show: short, useful, and safe whatever the names are."""

import numpy as np

import stopwise as sw
from notebook_html import ALLOWED, HOSTILE, Reader, read
from stopwise import markup
from stopwise.metrics import ausat, sat_curve
from stopwise.rules.calibration.guarantee import Guarantee


def test_long_texts_and_tables_are_shortened():
    assert len(markup.text("x" * 1000)) == markup.LONGEST_TEXT
    shown = markup.table(["a", "b"], [[i, i] for i in range(50)])
    assert "and 38 more" in shown
    assert Reader(shown).tags <= ALLOWED


def test_decisions_show_times_by_decided_class():
    decisions = sw.Decisions(
        labels=np.array([HOSTILE, "walk", "walk"]),
        times=np.array([1, 2, 4]),
        forced=np.array([False, False, True]),
        scores=np.zeros((3, 2)),
        lengths=np.array([4, 4, 4]),
    )
    text = read(decisions)
    for expected in ("Decisions on 3 series", "2.33 of 4.00 samples", "1 (33.3 %)", HOSTILE, "walk 2 3.00 1"):
        assert expected in text
    none = sw.SPRT(1.0).decide(np.zeros((0, 3, 2)))
    assert read(none) == "Decisions on 0 series"


def test_a_curve_shows_some_points_and_its_area():
    _, y, scores = sw.datasets.gaussian(n=50, seed=0)
    curve = sat_curve(scores, y)
    text = read(curve)
    assert f"8 of {len(curve)} points" in text
    assert f"(AUSAT): {ausat(curve):.4f}" in text
    last = f"inf {curve.mean_time[-1]:.2f} {100 * curve.error[-1]:.1f} % {100 * curve.forced[-1]:.1f} %"
    assert last in text
    assert "all of 2 points" in read(sat_curve([[[0.0, 1.0]]], [1]))


def test_a_guarantee_shows_its_sentence_and_what_was_observed():
    one = Guarantee("error_rate", 0.05, 0.95, series=2000, observed=0.041, mean_time=7.3, mean_length=50)
    text = read(one)
    assert str(one) in text
    assert "all series 5 % 4.1 %" in text
    by_class = Guarantee(
        "error_rate", (0.05, None), 0.95, 100, (None, 0.2), 2.0, 5.0, classes=(HOSTILE, "walk")
    )
    text = read(by_class)
    assert f"{HOSTILE} 5 % –" in text
    assert "walk – 20 %" in text
