"""Decisions on keyed streams with Structured Streaming; the state of a key is freed when it is idle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stopwise.estimator import EarlyClassifier
from stopwise.spark.columns import (
    DATES,
    FLOATS,
    INTEGERS,
    channel_columns,
    check_column,
    check_key,
)
from stopwise.spark.processor import Processor, Settings
from stopwise.spark.samples import usable_samples
from stopwise.spark.shipping import Shipped, as_classifier, label_type
from stopwise.validation import check_choice, check_real

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OUTPUT = ("label", "time", "forced", "scores", "ignored")
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def decide_stream(
    frame: DataFrame,
    model: EarlyClassifier | str | Path,
    *,
    key: str,
    idle: float,
    on_idle: str = "force",
    channels: Sequence[str] | None = None,
    order_by: str | None = None,
    sequence: str | None = None,
    end: str | None = None,
    rearm: bool = False,
) -> DataFrame:
    """Decide on the keyed streams of a streaming data frame.

    Spark partitions the streams by key, stores the state of each key and recovers it from its checkpoint. A
    key is freed after `idle` seconds without samples. Samples that cannot be used (without a key, infinite,
    or missing values that the model does not take) are skipped. The observed metrics of the query's progress
    count them: ``query.lastProgress["observedMetrics"]["stopwise"]`` has ``samples`` and ``rejected``.

    Parameters
    ----------
    frame
        A streaming data frame with one row per sample.
    model
        A fitted classifier, or the folder of a saved one. Spark carries it to the workers.
    key
        Column with the key of the stream.
    idle
        Seconds without samples after which a key is freed, by the clock of the cluster. A later sample of
        the key starts a new series, so choose it longer than any pause of a series or of the query.
    on_idle
        What happens to a stream that is freed before its decision. "force": the decision is forced. "drop":
        there is none; Spark counts the key as ``numValuesRemovedDueToTTLExpiry``.
    channels
        Columns with the channels of the sample. None: the channel names of the model. A model without names
        needs the columns, in the same order as in training. Null is a missing value.
    order_by
        Column of numbers or dates by which the samples of a key are sorted within a micro-batch, because
        Spark does not guarantee their order. None: samples are taken in the order in which they arrive.
    sequence
        Integer column that increases with every sample of a key, until the key is freed. Samples are sorted
        by it within a micro-batch. Those that are late or repeated are ignored, and counted in the column
        ``ignored``. It replaces `order_by`.
    end
        Boolean column that is true for the last sample of a series. If there is no decision by then, it is
        forced. None: series end when they are idle.
    rearm
        False: samples after a decision are ignored until the key is freed. True: a new series starts with
        the next sample, or, with `end`, with the next sample after the end.

    Returns
    -------
    decisions
        A streaming data frame in append mode, with one row per decision: the key, ``label``, ``time``,
        ``forced``, ``scores`` and ``ignored``, the number of late or repeated samples before the decision.

    Examples
    --------
    >>> schema = "key string, t int, u double, v double"
    >>> samples = spark.readStream.schema(schema).json("samples")  # doctest: +SKIP
    >>> decide_stream(samples, "model", key="key", idle=3600, sequence="t")  # doctest: +SKIP
    DataFrame[key: string, label: string, time: bigint, forced: boolean, scores: array<double>,
        ignored: bigint]
    """
    clf = as_classifier(model)
    if not frame.isStreaming:
        raise ValueError(
            "`frame` must be a streaming data frame (spark.readStream); got one of whole series. Use "
            "stopwise.spark.decide."
        )
    _check_store(frame)
    kind = check_key(frame, "key", key, OUTPUT)
    names = channel_columns(frame, clf, channels)
    settings = Settings(
        idle=_milliseconds(idle),
        force=check_choice("on_idle", on_idle, ["force", "drop"]) == "force",
        rearm=bool(rearm),
        ordered=_check_order(frame, order_by, sequence),
        numbered=sequence is not None,
        ends=end is not None,
    )
    if end is not None:
        check_column(frame, "end", end, {"boolean"}, "true and false")
    samples = usable_samples(frame, clf.inputs_, names, key=key, place=order_by or sequence, end=end)
    schema = f"key {kind}, label {label_type(clf.classes_)}, time bigint, forced boolean"
    decided = samples.groupBy("key").transformWithState(
        Processor(Shipped(clf), settings),
        f"{schema}, scores array<double>, ignored bigint",
        "append",
        "ProcessingTime",
    )
    return decided.withColumnRenamed("key", key)


def _check_store(frame: DataFrame) -> None:
    """Raise an error if the session does not use the state store that `transformWithState` needs."""
    used = frame.sparkSession.conf.get(PROVIDER, "")
    if "RocksDB" not in str(used):
        raise ValueError(
            f"`frame`: decide_stream needs the RocksDB state store; {PROVIDER} is {used}. Set it before the "
            f'query starts: spark.conf.set("{PROVIDER}", "{ROCKSDB}").'
        )


def _check_order(frame: DataFrame, order_by: str | None, sequence: str | None) -> bool:
    """Return whether samples are sorted; raise an error if the column is missing or cannot be used."""
    if order_by is not None and sequence is not None:
        raise ValueError("`order_by` and `sequence` cannot be combined: samples are sorted by `sequence`.")
    if order_by is not None:
        check_column(frame, "order_by", order_by, INTEGERS | FLOATS | DATES, "numbers or dates")
    if sequence is not None:
        check_column(frame, "sequence", sequence, INTEGERS, "integers")
    return order_by is not None or sequence is not None


def _milliseconds(idle: float) -> int:
    return max(1, round(1000 * check_real("idle", idle, 0, 1e10, open_low=True)))
