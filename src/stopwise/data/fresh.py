"""Which series count as independent draws: not seen in training, and not copies of each other."""

from __future__ import annotations

import numpy as np

from stopwise.data.fingerprints import Fingerprints
from stopwise.data.series import SeriesSet
from stopwise.validation import check_choice, warn

COPIES = ("once", "all")
# Share of series equal to training series up to which they are left out. Real data sets hold some duplicates.
MOST_SEEN = 0.05


def independent(series: SeriesSet, seen: Fingerprints | None, copies: str) -> np.ndarray:
    """Return which series (n,) count; warn about the others.

    Series that were used in training do not count. If they are more than `MOST_SEEN` of the series, or twice
    as many as can be expected by chance, a ValueError is raised.

    Parameters
    ----------
    series
        New series.
    seen
        Fingerprints of the training series; None if the model was saved without them.
    copies
        "once": series that are equal count once. "all": equal series are independent draws.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 20))
    >>> seen = Fingerprints.of([SeriesSet(X[:30])])
    >>> independent(SeriesSet(X[30:]), seen, "once").sum().item()
    30
    """
    check_choice("copies", copies, COPIES)
    if seen is None:
        warn(
            "the model was saved without fingerprints, so it is not checked whether series were used in "
            "training. Make sure that they were not."
        )
        seen = Fingerprints.none(series)
    known = seen.matches(series)
    if known.any():
        _refuse_reuse(known, seen)
        warn(
            f"`X` contains {known.sum()} of {len(series)} series that were used in fit ({_places(known)}). "
            "They are left out. Remove duplicates before you split the data."
        )
    if copies == "all":
        return ~known
    repeated = seen.repeats(series) & ~known
    if repeated.any():
        distinct = int((~repeated & ~known).sum())
        warn(
            f"`X` contains {repeated.sum()} of {len(series)} series that are copies of others "
            f"({_places(repeated)}). Copies count once, so there are {distinct} series. If the series are "
            'equal by chance, because they are short and have few distinct values, pass copies="all".'
        )
    return ~(known | repeated)


def _refuse_reuse(known: np.ndarray, seen: Fingerprints) -> None:
    """Raise a ValueError if too many series were used in training."""
    share = known.mean() / seen.sampled  # only this share of the training series is known
    if share > max(MOST_SEEN, 2 * seen.expected):
        raise ValueError(
            f"`X` must not contain series that were used in fit; {known.sum()} of {len(known)} were given "
            f"to fit ({_places(known)}). Errors are rarer on training series than on new ones. Split the "
            f"data before fit. Up to {MOST_SEEN:.0%} would be left out with a warning."
        )


def _places(chosen: np.ndarray) -> str:
    places = np.flatnonzero(chosen)
    return f"series {', '.join(map(str, places[:3]))}{', …' if len(places) > 3 else ''}"
