"""Compute the scores of many series in batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stopwise.data.inputs import Inputs
from stopwise.data.series import SeriesSet
from stopwise.models.base import Model
from stopwise.validation import inside


def all_scores(model: Model, inputs: Inputs, series: SeriesSet, classes: int) -> np.ndarray:
    """Return the scores (n, T, K) of all series; NaN after the end of each series."""
    result = np.full((len(series), series.steps, classes), np.nan, dtype=np.float32)
    for rows, scores, lengths in scored(model, inputs, series):
        own = inside(lengths, scores.shape[1])[..., None]
        result[rows[0] : rows[-1] + 1, : scores.shape[1]] = np.where(own, scores, np.nan)
    return result


def scored(
    model: Model, inputs: Inputs, series: SeriesSet
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield row indices (B,), scores (B, T, K) and lengths (B,), one batch at a time.

    Parameters
    ----------
    model
        A fitted model.
    inputs
        Conversion of samples to model inputs.
    series
        The series to score.
    """
    size = model.batch_size
    for start in range(0, len(series), size):
        rows = np.arange(start, min(start + size, len(series)))
        x, lengths = inputs.read(series, rows)
        yield rows, model.scores(x), lengths
