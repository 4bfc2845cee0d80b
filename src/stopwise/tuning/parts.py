"""The training and validation series of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stopwise.data.examples import Examples
from stopwise.data.labels import check_labels
from stopwise.data.series import SeriesSet
from stopwise.datasets import hold_out


@dataclass(frozen=True)
class Parts:
    """Training series and validation series with their labels."""

    X: SeriesSet
    y: np.ndarray
    X_held: SeriesSet
    y_held: np.ndarray

    @classmethod
    def of(
        cls, X: Any, y: Any, given: tuple[Any, Any] | None, groups: Any, fraction: float, seed: int
    ) -> Parts:
        """Return the given validation data, or split X, y stratified by class or by group."""
        series = SeriesSet(X)
        labels = check_labels("`y`", y, len(series))
        if given is not None:
            if groups is not None:
                raise ValueError(
                    "`groups` cannot be used with `validation_data`, because nothing is held out from the "
                    "training data. Leave out one of them."
                )
            return cls(series, labels, SeriesSet(given[0]), np.asarray(given[1]))
        train, held = hold_out(labels, groups, fraction=fraction, seed=seed)
        return cls(series[train], labels[train], series[held], labels[held])

    def digest(self) -> str:
        """Return a fingerprint of the data and the split."""
        parts = [(self.X, self.y), (self.X_held, self.y_held)]
        return " / ".join(_digest(series, labels) for series, labels in parts)


def _digest(series: SeriesSet, labels: np.ndarray) -> str:
    indices = np.unique(labels, return_inverse=True)[1]
    return Examples(series.batch, indices, int(indices.max()) + 1, series.channels, series.lengths).digest()
