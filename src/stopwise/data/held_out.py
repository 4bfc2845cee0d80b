"""Held-out scores: scores of training series from fits that did not use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from stopwise.validation import check_class_indices, check_scores, inside

NAMES = ("scores", "y", "lengths")


class HeldOut(NamedTuple):
    """Held-out scores of training series, from which stopping rules are fitted without further series.

    Parameters
    ----------
    scores
        (n, T, K) scores; NaN after the end of a series.
    y
        (n,) class indices.
    lengths
        (n,) lengths of the series.
    """

    scores: np.ndarray
    y: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray | None, y: np.ndarray, lengths: np.ndarray) -> Self | None:
        """Return the series that have held-out scores (n, T, K); None if the model has none.

        A row of NaN is a series that was not held out.

        Examples
        --------
        >>> scores = np.array([[[0.5, -0.5]], [[np.nan, np.nan]]])
        >>> HeldOut.of(scores, np.array([0, 1]), np.array([1, 1])).y.tolist()
        [0]
        """
        if scores is None:
            return None
        rows = np.flatnonzero(np.isfinite(scores[:, 0]).all(axis=1))
        return cls(scores[rows], y[rows], lengths[rows])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by name; `from_arrays` reads them."""
        return self._asdict()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], classes: int) -> Self:
        """Return the held-out scores that `arrays` returned; raise an error if they are not possible."""
        if set(arrays) != set(NAMES):
            raise ValueError(
                f"the held-out scores must have {', '.join(NAMES)}; got {sorted(arrays)!r:.100}."
            )
        scores, lengths = check_scores(arrays["scores"], arrays["lengths"], name="held-out scores")
        if scores.shape[2] != classes:
            raise ValueError(f"the held-out scores must have {classes} classes; got {scores.shape[2]}.")
        if not np.isnan(scores[~inside(lengths, scores.shape[1])]).all():
            raise ValueError("the held-out scores must be NaN after the end of a series.")
        return cls(scores, check_class_indices(arrays["y"], len(scores), classes), lengths)
