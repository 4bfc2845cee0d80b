"""Decisions on a data frame of Spark equal those of a local classifier."""

import datetime

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from stopwise.spark import decide

pytestmark = pytest.mark.spark
pytest.importorskip("pyspark", reason="pip install 'stopwise[spark]'")


def long_form(X, lengths=None, seed=0):
    """Return samples in long form, rows in random order."""
    lengths = np.full(len(X), X.shape[1]) if lengths is None else lengths
    rows = [(f"s{i}", t, *X[i, t]) for i in range(len(X)) for t in range(lengths[i])]
    df = pd.DataFrame(rows, columns=["name", "t", "u", "v"])
    return df.sample(frac=1, random_state=seed, ignore_index=True)


def found(frame, name="name"):
    return {row[name]: row for row in frame.collect()}


def assert_equal(rows, names, decisions):
    assert sorted(rows) == sorted(names)
    for name, decision, length in zip(names, decisions, decisions.lengths):
        row = rows[name]
        assert (row.label, row.time, row.forced) == (decision.label, decision.time, decision.forced)
        assert row.length == length
        np.testing.assert_allclose(row.scores, decision.scores, rtol=1e-5, atol=1e-5)


def test_decisions_equal_local_ones_for_rows_and_columns_in_any_order(spark, clf, X):
    lengths = np.arange(len(X)) % 8 + 1
    df = long_form(X, lengths)[["v", "t", "name", "u"]]
    expected = clf.decide([x[:n] for x, n in zip(X, lengths)])
    result = decide(spark.createDataFrame(df), clf, series="name", time="t")
    assert result.columns == ["name", "label", "time", "forced", "length", "scores"]
    assert_equal(found(result), [f"s{i}" for i in range(len(X))], expected)


def test_series_longer_than_an_arrow_batch(spark, clf, X):
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    spark.conf.set(key, 3)
    try:
        rows = found(decide(spark.createDataFrame(long_form(X)), clf, series="name", time="t"))
    finally:
        spark.conf.set(key, before)
    assert_equal(rows, [f"s{i}" for i in range(len(X))], clf.decide(X))


@pytest.mark.parametrize("kind", [int, float])
def test_missing_steps_are_filled_as_by_from_frame(spark, clf, X, kind):
    df = long_form(X)
    df = df[(df.t != 3) | (df.name == "s0")]
    df = df.assign(t=(10 * df.t).astype(kind))
    data = sw.from_frame(df, series="name", time="t")
    assert np.isnan(data.X[[data.names.index("s1")]].batch(np.array([0]))[0][0, 3]).all()
    expected = clf.decide(data.X)
    frame = spark.createDataFrame(df)
    assert_equal(found(decide(frame, clf, series="name", time="t")), data.names, expected)
    assert_equal(found(decide(frame, clf, series="name", time="t", step=10)), data.names, expected)
    unfilled = found(decide(frame, clf, series="name", time="t", step=None))
    assert {name: row.length for name, row in unfilled.items()} == {n: 8 - (n != "s0") for n in data.names}


def test_irregular_times_are_not_filled_and_warned_about(spark, clf, X):
    df = long_form(X).assign(t=lambda df: df.t**5)
    with pytest.warns(UserWarning, match="the times are irregular"):
        rows = found(decide(spark.createDataFrame(df), clf, series="name", time="t"))
    assert_equal(rows, [f"s{i}" for i in range(len(X))], clf.decide(X))


def test_times_may_be_dates_and_names_integers_and_labels_integers(spark, unnamed, X):
    X = np.nan_to_num(X)
    df = long_form(X)
    start = datetime.datetime(2026, 1, 31, 12)
    df = df.assign(
        t=[start + datetime.timedelta(hours=int(t)) for t in df.t],
        name=[np.int32(name[1:]) for name in df.name],
    )
    frame = spark.createDataFrame(df).selectExpr("cast(name as int) as name", "t", "u", "v")
    result = decide(frame, unnamed, series="name", time="t", channels=["u", "v"])
    assert dict(result.dtypes)["name"] == "int"
    assert dict(result.dtypes)["label"] == "bigint"
    assert_equal(found(result), list(range(len(X))), unnamed.decide(X))


def test_names_with_dots_and_dates_as_names(spark, clf, X):
    df = long_form(X[:3])
    days = {f"s{i}": datetime.datetime(2026, 1, 1 + i) for i in range(3)}
    df = df.assign(name=df.name.map(days)).rename(columns={"name": "the.day", "t": "the.time"})
    rows = found(decide(spark.createDataFrame(df), clf, series="the.day", time="the.time"), "the.day")
    assert_equal(rows, list(days.values()), clf.decide(X[:3]))


def test_an_empty_frame_has_no_decisions(spark, clf):
    frame = spark.createDataFrame([], "name string, t int, u double, v double")
    assert decide(frame, clf, series="name", time="t").collect() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda df: pd.concat([df, df[:1]]), "two rows at"),
        (lambda df: df.assign(t=df.t.where(df.index > 0)), "has a row without a time in column 't'"),
        (lambda df: df.assign(name=df.name.where(df.index > 0)), "column 'name' has empty cells"),
        (lambda df: df.assign(u=df.u.where(df.index > 0, np.inf)), "`X` must be finite"),
    ],
)
def test_rows_that_cannot_be_right_are_refused(spark, clf, X, change, message):
    from pyspark.errors import PythonException

    frame = spark.createDataFrame(change(long_form(X)))
    with pytest.raises(PythonException, match=message):
        decide(frame, clf, series="name", time="t").collect()


def test_a_step_that_does_not_fit_is_refused(spark, clf, X):
    from pyspark.errors import PythonException

    frame = spark.createDataFrame(long_form(X))
    with pytest.raises(PythonException, match="times that are not 2 or a multiple of it apart"):
        decide(frame, clf, series="name", time="t", step=2).collect()
    with pytest.raises(ValueError, match="`step` must be"):
        decide(frame, clf, series="name", time="t", step="daily")
    with pytest.raises(ValueError, match="`step` must be >= 1"):
        decide(frame, clf, series="name", time="t", step=0)


def test_a_streaming_frame_is_refused(spark, clf):
    frame = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match=r"Use stopwise\.spark\.decide_stream"):
        decide(frame, clf, series="value", time="timestamp")
