"""Decisions on whole series in long form: one row per sample, rows in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stopwise.estimator import EarlyClassifier
from stopwise.extras import extra
from stopwise.spark.columns import (
    DATES,
    FLOATS,
    INTEGERS,
    channel_columns,
    check_column,
    check_key,
    numbers,
    quoted,
)
from stopwise.spark.gaps import Gaps, is_whole, on_grid
from stopwise.spark.partitions import each_series
from stopwise.spark.shipping import Shipped, as_classifier, label_type, plain_label
from stopwise.validation import check_integer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

OUTPUT = ("label", "time", "forced", "length", "scores")
MOST_SERIES, MOST_NUMBERS = 4096, 1 << 22  # decided in one call on a worker


def decide(
    frame: DataFrame,
    model: EarlyClassifier | str | Path,
    *,
    series: str,
    time: str,
    channels: Sequence[str] | None = None,
    step: int | str | None = "auto",
) -> DataFrame:
    """Decide on whole series in long form, one row per sample.

    The decisions are those of ``clf.decide(sw.from_frame(df, series=..., time=..., channels=...).X)``. Rows
    may be in any order; they are sorted by time. A series without a name, a row without a time and two rows
    at the same time raise an error when the result is computed.

    Parameters
    ----------
    frame
        A data frame of Spark, not a streaming one.
    model
        A fitted classifier, or the folder of a saved one. Spark carries it to the workers.
    series
        Column that names the series of a row.
    time
        Column of the time: numbers or dates, distinct within a series.
    channels
        Columns of the channels. None: the channel names of the model. A model without names needs the
        columns, in the same order as in training. Null is a missing value.
    step
        Distance of integer times on a regular grid; missing steps become NaN. "auto": as in `from_frame`,
        which reads the times once before the decisions. None: gaps are not filled, samples are used in their
        order.

    Returns
    -------
    decisions
        A data frame with one row per series, in no particular order: the series, ``label``, ``time`` (the
        number of samples seen), ``forced``, ``length`` and ``scores``.

    Examples
    --------
    >>> samples = spark.read.parquet("samples")  # doctest: +SKIP
    >>> decide(samples, "model", series="patient", time="hour")  # doctest: +SKIP
    DataFrame[patient: string, label: string, time: bigint, forced: boolean, length: bigint,
        scores: array<double>]
    """
    with extra("spark", "Spark"):
        from pyspark.sql import functions as F

    clf = as_classifier(model)
    if frame.isStreaming:
        raise ValueError(
            "`frame` must hold whole series; got a streaming data frame. Use stopwise.spark.decide_stream."
        )
    kind = check_key(frame, "series", series, OUTPUT)
    time_kind = check_column(frame, "time", time, INTEGERS | FLOATS | DATES, "numbers or dates")
    names = channel_columns(frame, clf, channels)
    rows = frame.select(
        quoted(series).alias("series"), quoted(time).alias("time"), F.array(*numbers(names)).alias("x")
    )
    whole = rows.repartition("series").sortWithinPartitions("series", "time")
    worker = _Worker(Shipped(clf), _step(whole, step, time_kind), series, time)
    schema = f"series {kind}, label {label_type(clf.classes_)}, time bigint, forced boolean, length bigint"
    decided = whole.mapInArrow(worker.decide, f"{schema}, scores array<double>")
    return decided.withColumnRenamed("series", series)


def _step(whole: DataFrame, step: int | str | None, time_kind: str) -> int | None:
    """Return the distance of times on a grid; None if gaps are not filled."""
    if step is None or (step == "auto" and time_kind in DATES):
        return None
    if step != "auto":
        if isinstance(step, str) or time_kind in DATES:
            raise ValueError(
                f'`step` must be "auto", None or, for a column of integers, an integer; got {step!r} for '
                f"times of type {time_kind}."
            )
        return check_integer("step", step, 1)
    found = whole.select("series", "time").mapInArrow(
        _gaps, "whole boolean, divisor bigint, span bigint, series bigint, rows bigint"
    )
    gaps = Gaps()
    for part in found.collect():
        if not part.whole:
            return None
        gaps.merge(Gaps(part.divisor, part.span, part.series, part.rows))
    return gaps.step(stacklevel=4)


def _gaps(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return one row with the `Gaps` of a partition. Errors in the rows are reported by `_Worker`."""
    import pyarrow as pa

    gaps, whole = Gaps(), True
    for _, times, _ in each_series(batches):
        whole = whole and is_whole(times)
        if whole:
            gaps.add(times)
    row = {"whole": whole, **vars(gaps)}
    yield pa.RecordBatch.from_pylist([row])


@dataclass(frozen=True)
class _Worker:
    """Decide on the series of a partition, many in one call of the model."""

    shipped: Shipped
    step: int | None
    series: str
    time: str

    def decide(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take batches that are sorted by series and time; return batches of decisions."""
        batches = iter(batches)
        first = next(batches, None)
        if first is None:
            return
        kind = first.schema.field("series").type
        names: list[Any] = []
        arrays: list[np.ndarray] = []  # (T_i, D)
        size = 0
        for name, times, values in each_series(chain([first], batches)):
            self._check(name, times)
            names.append(name)
            arrays.append(on_grid(values, times, self.step))
            size += arrays[-1].size
            if len(names) >= MOST_SERIES or size >= MOST_NUMBERS:
                yield self._decisions(names, kind, arrays)
                names, arrays, size = [], [], 0
        if names:
            yield self._decisions(names, kind, arrays)

    def _check(self, name: Any, times: np.ndarray) -> None:
        """Raise an error if the rows of a series are not samples at distinct times."""
        if name is None or name != name:
            raise ValueError(
                f"`series`: column {self.series!r} has empty cells. Fill them, or remove these rows."
            )
        # Missing times are None, NaN or NaT, according to the type.
        if times.dtype == object or bool((times != times).any()):
            raise ValueError(f"`time`: series {name!r} has a row without a time in column {self.time!r}.")
        repeated = np.flatnonzero(times[1:] == times[:-1])
        if len(repeated):
            raise ValueError(
                f"`time`: series {name!r} has two rows at {times[repeated[0]]} in column {self.time!r}. "
                "Remove one of them, or use a finer time."
            )
        if self.step is not None and (not is_whole(times) or bool(((times - times[0]) % self.step).any())):
            raise ValueError(
                f"`step`: series {name!r} has times that are not {self.step} or a multiple of it apart in "
                f"column {self.time!r}. Pass another step, or step=None to use the samples in their order."
            )

    def _decisions(self, names: list[Any], kind: pa.DataType, arrays: list[np.ndarray]) -> pa.RecordBatch:
        import pyarrow as pa

        clf = self.shipped.unpack()
        decisions = clf.decide(arrays)
        labels = label_type(clf.classes_)
        return pa.RecordBatch.from_pydict(
            {
                "series": pa.array(names, type=kind),
                "label": [plain_label(label, labels) for label in decisions.labels],
                "time": decisions.times,
                "forced": decisions.forced,
                "length": decisions.lengths,
                "scores": decisions.scores.astype(np.float64).tolist(),
            }
        )
