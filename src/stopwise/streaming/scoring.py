"""Scores of many series, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stopwise.data.inputs import Inputs
from stopwise.data.series import SeriesSet
from stopwise.models.base import Model


def scored(
    model: Model, inputs: Inputs, series: SeriesSet
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield rows (B,), scores (B, T, K) and lengths (B,) of all series.

    Parameters
    ----------
    model
        A fitted model.
    inputs
        What it sees of a sample.
    series
        The series.
    """
    size = model.batch_size
    for start in range(0, len(series), size):
        rows = np.arange(start, min(start + size, len(series)))
        x, lengths = inputs.read(series, rows)
        yield rows, model.scores(x), lengths
