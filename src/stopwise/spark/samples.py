"""Samples of streams in one form; those that the model cannot use are counted and left out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from stopwise.data.inputs import Inputs
from stopwise.spark.columns import FLOATS, numbers, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

METRICS = "stopwise"  # name of the observed metrics in the progress of a query
LARGEST = 3.4e38  # of a standardized value, which models read in single precision


def usable_samples(
    frame: DataFrame, inputs: Inputs, names: Sequence[str], *, key: str, place: str | None, end: str | None
) -> DataFrame:
    """Return the samples with columns key, x, place and end; x is null where a row only ends its series.

    This is done by Spark and not on the workers, so that one bad row cannot stop a query, and so that the
    progress of the query counts such rows.

    Parameters
    ----------
    frame
        One row per sample.
    inputs
        What the model accepts.
    names
        Columns of the channels.
    key, place, end
        Columns of the key, of the order of samples and of the end of a series.
    """
    from pyspark.sql import functions as F

    values = numbers(names)
    false, nothing = F.lit(False), F.lit(None).cast("bigint")
    good = _good(values, inputs)
    ends = false if end is None else F.coalesce(quoted(end), false)
    placed = _all([_present(frame, name) for name in (key, place) if name is not None])
    empty = _all([F.isnan(value) for value in values])
    rows = frame.select(
        quoted(key).alias("key"),
        F.when(good, F.array(*values)).alias("x"),
        (nothing if place is None else quoted(place)).alias("place"),
        ends.alias("end"),
        # A row that is rejected for its values still ends its series.
        (placed & (good | ends)).alias("used"),
        (~(placed & (good | (ends & empty)))).alias("rejected"),
    )
    counts = F.count(F.lit(1)).alias("samples"), F.count_if(F.col("rejected")).alias("rejected")
    return rows.observe(METRICS, *counts).where("used").select("key", "x", "place", "end")


def _good(values: Sequence[Column], inputs: Inputs) -> Column:
    """Return the condition under which `Stream.update` accepts a sample."""
    from pyspark.sql import functions as F

    conditions = []
    for value, center, scale in zip(values, inputs.center.tolist(), inputs.scale.tolist()):
        fits = F.abs((value - F.lit(center)) / F.lit(scale)) <= F.lit(LARGEST)  # false for NaN
        conditions.append(fits | F.isnan(value) if inputs.mask else fits)
    return _all(conditions)


def _present(frame: DataFrame, name: str) -> Column:
    """Return the condition that a column has a value."""
    from pyspark.sql import functions as F

    filled = quoted(name).isNotNull()
    is_float = frame.schema[name].dataType.simpleString() in FLOATS
    return filled & ~F.isnan(quoted(name)) if is_float else filled


def _all(conditions: Sequence[Column]) -> Column:
    return reduce(and_, conditions)
