"""Which series to hold out for validation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold


def split_by_class(indices: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on and the rows held out: a share of every class.

    Parameters
    ----------
    indices
        (n,) class indices, every class 0..K−1 being there.
    fraction
        The share; at least one series of a class is held out, and one left, where it has two.
    seed
        The same seed holds out the same rows.

    Examples
    --------
    >>> train, held = split_by_class(np.array([0, 0, 0, 1, 1, 1]), 0.3, seed=0)
    >>> len(train), len(held)
    (4, 2)
    """
    rng = np.random.default_rng(seed)
    held = []
    for k in range(int(indices.max()) + 1):
        rows = rng.permutation(np.flatnonzero(indices == k))
        share = max(1, round(fraction * len(rows)))
        held.append(rows[: min(share, len(rows) - 1)])
    out = np.sort(np.concatenate(held))
    return np.setdiff1d(np.arange(len(indices)), out), out


def split_by_group(
    indices: np.ndarray, groups: Any, fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on and the rows held out: whole groups, of classes as alike as they allow.

    Parameters
    ----------
    indices
        (n,) class indices.
    groups
        (n,) who or which recording a series comes from.
    fraction
        About how much is held out.
    seed
        The same seed holds out the same groups.

    Examples
    --------
    >>> groups = np.array(["ann", "ann", "bob", "bob", "cy", "cy"])
    >>> train, held = split_by_group(np.array([0, 1, 0, 1, 0, 1]), groups, 0.3, seed=0)
    >>> len(held), np.intersect1d(groups[train], groups[held]).tolist()
    (2, [])
    """
    groups = np.asarray(groups)
    if groups.shape != indices.shape:
        raise ValueError(
            f"`groups` must have one entry per series: {len(indices)}; got shape {groups.shape}."
        )
    names, numbers = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"`groups` must hold at least 2 groups, to hold one out; got {len(names)}.")
    folds = StratifiedGroupKFold(
        min(max(2, round(1 / fraction)), len(names)), shuffle=True, random_state=seed
    )
    classes = len(np.unique(indices))
    with warnings.catch_warnings():
        # A class of fewer series than folds is no matter: one fold is taken.
        warnings.filterwarnings("ignore", message="The least populated class")
        for train, held in folds.split(indices, indices, numbers):
            if len(held) and len(np.unique(indices[train])) == classes:
                return train, held
    raise ValueError(
        f"`groups` leave no class whole: whichever of the {len(names)} groups are held out, a class is "
        "missing from the others. Give `validation_data`."
    )
