"""A growing table of states: one row per stream."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stopwise.models.step import State

FIRST_ROWS = 16  # initial capacity, doubled when it is full


class Table:
    """States of many streams in arrays (rows, ...), so that one step advances many streams.

    Parameters
    ----------
    start
        Function that returns the state of a number of new streams.
    max_rows
        Maximum number of rows.
    """

    def __init__(self, start: Callable[[int], State], max_rows: int) -> None:
        self.start, self.max_rows = start, max_rows
        self.state = start(min(FIRST_ROWS, max_rows))
        self._free = list(range(len(self.state["time"])))[::-1]

    def allocate(self, count: int) -> list[int]:
        """Return unused rows; their content is undefined."""
        missing = count - len(self._free)
        if missing > 0:
            self._grow(len(self.state["time"]) + missing)
        return [self._free.pop() for _ in range(count)]

    def release(self, row: int) -> None:
        """Make a row available for another stream."""
        self._free.append(row)

    def take(self, rows: list[int]) -> State:
        """Return the states of some rows, as views if the rows are contiguous."""
        index = _index(rows)
        return {name: value[index] for name, value in self.state.items()}

    def put(self, rows: list[int], state: State) -> None:
        """Write the states of some rows."""
        put(self.state, _index(rows), state)

    def _grow(self, wanted: int) -> None:
        have = len(self.state["time"])
        size = max(wanted, min(2 * have, self.max_rows))
        before, self.state = self.state, {}
        for name, value in before.items():
            self.state[name] = np.zeros((size, *value.shape[1:]), dtype=value.dtype)
            self.state[name][:have] = value
        # Low rows are used first, so that streams added together are contiguous in memory.
        self._free = [*range(size - 1, have - 1, -1), *self._free]


def put(table: State, rows: slice | np.ndarray, state: State) -> None:
    """Write states to some rows of a table; if an array is wider than in the table, widen all rows."""
    for name, value in state.items():
        kept = table[name]
        if kept.ndim < 2 or kept.shape[1] == value.shape[1]:
            kept[rows] = value
            continue
        if kept.shape[1] < value.shape[1]:
            wider = np.zeros((len(kept), *value.shape[1:]), dtype=kept.dtype)
            wider[:, : kept.shape[1]] = kept
            table[name] = kept = wider
        kept[rows] = 0
        kept[rows, : value.shape[1]] = value


def _index(rows: list[int]) -> slice | np.ndarray:
    """Return rows as an index: as a slice if they are contiguous, which avoids a copy."""
    if rows and rows[-1] - rows[0] == len(rows) - 1 and rows == list(range(rows[0], rows[-1] + 1)):
        return slice(rows[0], rows[-1] + 1)
    return np.array(rows, dtype=np.int64)
