"""A local Spark and a small classifier. Run by `make test-spark`, because Spark is large."""

import json
import os
import sys

import numpy as np
import pytest

import stopwise as sw
from helpers import early

STEPS = 8
SCHEMA = "key string, t int, u double, v double, last boolean"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers use the same Python
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        # The memory a state store reports is mostly its cache and its write buffer. Small ones soon fill.
        .config("spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB", "1")
        .config("spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB", "1")
        # Without this a query that processes what is available would wait for idle keys, and never end.
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def clf():
    """A classifier with channel names u, v and labels no, yes, which takes missing values."""
    X, y, _ = sw.datasets.gaussian(200, offset=1.0, channels=2, length=STEPS, seed=0)
    clf = early(order=1, max_epochs=2, rule=sw.SPRT(3.0), missing="mask")
    return clf.fit(sw.SeriesSet(X, channel_names=["u", "v"]), np.array(["no", "yes"])[y])


@pytest.fixture(scope="session")
def unnamed():
    """A classifier without channel names that refuses missing values and has integer labels."""
    X, y, _ = sw.datasets.gaussian(200, offset=1.0, channels=2, length=STEPS, seed=0)
    return early(order=1, max_epochs=2, rule=sw.SPRT(3.0)).fit(X, y)


@pytest.fixture(scope="session")
def X():
    """(12, 8, 2) series with missing values."""
    X = sw.datasets.gaussian(12, offset=1.0, channels=2, length=STEPS, seed=1)[0].astype(np.float64)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X


@pytest.fixture
def feed(tmp_path):
    """Return a function that writes rows to a file of the folder that a stream reads."""
    folder = tmp_path / "in"
    folder.mkdir()

    def write(name, rows):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    write.folder = folder
    return write


@pytest.fixture
def stream(spark, feed, tmp_path):
    """Return a function that decides on what was fed so far; it returns all decisions and the progress."""
    from stopwise.spark import decide_stream

    def run(model, *, files=1, schema=SCHEMA, **arguments):
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).json(str(feed.folder))
        decisions = decide_stream(frame, model, key="key", **{"idle": 3600} | arguments)
        writer = decisions.writeStream.format("json").option("path", str(tmp_path / "reported"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).outputMode("append")
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(300), "the query did not end"
        found = spark.read.schema(decisions.schema).json(str(tmp_path / "reported")).collect()
        return found, query.recentProgress

    return run


def samples(X, steps, prefix="s"):
    """Return rows of samples, not in the order of time."""
    return [
        {"key": f"{prefix}{i}", "t": t, "last": t == STEPS - 1}
        | {column: float(x) for column, x in zip("uv", X[i, t]) if np.isfinite(x)}
        for t in reversed(steps)
        for i in range(len(X))
    ]


@pytest.fixture(scope="session")
def as_rows():
    return samples
