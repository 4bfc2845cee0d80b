"""Numbers in the page: integers as base64 text, and the records of the lead in about one byte each.

With the thresholds of the slider, a series stops at the first record of its lead that reaches the threshold
(see `metrics.records`). A record is kept as its *rank*, the number of thresholds at or below it. Position p
of the slider, counted from 0, is reached where the rank is above p. So the page finds the decision at each
position with integers only, and exactly.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import numpy as np

from stopwise.metrics.records import leads_and_errors

MOST_RANK_STEP, MOST_TIME_STEP = 15, 7  # in the first byte of a record; larger ones follow as more bytes


class Ranked(NamedTuple):
    """The records of n series at the positions of the slider, by series, then by time."""

    counts: np.ndarray  # (n,) number of records of each series, at least 1
    ranks: np.ndarray  # (m,) ascending within a series, at least 1
    times: np.ndarray  # (m,) steps, counted from 1
    classes: np.ndarray  # (m,) class with the highest score


def ranked_records(scores: np.ndarray, lengths: np.ndarray, thresholds: np.ndarray) -> Ranked:
    """Return the records at which the decision changes for some of the thresholds.

    Parameters
    ----------
    scores
        (n, T, K) scores.
    lengths
        (n,) lengths of the series.
    thresholds
        (P,) ascending; the first is 0, the last infinity.

    Examples
    --------
    >>> scores = np.array([[[0.0, 1.0], [0.0, 1.2], [3.0, 0.0]]])  # leads 1, 1.2 and 3
    >>> ranked_records(scores, np.array([3]), np.array([0, 1, 2, np.inf]))
    Ranked(counts=array([2]), ranks=array([2, 3]), times=array([1, 3]), classes=array([1, 0]))
    """
    steps = int(lengths.max())
    scores = scores[:, :steps]
    leads, _ = leads_and_errors(scores, np.zeros(len(scores), dtype=np.int64), lengths)  # (n, T)
    ranks = np.searchsorted(thresholds, leads, side="right")  # (n, T), 0 past the end of a series
    best = np.zeros_like(ranks)
    np.maximum.accumulate(ranks[:, :-1], axis=1, out=best[:, 1:])
    series, step = np.nonzero(ranks > best)
    classes = scores[series, step].argmax(-1)
    return Ranked(np.bincount(series, minlength=len(scores)), ranks[series, step], step + 1, classes)


def pack_records(records: Ranked) -> str:
    """Return records as base64 text.

    A record is its difference from the record before (from zeros at the start of a series). The first
    byte holds the increase of the rank minus 1 (4 bits), of the time minus 1 (3 bits), and whether the class
    differs from that of the record before (1 bit). The largest value of the first two means that the rest
    follows, and a new class follows too, each as a number of 7 bits per byte, low bits first, with the high
    bit set if there are more.
    """
    first = np.zeros(len(records.ranks), dtype=bool)
    first[np.cumsum(records.counts) - records.counts] = True
    rank_step = _differences(records.ranks, first) - 1
    time_step = _differences(records.times, first) - 1
    changed = _differences(records.classes, first) != 0
    short_rank, short_time = np.minimum(rank_step, MOST_RANK_STEP), np.minimum(time_step, MOST_TIME_STEP)
    head = (short_rank << 4 | short_time << 1 | changed).astype(np.uint8)
    parts = [
        (head[:, None], np.ones((len(head), 1), dtype=bool)),
        _variable(rank_step - MOST_RANK_STEP, short_rank == MOST_RANK_STEP),
        _variable(time_step - MOST_TIME_STEP, short_time == MOST_TIME_STEP),
        _variable(records.classes, changed),
    ]
    values, used = (np.concatenate(columns, axis=1) for columns in zip(*parts))
    return base64.b64encode(values[used].tobytes()).decode()


def pack(values: Any) -> dict[str, str]:
    """Return integers >= 0 as {type: base64 text}, in the smallest type that holds them.

    Examples
    --------
    >>> pack([1, 2, 255])
    {'u8': 'AQL/'}
    >>> pack([256])
    {'u16': 'AAE='}
    """
    array = np.asarray(values)
    top = int(array.max(initial=0))
    name = "u8" if top < 2**8 else "u16" if top < 2**16 else "u32"
    return {name: base64.b64encode(array.astype(f"<u{int(name[1:]) // 8}").tobytes()).decode()}


def _differences(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the differences to the value before, and the values themselves at the first of each series."""
    return values - np.where(first, 0, np.roll(values, 1))


def _variable(values: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of 7 bits per byte as bytes (m, B), and which of these bytes are used (m, B)."""
    values = np.where(used, values, 0)
    width = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    shifted = values[:, None] >> (7 * np.arange(width))  # (m, B)
    more = shifted >> 7 > 0
    filled = used[:, None] & ((shifted > 0) | (np.arange(width) == 0))
    return (shifted & 127 | more << 7).astype(np.uint8), filled
