"""The packed records give exactly the decisions of the rule, at every position of the slider."""

import base64

import numpy as np
import pytest

from reporting.worlds import walks
from stopwise.metrics import sat_curve, summarize
from stopwise.reporting.packing import pack, pack_records, ranked_records
from stopwise.reporting.positions import slider_thresholds
from stopwise.rules import SPRT


def unpack_records(text, counts):
    """Decode as the page does: the plain twin of `pack_records`."""
    data, at = base64.b64decode(text), 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    found = []
    for count in counts:
        rank = time = label = 0
        own = []
        for _ in range(count):
            head = data[at]
            at += 1
            rank += 1 + (head >> 4)
            rank += number() if head >> 4 == 15 else 0
            time += 1 + (head >> 1 & 7)
            time += number() if head >> 1 & 7 == 7 else 0
            label = number() if head & 1 else label
            own.append((rank, time, label))
        found.append(own)
    assert at == len(data)
    return found


@pytest.mark.parametrize(
    ("n", "steps", "classes", "drift"),
    [(120, 20, 3, 0.3), (60, 60, 2, 2.0), (60, 1, 2, 0.1), (30, 300, 2, 0.01), (200, 3, 200, 3.0)],
)
def test_decisions_at_every_position(n, steps, classes, drift):
    scores, y, lengths = walks(n, steps, classes, drift)
    prior = np.arange(1, classes + 1) / np.arange(1, classes + 1).sum()
    thresholds = slider_thresholds(sat_curve(scores, y, lengths), len(y), own=1.2345678)
    records = ranked_records(scores, lengths, thresholds)
    decoded = unpack_records(pack_records(records), records.counts)
    at_end = SPRT(0.0).with_prior(prior).best_guess(scores[np.arange(len(y)), lengths - 1], lengths)
    for position, threshold in enumerate(thresholds):
        expected = SPRT(float(threshold)).with_prior(prior).decide(scores, lengths)
        for i, own in enumerate(decoded):
            reached = next((record for record in own if record[0] > position), None)
            label, time = (at_end[i], lengths[i]) if reached is None else (reached[2], reached[1])
            assert (label, time, reached is None) == (
                expected.labels[i],
                expected.times[i],
                expected.forced[i],
            )


def test_large_jumps_need_more_bytes():
    scores = np.zeros((1, 1000, 200))
    scores[0, :, 7] = 0.5
    scores[0, 900:, 150] = 99.9
    thresholds = np.append(np.linspace(0, 100, 300), np.inf)
    records = ranked_records(scores, np.array([1000]), thresholds)
    assert unpack_records(pack_records(records), records.counts) == [[(2, 1, 7), (298, 901, 150)]]


def test_a_lead_equal_to_the_threshold_is_enough():
    scores, lengths = np.array([[[0.0, 1.5], [0.0, 2.0]]]), np.array([2])
    records = ranked_records(scores, lengths, np.array([0.0, 1.5, 2.0, np.inf]))
    assert records.ranks.tolist() == [2, 3]


@pytest.mark.parametrize(("top", "kind"), [(255, "u8"), (256, "u16"), (65535, "u16"), (65536, "u32")])
def test_integers_are_packed_in_the_smallest_type(top, kind):
    [(found, text)] = pack([0, top]).items()
    assert found == kind
    assert np.frombuffer(base64.b64decode(text), f"<u{int(kind[1:]) // 8}").tolist() == [0, top]


def test_with_equal_priors_the_positions_are_points_of_the_curve():
    scores, y, lengths = walks()
    curve = sat_curve(scores, y, lengths)
    for threshold in slider_thresholds(curve, len(y)):
        found = summarize(SPRT(float(threshold)).decide(scores, lengths), y, 3)
        point = curve.at_threshold(threshold)
        assert found["macro_error"] == pytest.approx(point.error)
        assert found["mean_time"] == pytest.approx(point.mean_time)
