"""Decisions on streams with Spark equal those of local streams."""

import numpy as np
import pytest

import stopwise as sw

pytestmark = pytest.mark.spark
pytest.importorskip("pyspark", reason="pip install 'stopwise[spark]'")


def counted(progress):
    """Return the samples and rejected samples of all micro-batches."""
    metrics = [one["observedMetrics"]["stopwise"] for one in progress]
    return sum(one["samples"] for one in metrics), sum(one["rejected"] for one in metrics)


@pytest.mark.parametrize("on_idle", ["force", "drop"])
def test_streams_decide_like_local_ones_across_batches_and_restarts(
    stream, feed, as_rows, clf, X, tmp_path, on_idle
):
    clf.save(tmp_path / "model")
    arguments = {"sequence": "t", "end": "last", "on_idle": on_idle}
    feed("1.json", as_rows(X, range(3)))
    feed("2.json", as_rows(X, range(2, 5)))  # step 2 is delivered again
    early, _ = stream(tmp_path / "model", **arguments)
    feed("3.json", as_rows(X, range(5, 8)))
    found, progress = stream(tmp_path / "model", **arguments)  # a new query resumes from the checkpoint
    assert 0 < len(early) < len(found) == len(X)
    assert counted(progress) == (3 * len(X), 0)
    assert sum(row.ignored for row in found) > 0
    expected = clf.decide(X)
    for row in found:
        decision = expected[int(row.key[1:])]
        assert (row.label, row.time, row.forced) == (decision.label, decision.time, decision.forced)
        np.testing.assert_allclose(row.scores, decision.scores, rtol=1e-5, atol=1e-5)


def test_rows_that_cannot_be_used_are_counted_and_the_rest_is_decided(stream, feed, as_rows, unnamed, X):
    series = np.nan_to_num(X)
    rows = as_rows(series, range(8))
    bad = [
        {"key": None, "t": 1, "u": 1.0, "v": 1.0},
        {"key": "s0", "t": None, "u": 1.0, "v": 1.0},
        {"key": "s0", "t": 0, "u": 1.0},  # v is missing, and the model takes no missing values
        {"key": "s0", "t": 0, "u": 1.0, "v": 1e300},
    ]
    found, progress = stream_of(stream, feed, bad + rows, unnamed)
    assert counted(progress) == (len(rows) + 4, 4)
    assert_decided(found, unnamed.decide(series))


def test_a_row_that_only_ends_a_series_is_no_rejected_sample(stream, feed, as_rows, unnamed, X):
    series = np.nan_to_num(X)[:, :2]
    rows = as_rows(series, range(2)) + [{"key": f"s{i}", "t": 2, "last": True} for i in range(len(X))]
    found, progress = stream_of(stream, feed, rows, unnamed)
    assert counted(progress) == (len(rows), 0)
    assert any(row.forced for row in found)
    assert_decided(found, unnamed.decide(series))


def stream_of(stream, feed, rows, model):
    feed("1.json", rows)
    return stream(model, order_by="t", end="last", channels=["u", "v"])


def assert_decided(found, expected):
    decided = {int(row.key[1:]): (row.label, row.time, row.forced) for row in found}
    assert len(found) == len(decided) == len(expected)
    assert [decided[i] for i in range(len(expected))] == [(d.label, d.time, d.forced) for d in expected]


def test_a_long_batch_of_one_key_is_one_series(spark, stream, feed, clf):
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    spark.conf.set(key, 3)
    try:
        X = np.zeros((1, 8, 2))
        rows = [{"key": "s0", "t": t, "u": 0.0, "v": 0.0, "last": t == 7} for t in range(8)][::-1]
        feed("1.json", rows)
        found, _ = stream(clf, order_by="t", end="last")
    finally:
        spark.conf.set(key, before)
    assert_decided(found, clf.decide(X))


def test_another_model_refuses_the_states_of_a_checkpoint(stream, feed, as_rows, clf, unnamed, X):
    from pyspark.errors import StreamingQueryException

    feed("1.json", as_rows(X, range(1)))
    stream(clf, order_by="t")
    feed("2.json", as_rows(np.nan_to_num(X), range(1, 2)))
    other = sw.EarlyClassifier(unnamed.model, missing="mask", rule=sw.SPRT(3.0), progress=False)
    Z, y, _ = sw.datasets.gaussian(50, channels=2, length=8, seed=3)
    other.fit(sw.SeriesSet(Z, channel_names=["u", "v"]), np.array(["no", "yes"])[y])
    with pytest.raises(StreamingQueryException, match="it was created by another model"):
        stream(other, order_by="t")
