"""Folds for cross-fitting: whole groups, or contiguous parts of each class."""

from __future__ import annotations

import numpy as np

FOLDS = 5


def make_folds(y: np.ndarray, groups: np.ndarray | None, folds: int = FOLDS) -> np.ndarray:
    """Return the fold (n,) of each series.

    Without groups, each class is cut into contiguous parts in the order of the data, because neighbors are
    often recordings of the same source. With groups, whole groups are assigned, the largest first, each to
    the fold that has the fewest series of its classes.

    Examples
    --------
    >>> make_folds(np.array([0, 0, 0, 0, 1, 1]), None, folds=2).tolist()
    [0, 0, 1, 1, 0, 1]
    >>> make_folds(np.array([0, 1, 0, 1]), np.array(["a", "a", "b", "b"]), folds=2).tolist()
    [0, 0, 1, 1]
    """
    fold = np.empty(len(y), dtype=int)
    if groups is None:
        for k in np.unique(y):
            rows = np.flatnonzero(y == k)
            # Classes with few series start at different folds, so that all folds have about the same size.
            fold[rows] = (np.arange(len(rows)) * folds // len(rows) + int(k) * (len(rows) < folds)) % folds
        return fold
    owner = np.unique(groups, return_inverse=True)[1]
    counts = np.zeros((owner.max() + 1, int(y.max()) + 1))  # (groups, K)
    np.add.at(counts, (owner, y), 1)
    load = np.zeros((folds, counts.shape[1]))
    for group in np.argsort(-counts.sum(axis=1), kind="stable"):
        best = int((load @ counts[group] + 1e-3 * load.sum(axis=1)).argmin())
        load[best] += counts[group]
        fold[owner == group] = best
    return fold


def check_enough(y: np.ndarray, classes: int, groups: np.ndarray | None) -> None:
    """Raise a ValueError if there are too few series, classes or groups to leave some out."""
    counts = np.bincount(y, minlength=classes)
    if len(y) < 2 * classes or (counts > 1).sum() < 2:
        raise ValueError(
            f"`X` must have at least two series of each class, on average, so that some can be left out; got "
            f"{len(y)} series of {classes} classes. Provide more series."
        )
    if groups is not None and len(np.unique(groups)) < 2:
        raise ValueError(
            "`groups` must have at least two different groups, so that one can be left out; got one. Pass "
            "`groups`=None only if the series are independent."
        )


def fold_rows(fold: np.ndarray) -> list[np.ndarray]:
    """Return the rows of each fold that is not empty."""
    return [np.flatnonzero(fold == one) for one in np.unique(fold)]
