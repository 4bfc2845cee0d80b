"""The series a search trains on and those it judges on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from stopwise.data.series import Series
from stopwise.datasets import hold_out

# Series whose values tell one data set from another.
DIGEST_SERIES = 100


@dataclass(frozen=True)
class Parts:
    """Series to train on and series to judge on."""

    X: Series
    y: np.ndarray
    X_held: Series
    y_held: np.ndarray

    @classmethod
    def of(
        cls, X: Any, y: Any, given: tuple[Any, Any] | None, groups: Any, fraction: float, seed: int
    ) -> Parts:
        """Return the parts: as given, or cut from X, y by class or by group."""
        series, labels = Series(X), np.asarray(y)
        if labels.shape != (len(series),):
            raise ValueError(f"`y` must have one label per series: {len(series)}; got shape {labels.shape}.")
        if given is not None:
            if groups is not None:
                raise ValueError("`groups` cut the training data; with `validation_data` leave them out.")
            return cls(series, labels, Series(given[0]), np.asarray(given[1]))
        train, held = hold_out(labels, groups, fraction=fraction, seed=seed)
        return cls(series[train], labels[train], series[held], labels[held])

    def digest(self) -> str:
        """Return a text that another data set, or another split, would not have."""
        digest = hashlib.sha256()
        for series, labels in ((self.X, self.y), (self.X_held, self.y_held)):
            digest.update(repr((series.shape, series.lengths.tolist(), labels.tolist())).encode())
            rows = np.arange(min(len(series), DIGEST_SERIES))
            digest.update(series.batch(rows, "mask")[0].tobytes())
        return digest.hexdigest()[:16]
