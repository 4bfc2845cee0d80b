"""Series that were padded to one length but come without their lengths."""

from __future__ import annotations

import numpy as np

from stopwise.data.series import SeriesSet
from stopwise.validation import warn

LOOKED_AT = 1 << 18  # numbers that are examined
SHORTEST_RUN = 3  # shorter runs of equal samples happen by chance
# Share of series that end with a run, from which on it looks like padding; there must also be twice as many
# as series that begin with one, because signals of few distinct values have runs everywhere.
FEWEST, RATIO = 0.1, 2.0


def warn_if_padded(series: SeriesSet) -> None:
    """Warn if many series of equal length end with a run of equal samples, as if they were padded."""
    if series.steps <= SHORTEST_RUN or (series.lengths < series.steps).any():
        return
    x = series.batch(np.arange(min(len(series), series.rows_of(LOOKED_AT))))[0]
    at_end, at_start = _runs(x[:, ::-1]), _runs(x)
    changing = at_end < x.shape[1]  # a series that is constant all along is not padded
    ends = float((changing & (at_end >= SHORTEST_RUN)).mean())
    starts = float((changing & (at_start >= SHORTEST_RUN)).mean())
    if ends < FEWEST or ends < RATIO * starts:
        return
    longest = int(at_end[changing].max())
    warn(
        f"`X` has {series.steps} steps for every series, but {ends:.0%} of the series end with equal "
        f"samples, up to {longest} of them, as if they were padded. The model would learn from the padding. "
        "If the series have unequal lengths, pass sw.SeriesSet(X, lengths=lengths), or an array `lengths` in "
        "the file."
    )


def _runs(x: np.ndarray) -> np.ndarray:
    """Return how many samples (n,) at the beginning of x (n, T, D) are equal; NaN equals NaN."""
    first = x[:, :1]
    same = ((x == first) | (np.isnan(x) & np.isnan(first))).all(-1)  # (n, T)
    return np.where(same.all(1), x.shape[1], same.argmin(1))
