"""Series from data frames in long form: one row per sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from stopwise.data.series import SeriesSet
from stopwise.datasets.grid import Gaps, is_whole, on_grid
from stopwise.datasets.labeled import LabeledSeries


def from_frame(
    df: Any,
    *,
    series: str,
    time: str,
    label: str | None = None,
    channels: Sequence[str] | None = None,
    groups: str | None = None,
) -> LabeledSeries:
    """Return the series of a data frame in long form, which has one row per sample.

    Rows may be in any order; they are sorted by time. Where times are integers on a regular grid, missing
    steps become NaN, so use `EarlyClassifier(missing="mask")`. Otherwise samples are used in their order.

    Parameters
    ----------
    df
        A data frame of pandas, polars or another library that narwhals supports.
    series
        Column that names the series of a row.
    time
        Column of the time: numbers or dates, distinct within a series.
    label
        Column of the label, the same in all rows of a series. None: the series have no labels.
    channels
        Columns of the channels. None: all columns that are not used otherwise.
    groups
        Column of the group, such as the patient, the same in all rows of a series.

    Returns
    -------
    data
        `data.X` is a `SeriesSet` with channel names, `data.y` the labels, `data.groups` the groups,
        `data.names` the series in the order of their first rows, `data.channels` the channel names.

    Examples
    --------
    >>> import pandas as pd
    >>> df = pd.DataFrame({
    ...     "patient": ["a", "b", "a", "b"], "hour": [1, 1, 0, 0], "pulse": [81.0, 60, 80, 61],
    ...     "outcome": ["ill", "well", "ill", "well"],
    ... })
    >>> data = from_frame(df, series="patient", time="hour", label="outcome")
    >>> data.X.shape, data.y.tolist(), data.names, data.channels
    ((2, 2, 1), ['ill', 'well'], ('a', 'b'), ('pulse',))
    """
    frame = nw.from_native(df, eager_only=True)
    used = {"series": series, "time": time, "label": label, "groups": groups}
    names = _channels(frame, used, channels)
    rows_of = _rows_by_series(frame, series)
    times, values = _column(frame, time), _values(frame, names)  # (rows,), (rows, d)
    order = {name: _sorted_rows(name, rows, times, time) for name, rows in rows_of.items()}
    step = _grid(times, order)
    arrays = [on_grid(values[rows], times[rows], step) for rows in order.values()]
    X = SeriesSet(arrays, channel_names=names)
    y = None if label is None else _constant(_column(frame, label), rows_of, "label", label)
    members = None if groups is None else _constant(_column(frame, groups), rows_of, "groups", groups)
    return LabeledSeries(X, y, X.lengths, tuple(map(str, rows_of)), tuple(names), members)


def _channels(frame: Any, used: dict[str, str | None], channels: Sequence[str] | None) -> list[str]:
    """Return the columns of the channels; raise an error if a column does not exist."""
    for argument, column in used.items():
        if column is not None and column not in frame.columns:
            raise ValueError(
                f"`{argument}` must be a column of the data frame; got {column!r}. It has "
                f"{', '.join(map(str, frame.columns))}."
            )
    rest = [name for name in frame.columns if name not in used.values()]
    chosen = rest if channels is None else list(channels)
    wrong = [name for name in chosen if name not in rest]
    if wrong or not chosen:
        raise ValueError(
            f"`channels` must be columns that are not used otherwise; got {wrong or chosen}. "
            f"Available: {', '.join(map(str, rest)) or 'none'}."
        )
    return chosen


def _column(frame: Any, name: str) -> np.ndarray:
    return frame[name].to_numpy()


def _values(frame: Any, names: list[str]) -> np.ndarray:
    """Return the channels (rows, d) as numbers; null is NaN."""
    columns = []
    for name in names:
        try:
            columns.append(np.asarray(_column(frame, name), dtype=np.float64))
        except (TypeError, ValueError):
            raise ValueError(
                f"`channels`: column {name!r} must hold numbers. Encode it as numbers, or leave it out."
            ) from None
    return np.stack(columns, axis=1)


def _rows_by_series(frame: Any, series: str) -> dict[Any, np.ndarray]:
    """Return the row numbers of each series, series in the order of their first rows."""
    keys = _column(frame, series)
    if not len(keys):
        raise ValueError("`df` must have at least one row.")
    if frame[series].is_null().any():
        raise ValueError(f"`series`: column {series!r} has empty cells. Fill them, or remove these rows.")
    found: dict[Any, list[int]] = {}
    for row, key in enumerate(keys.tolist()):
        found.setdefault(key, []).append(row)
    return {key: np.array(rows) for key, rows in found.items()}


def _sorted_rows(name: Any, rows: np.ndarray, times: np.ndarray, column: str) -> np.ndarray:
    """Return the rows of a series sorted by time; raise an error if a time is missing or repeated."""
    own = times[rows]
    if np.equal(own, own).sum() < len(own):
        raise ValueError(f"`time`: series {name!r} has a row without a time in column {column!r}.")
    order = np.argsort(own, kind="stable")
    repeated = np.flatnonzero(own[order][1:] == own[order][:-1])
    if len(repeated):
        raise ValueError(
            f"`time`: series {name!r} has two rows at {own[order][repeated[0]]} in column {column!r}. "
            "Remove one of them, or use a finer time."
        )
    return rows[order]


def _grid(times: np.ndarray, order: dict[Any, np.ndarray]) -> int | None:
    """Return the step of integer times on a regular grid; None if gaps are not filled."""
    if not is_whole(times):
        return None
    gaps = Gaps()
    for rows in order.values():
        gaps.add(times[rows])
    return gaps.step(stacklevel=4)


def _constant(values: np.ndarray, rows_of: dict[Any, np.ndarray], argument: str, column: str) -> np.ndarray:
    """Return the value of each series (n,); raise an error if it changes within a series."""
    chosen = []
    for name, rows in rows_of.items():
        distinct = list(dict.fromkeys(values[rows].tolist()))
        if len(distinct) > 1:
            raise ValueError(
                f"`{argument}`: column {column!r} must be the same in all rows of a series; series {name!r} "
                f"has {distinct[0]!r} and {distinct[1]!r}."
            )
        chosen.append(distinct[0])
    return np.array(chosen)
