import base64

import numpy as np

from reporting.worlds import walks
from stopwise.reporting.examples import MOST, choose_examples, describe_examples
from stopwise.rules import SPRT


def test_every_kind_of_decision_has_an_example():
    scores, y, lengths = walks(1000)
    decisions = SPRT(2.0).decide(scores, lengths)
    rows = choose_examples(decisions, y, 3)
    assert len(rows) == MOST
    assert (np.diff(rows) > 0).all()
    pairs = set(zip(y, decisions.labels))
    assert len(pairs) == 9
    assert set(zip(y[rows], decisions.labels[rows])) == pairs
    assert decisions.times[rows].max() == decisions.times.max()
    assert decisions.times[rows].min() == 1


def test_few_series_are_all_examples():
    scores, y, lengths = walks(10)
    assert choose_examples(SPRT(2.0).decide(scores, lengths), y, 3).tolist() == list(range(10))


def test_scores_are_stored_up_to_rounding():
    scores, _, lengths = walks(10)
    rows = np.array([1, 4, 5])
    found = describe_examples(scores, lengths, rows)
    [(kind, text)] = found["below"].items()
    stored = np.frombuffer(base64.b64decode(text), f"<u{int(kind[1:]) // 8}").reshape(-1, 3)
    at = 0
    for row, points, unit in zip(rows, found["points"], found["units"]):
        assert points == lengths[row]
        own = scores[row, :points].astype(float)
        distance = own.max(-1, keepdims=True) - own
        assert np.abs(stored[at : at + points] * unit - distance).max() < 1e-3
        at += points
    assert at == len(stored)


def test_long_series_are_drawn_with_fewer_points():
    scores, _, lengths = walks(3, 5000, equal=True)
    found = describe_examples(scores, lengths, np.arange(3))
    assert len(found["steps"]) == 300
    assert found["steps"][0] == 1
    assert found["steps"][-1] == 5000
