"""Which columns of a Spark data frame are the series, the time and the channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stopwise.estimator import EarlyClassifier

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

INTEGERS = {"tinyint", "smallint", "int", "bigint"}
FLOATS = {"float", "double"}
DATES = {"date", "timestamp", "timestamp_ntz"}


def check_column(
    frame: DataFrame, argument: str, column: Any, kinds: set[str] | None = None, wanted: str = ""
) -> str:
    """Return the Spark type of a column; raise an error if it is missing or not one of `kinds`."""
    if column not in frame.columns:
        raise ValueError(
            f"`{argument}` must be a column of the data frame; got {column!r}. It has "
            f"{', '.join(frame.columns)}."
        )
    if frame.columns.count(column) > 1:
        raise ValueError(
            f"`{argument}`: the data frame has {frame.columns.count(column)} columns {column!r}. "
            "Rename or drop all but one."
        )
    kind = frame.schema[column].dataType.simpleString()
    if kinds is not None and kind not in kinds:
        raise ValueError(
            f"`{argument}` must be a column of {wanted}; {column!r} is of type {kind}. "
            "Convert it with cast()."
        )
    return kind


def check_key(frame: DataFrame, argument: str, column: str, output: Sequence[str]) -> str:
    """Return the Spark type of the column that names the series; it is a column of the result as well."""
    if column in output:
        raise ValueError(
            f"`{argument}` must not be {column!r}, which is a column of the result. Rename it with "
            "withColumnRenamed()."
        )
    return check_column(frame, argument, column)


def channel_columns(frame: DataFrame, clf: EarlyClassifier, channels: Sequence[str] | None) -> list[str]:
    """Return the columns of the channels in the order of training; raise an error if they do not match."""
    known = clf.channel_names_
    if channels is None and known is None:
        raise ValueError(
            "`channels` is needed, because the model was trained without channel names: pass the "
            f"{clf.n_channels_} column(s) of the channels in the order of training."
        )
    given = known if channels is None else channels
    chosen = [given] if isinstance(given, str) else list(given or ())
    if known is not None and set(chosen) != set(known):
        raise ValueError(
            f"`channels` must be {', '.join(known)}, as in training, in any order; got {', '.join(chosen)}. "
            "Rename columns with withColumnRenamed()."
        )
    if len(set(chosen)) < len(chosen) or len(chosen) != clf.n_channels_:
        raise ValueError(
            f"`channels` must be {clf.n_channels_} different column(s), as in training; got {chosen}."
        )
    ordered = chosen if known is None else list(known)
    missing = [name for name in ordered if name not in frame.columns]
    if missing:
        raise ValueError(
            f"`channels`: the data frame has no column {', '.join(map(repr, missing))}. It has "
            f"{', '.join(frame.columns)}."
        )
    for name in ordered:
        kind = check_column(frame, "channels", name)
        if kind not in INTEGERS | FLOATS | {"boolean"} and not kind.startswith("decimal"):
            raise ValueError(
                f"`channels` must be columns of numbers; {name!r} is of type {kind}. Convert it with cast()."
            )
    return ordered


def quoted(name: str) -> Column:
    """Return a column by its exact name, which may contain dots."""
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")


def numbers(names: Sequence[str]) -> list[Column]:
    """Return columns as double; null is NaN."""
    from pyspark.sql import functions

    return [functions.coalesce(quoted(name).cast("double"), functions.lit(float("nan"))) for name in names]
