"""Decisions on files of whole series, in every format that `stopwise train` reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stopwise.cli.common import split_names

if TYPE_CHECKING:
    from stopwise.data.series import SeriesSet
    from stopwise.datasets import LabeledSeries
    from stopwise.estimator import EarlyClassifier
    from stopwise.streaming.server import Counts

SERIES = 256  # number of series to decide on at once
HEADER = 1 << 16  # bytes of a .csv file that hold its header


def is_whole_file(path: Path) -> bool:
    """Return whether a file holds whole series: .npz, .npy, .ts, or .csv with columns series and time."""
    if path.suffix in (".npz", ".npy", ".ts"):
        return True
    if not path.is_file():
        return (path.parent / f"{path.name}_X.npy").is_file()
    if path.suffix != ".csv":
        return False
    from stopwise.streaming.csv_lines import split

    with path.open("rb") as file:
        start = file.read(HEADER).partition(b"\n")[0].decode("utf-8-sig", "replace")
    try:
        names = split(start.strip())
    except ValueError:
        return False
    return {"series", "time"} <= set(names) and "key" not in names


def decide_on_series(
    clf: EarlyClassifier,
    path: Path,
    write: Callable[[dict[str, Any]], None],
    note: Callable[[str], None],
    *,
    channels: str | None,
    drop: str | None,
    layout: str,
    strict: bool,
) -> Counts:
    """Write the decision on every series of a file; one that cannot be used is reported and skipped.

    The key of a series is its name in a .csv file, else its index. Its label, if the file has one, becomes
    ``input_label``.
    """
    from stopwise.datasets import read
    from stopwise.streaming.answers import describe
    from stopwise.streaming.server import Counts

    names, dropped = split_names(channels), split_names(drop) or ()
    data = read(path, channels=names, drop=dropped, layout=layout)
    series = data.series
    if clf.channel_names_ is not None and series.channel_names is not None:
        series = series.with_channels(clf.channel_names_)
    clf.inputs_.check_channels(series)  # once, not for every series
    digest, counts = clf.streams().digest, Counts()
    for start in range(0, len(data), SERIES):
        rows = np.arange(start, min(start + SERIES, len(data)))
        for row, decision in zip(rows.tolist(), _decisions(clf, series, rows)):
            if isinstance(decision, ValueError):
                if strict:
                    raise decision
                counts.rejected += 1
                note(f"series {_name(data, row)!r} skipped: {decision}")
                continue
            counts.samples += int(data.lengths[row])
            counts.ignored += int(data.lengths[row]) - decision.time
            counts.decisions += 1
            counts.forced += decision.forced
            label = {} if data.y is None else {"label": data.y[row].item()}
            write(describe({"key": _name(data, row)}, decision, digest, label))
    return counts


def _decisions(clf: EarlyClassifier, series: SeriesSet, rows: np.ndarray) -> list[Any]:
    """Return the decision on each row, or the error if a series cannot be used."""
    try:
        return list(clf.decide(series[rows]))
    except ValueError as error:
        if len(rows) == 1:
            return [error]
        return [result for row in rows for result in _decisions(clf, series, row[None])]


def _name(data: LabeledSeries, row: int) -> str | int:
    return row if data.names is None else data.names[row]
