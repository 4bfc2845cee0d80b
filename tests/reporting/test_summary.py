import numpy as np
import pytest

from stopwise.decision import Decisions
from stopwise.reporting.promise import Limit
from stopwise.reporting.summary import promise_as_text, rule_as_text, rule_name, sentences, tiles
from stopwise.rules import (
    SPRT,
    Calibrated,
    FiniteHorizon,
    FixedTime,
    Guarantee,
    MaxProbability,
    SlopedProbability,
    Tapering,
)


def decisions(labels, times=None, forced=None):
    n = len(labels)
    return Decisions(
        np.array(labels),
        np.array(times or [2] * n),
        np.array(forced or [False] * n),
        np.zeros((n, 3)),
        np.full(n, 4),
    )


def test_tiles():
    found = tiles(
        decisions([0, 1, 1, 2], [1, 2, 3, 4], [False, False, False, True]), np.arange(4) % 3, 3, None
    )
    assert [(tile.value, tile.remark) for tile in found] == [
        ("50.0 %", "2 of 4 series"),
        ("2.5", "on average, of 4.0"),
        ("25.0 %", "1 of 4 series ended undecided"),
        ("none", "the rule is not calibrated"),
    ]


@pytest.mark.parametrize(
    ("limits", "value", "remark", "state"),
    [
        ([Limit(None, 0.05, 0.031, 100, "kept")], "5 %", "observed 3.1 %: promise kept", "good"),
        ([Limit(None, 0.05, 0.07, 100, "chance")], "5 %", "observed 7.0 %: above, as by chance", ""),
        (
            [Limit("a", 0.05, 0.01, 50, "kept"), Limit("b", 0.1, 0.4, 50, "broken")],
            "10 %",
            "observed 40.0 % (class b): promise broken",
            "bad",
        ),
        ([Limit(None, 0.05, None, 9, "unknown")], "5 %", "too few series to compare", ""),
    ],
)
def test_the_tile_of_the_promise_shows_the_worst(limits, value, remark, state):
    tile = tiles(decisions([0, 1]), np.array([0, 1]), 3, limits)[-1]
    assert (tile.value, tile.remark, tile.state) == (value, remark, state)


def test_no_errors_and_training_series():
    found = sentences(decisions([0, 1]), np.array([0, 1]), np.array([0, 1]), ["a", "b", "c"], 2)
    assert found[2:] == [
        "No decision was forced by the end of a series.",
        "No class was taken for another.",
        "Caution: 2 of these 2 series were used in training. On new series, expect more errors.",
    ]


def test_the_most_confused_classes_come_first():
    text = sentences(decisions([1, 1, 1, 2, 2]), np.zeros(5), np.zeros(5, dtype=int), ["a", "b", "c"], 0)[3]
    assert text == "Most often confused: a taken for b (3 times), a taken for c (twice)."


def test_rules_as_text():
    _, y, scores = np.arange(40), np.arange(40) % 2, np.random.default_rng(0).normal(size=(40, 5, 2))
    guarantee = Guarantee("error_rate", 0.05, 0.95, 100, 0.04, 3.0, 10.0)
    texts = {
        SPRT(2.5): "by a log-likelihood ratio of 2.5.",
        Calibrated(2.5, guarantee): "by a log-likelihood ratio of 2.5.",
        SlopedProbability(1.0, -2.0, 20): "the probability it needs falls with time.",
        SlopedProbability(1.0, 2.0, 20): "the probability it needs rises with time.",
        MaxProbability(0.9): "the probability of a class reaches 90.0 %.",
        FixedTime(3): "decides every series at step 3.",
        Tapering(3.0, 7): "falls to 0 at step 7.",
        FiniteHorizon.fit(scores, y, cost=0.01): "(0.01 per sample), and at step 5 at the latest.",
        SPRT([1.0, 2.0]): "not a common one",
    }
    for rule, text in texts.items():
        assert text in rule_as_text(rule, 2)
    assert rule_name(Calibrated(2.5, guarantee)) == "SPRT(threshold=2.5), calibrated"
    assert promise_as_text(SPRT(2.5), None)[0].startswith("No error rate is promised.")
    kept = promise_as_text(Calibrated(2.5, guarantee), [Limit(None, 0.05, 0.04, 100, "kept")])
    assert kept[0].startswith("Promised: With confidence 95 %, at most 5 %")
    assert kept[1].endswith("within the promise.")
