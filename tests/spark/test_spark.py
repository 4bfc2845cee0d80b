"""Decisions on Spark equal those of local streams. Run by `make test-spark`, because Spark is large."""

import json
import os
import sys

import numpy as np
import pytest

import stopwise as sw
from helpers import early
from stopwise.spark import decide

pytestmark = pytest.mark.spark
pyspark = pytest.importorskip("pyspark", reason="pip install 'stopwise[spark]'")

SERIES, STEPS = 12, 8
SCHEMA = "key string, t int, u double, v double, last boolean"


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers use the same Python
    session = (
        pyspark.sql.SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    X, y, _ = sw.datasets.gaussian(200, offset=1.0, channels=2, length=STEPS, seed=0)
    clf = early(order=1, max_epochs=2, rule=sw.SPRT(3.0), missing="mask")
    clf.fit(X, np.array(["no", "yes"])[y]).save(path)
    return path


@pytest.fixture(scope="module")
def X():
    X = sw.datasets.gaussian(SERIES, offset=1.0, channels=2, length=STEPS, seed=1)[0]
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X


def write(folder, name, X, steps):
    """Write a file of samples, not in the order of time."""
    rows = [
        {"key": f"s{i}", "t": t, "last": t == STEPS - 1}
        | {column: float(x) for column, x in zip("uv", X[i, t]) if np.isfinite(x)}
        for t in reversed(steps)
        for i in range(len(X))
    ]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(spark, folder, model, out):
    """Process all available files, then stop; Spark stores its progress in `out/checkpoint`."""
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
    decisions = decide(frame, str(model), key="key", channels=["u", "v"], order_by="t", end="last")
    writer = decisions.writeStream.format("json").option("path", str(out / "reported"))
    writer = writer.option("checkpointLocation", str(out / "checkpoint")).outputMode("append")
    writer.trigger(availableNow=True).start().awaitTermination(240)
    return {row["key"]: row for row in spark.read.json(str(out / "reported")).collect()}


def test_spark_decides_like_local_streams_across_batches_and_restarts(spark, model, X, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder, "1.json", X, range(3))
    write(folder, "2.json", X, range(3, 5))
    early = run(spark, folder, model, tmp_path)
    write(folder, "3.json", X, range(5, STEPS))
    reported = run(spark, folder, model, tmp_path)  # a new query, which resumes from the checkpoint
    expected = sw.load(model).decide(X)
    assert len(reported) == SERIES
    assert 0 < len(early) < SERIES
    for i in range(SERIES):
        row, decision = reported[f"s{i}"], expected[i]
        assert (row["label"], row["time"], row["forced"]) == (decision.label, decision.time, decision.forced)
        np.testing.assert_allclose(row["scores"], decision.scores, rtol=1e-5, atol=1e-5)


def test_a_missing_model_raises_before_the_query_starts(spark, tmp_path):
    frame = spark.readStream.schema(SCHEMA).json(str(tmp_path))
    with pytest.raises((FileNotFoundError, ValueError), match="No stopwise model at"):
        decide(frame, str(tmp_path / "missing"), key="key", channels=["u", "v"])
