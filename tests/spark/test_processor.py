"""What is decided and stored for one key, with Spark's own simulation of its state and its clock."""

from dataclasses import replace

import numpy as np
import pytest

from stopwise.spark.processor import Processor, Settings, pack, unpack
from stopwise.spark.shipping import Shipped

pytestmark = pytest.mark.spark
Row = pytest.importorskip("pyspark.sql", reason="pip install 'stopwise[spark]'").Row
TwsTester = pytest.importorskip("pyspark.sql.streaming.tws_tester").TwsTester

IDLE = 1000


def processor(clf, **changes):
    plain = Settings(IDLE, force=True, rearm=False, ordered=True, numbered=False, ends=True)
    return TwsTester(Processor(Shipped(clf), replace(plain, **changes)), timeMode="ProcessingTime")


def rows(x, start=0, ends=False):
    return [
        Row(x=sample.tolist(), place=start + t, end=ends and t == len(x) - 1) for t, sample in enumerate(x)
    ]


@pytest.fixture(scope="module")
def late(clf, X):
    """A series (T, 2) that is decided before its end but not before its third sample."""
    times = clf.decide(X).times
    return X[int(np.flatnonzero((times >= 3) & (times < 7))[0])]


def same(row, decision):
    assert (row.label, row.time, row.forced) == (decision.label, decision.time, decision.forced)
    np.testing.assert_allclose(row.scores, decision.scores, rtol=1e-5, atol=1e-5)


def test_state_survives_bytes(clf, late):
    stream = clf.stream()
    stream.update(late[0])
    state = stream.state()
    restored = unpack(pack(state))
    assert restored.keys() == state.keys()
    for name, value in state.items():
        assert restored[name].dtype == value.dtype
        np.testing.assert_array_equal(restored[name], value)


def test_samples_in_any_order_and_several_batches_give_the_local_decision(clf, late):
    spark = processor(clf)
    expected = clf.decide(late[None])[0]
    found = spark.test("a", rows(late[:2])[::-1]) + spark.test("a", rows(late[2:], 2)[::-1])
    same(*found, expected)
    assert found[0].key == "a"


def test_samples_after_a_decision_are_ignored_and_the_model_state_is_freed(clf, late):
    spark = processor(clf)
    assert len(spark.test("a", rows(late))) == 1
    assert spark.peekValueState("key", "a")[-2:] == (True, None)
    assert spark.test("a", rows(late, 8, ends=True)) == []


@pytest.mark.parametrize("numbered", [False, True])
def test_late_and_repeated_samples_are_ignored_only_with_sequence_numbers(clf, late, numbered):
    spark = processor(clf, numbered=numbered)
    samples = rows(late)
    batches = [samples[:2], samples[:2], [samples[2], samples[2], *samples[3:]]]  # some delivered again
    found = [row for batch in batches for row in spark.test("a", batch)]
    expected = clf.decide(late[None])[0]
    if numbered:
        same(found[0], expected)
        assert found[0].ignored == 3
    else:
        repeated = np.concatenate([late[[0, 1, 0, 1, 2]], late[2:]])
        same(found[0], clf.decide(repeated[None])[0])
        assert found[0].ignored == 0


def test_rearm_starts_over_after_the_decision_or_after_the_end(clf, late):
    expected = clf.decide(late[None])[0]
    at_once, at_end = processor(clf, rearm=True, ends=False), processor(clf, rearm=True)
    found = at_once.test("a", rows(late[: expected.time]) + rows(late[: expected.time], 8))
    assert [row.time for row in found] == [expected.time] * 2
    assert at_once.peekValueState("key", "a") is None  # nothing to remember: freed at once
    assert list(at_once.handle.listTimers()) == []
    found = at_end.test("a", rows(late, ends=True) + rows(late, 8, ends=True))
    assert [row.time for row in found] == [expected.time] * 2  # samples between decision and end are ignored


def test_an_end_forces_the_decision_also_without_a_sample(clf, X):
    series = X[int(np.flatnonzero(clf.decide(X).times > 1)[0])][:1]
    expected = clf.decide(series[None])[0]
    assert expected.forced
    with_sample, without = processor(clf), processor(clf)
    same(*with_sample.test("a", rows(series, ends=True)), expected)
    assert without.test("a", rows(series)) == []
    same(*without.test("a", [Row(x=None, place=1, end=True)]), expected)
    assert without.test("b", [Row(x=None, place=1, end=True)]) == []  # nothing to decide


def test_an_idle_key_is_forced_once_and_freed(clf, late):
    spark = processor(clf)
    spark.test("a", rows(late[:1]))
    assert spark.setProcessingTime(IDLE // 2) == []
    spark.test("a", rows(late[1:2], 1))  # the key is idle from here
    assert spark.setProcessingTime(IDLE) == []
    assert spark.peekValueState("key", "a") is not None
    same(*spark.setProcessingTime(IDLE // 2 + IDLE), clf.decide(late[None, :2])[0])
    assert spark.peekValueState("key", "a") is None
    assert spark.setProcessingTime(10 * IDLE) == []
    assert len(spark.test("a", rows(late))) == 1  # a new series


def test_a_decided_key_is_freed_without_another_decision(clf, late):
    spark = processor(clf, numbered=True)
    spark.test("a", rows(late))
    assert spark.setProcessingTime(IDLE) == []
    assert spark.peekValueState("key", "a") is None


def test_dropping_leaves_keys_to_the_time_to_live_of_spark(clf, late):
    asked = []

    class Handle:
        def getValueState(self, name, schema, time_to_live):
            asked.append(time_to_live)

    for force in (False, True):
        Processor(Shipped(clf), Settings(IDLE, force, False, True, False, True)).init(Handle())
    assert asked == [IDLE, None]
    spark = processor(clf, force=False)
    spark.test("a", rows(late[:1]))
    assert list(spark.handle.listTimers()) == []
