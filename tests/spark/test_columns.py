"""Columns are matched by name; what cannot be right is refused before anything runs."""

import pytest
from sklearn.exceptions import NotFittedError

import stopwise as sw
from stopwise.spark import decide, decide_stream

pytestmark = pytest.mark.spark
pytest.importorskip("pyspark", reason="pip install 'stopwise[spark]'")

COLUMNS = "key string, t int, time double, u double, v double, w float, text string, last boolean"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.fixture(scope="module")
def frame(spark):
    return spark.createDataFrame([], COLUMNS)


@pytest.fixture(scope="module")
def live(spark, tmp_path_factory):
    return spark.readStream.schema(COLUMNS).json(str(tmp_path_factory.mktemp("in")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"series": "id"}, "`series` must be a column of the data frame; got 'id'. It has key, t"),
        ({"series": "time"}, "`series` must not be 'time', which is a column of the result"),
        ({"time": "when"}, "`time` must be a column of the data frame; got 'when'"),
        ({"time": "text"}, "`time` must be a column of numbers or dates; 'text' is of type string"),
        ({"channels": ["u", "w"]}, "`channels` must be u, v, as in training, in any order; got u, w"),
        ({"channels": ["u"]}, "`channels` must be u, v, as in training"),
        ({"channels": ["u", "v", "v"]}, "`channels` must be 2 different column"),
    ],
)
def test_wrong_columns_of_series_are_refused(frame, clf, arguments, message):
    with pytest.raises(ValueError, match=message):
        decide(frame, clf, **{"series": "key", "time": "t"} | arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": "id"}, "`key` must be a column of the data frame; got 'id'"),
        ({"order_by": "text"}, "`order_by` must be a column of numbers or dates; 'text' is of type string"),
        ({"sequence": "time"}, "`sequence` must be a column of integers; 'time' is of type double"),
        ({"sequence": "t", "order_by": "t"}, "`order_by` and `sequence` cannot be combined"),
        ({"end": "text"}, "`end` must be a column of true and false; 'text' is of type string"),
        ({"idle": 0}, "`idle` must be in"),
        ({"on_idle": "wait"}, "`on_idle` must be one of 'force', 'drop'; got 'wait'"),
    ],
)
def test_wrong_arguments_of_streams_are_refused(live, clf, arguments, message):
    with pytest.raises(ValueError, match=message):
        decide_stream(live, clf, **{"key": "key", "idle": 60} | arguments)


def test_columns_that_are_missing_or_no_numbers_are_refused(frame, clf, unnamed):
    with pytest.raises(ValueError, match=r"`channels`: the data frame has no column 'v'\. It has key, t"):
        decide(frame.drop("v"), clf, series="key", time="t")
    with pytest.raises(ValueError, match="`channels` must be columns of numbers; 'text' is of type string"):
        decide(frame, unnamed, series="key", time="t", channels=["u", "text"])
    with pytest.raises(ValueError, match="has 2 columns 'u'"):
        decide(frame.withColumnRenamed("w", "u"), clf, series="key", time="t")


def test_a_model_without_channel_names_needs_columns(frame, unnamed):
    with pytest.raises(ValueError, match="`channels` is needed, because the model was trained without"):
        decide(frame, unnamed, series="key", time="t")
    with pytest.raises(ValueError, match="`channels` must be 2 different column"):
        decide(frame, unnamed, series="key", time="t", channels=["u", "v", "w"])


def test_a_model_that_cannot_be_used_raises_before_anything_runs(frame, tmp_path):
    with pytest.raises((FileNotFoundError, ValueError), match="No stopwise model at"):
        decide(frame, tmp_path / "missing", series="key", time="t")
    with pytest.raises(TypeError, match="`model` must be a fitted EarlyClassifier or the folder"):
        decide(frame, 3, series="key", time="t")
    with pytest.raises(NotFittedError):
        decide(frame, sw.EarlyClassifier(), series="key", time="t")


def test_a_frame_of_whole_series_is_no_stream(frame, clf):
    with pytest.raises(ValueError, match=r"Use stopwise\.spark\.decide"):
        decide_stream(frame, clf, key="key", idle=60)


def test_the_state_store_is_checked(spark, live, clf):
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(ValueError, match=r"needs the RocksDB state store.*spark.conf.set"):
            decide_stream(live, clf, key="key", idle=60)
    finally:
        spark.conf.set(PROVIDER, before)
