"""Split series into a training and a validation part, either stratified by class or by whole groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.validation import check_integer, check_real

# Number of random splits by groups, of which the one closest to `fraction` in all classes is chosen.
DRAWS = 200


def hold_out(
    y: Any, groups: Any = None, *, fraction: float = 0.2, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Split series into a training part and a validation part.

    Without groups, the split is stratified: `fraction` of each class is held out, at least one series of
    each class that has two or more. With groups, all series of a group are in the same part; of many random
    splits, the one is chosen that comes closest to `fraction` in every class. In both cases the training part
    contains every class.

    Parameters
    ----------
    y
        (n,) labels.
    groups
        (n,) group of each series, such as a person or a recording. None: no groups.
    fraction
        Share to hold out, in (0, 1).
    seed
        Random seed.

    Returns
    -------
    train, held
        Sorted indices of the training part and of the validation part.

    Examples
    --------
    >>> y = np.array([0, 1, 0, 1, 0, 1])
    >>> train, held = hold_out(y, groups=["ann", "ann", "bob", "bob", "eve", "eve"], fraction=0.33)
    >>> len(held), bool(held[0] // 2 == held[1] // 2)
    (2, True)
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) < 2:
        raise ValueError(f"`y` must have shape (n,), at least 2 labels; got shape {labels.shape}.")
    fraction = check_real("fraction", fraction, 0, 1, open_low=True, open_high=True)
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    classes = np.unique(labels, return_inverse=True)[1]
    held = _by_class(classes, fraction, rng) if groups is None else _by_group(classes, groups, fraction, rng)
    return np.flatnonzero(~held), np.flatnonzero(held)


def _by_class(y: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Return a mask (n,) of the rows to hold out: a share of each class."""
    held = np.zeros(len(y), bool)
    for k in range(y.max() + 1):
        rows = rng.permutation(np.flatnonzero(y == k))
        share = max(1, round(fraction * len(rows)))
        held[rows[: min(share, len(rows) - 1)]] = True
    if not held.any():
        raise ValueError("`y` has only one series of each class: none can be held out. Provide more series.")
    return held


def _by_group(y: np.ndarray, groups: Any, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Return a mask (n,) of the rows to hold out: whole groups."""
    names = np.asarray(groups)
    if names.shape != y.shape:
        raise ValueError(f"`groups` must have shape {y.shape}, one per series; got shape {names.shape}.")
    owner = np.unique(names, return_inverse=True)[1]  # (n,)
    counts = np.zeros((owner.max() + 1, y.max() + 1))  # (G, K)
    np.add.at(counts, (owner, y), 1)
    total = counts.sum(axis=0)  # (K,)
    best, chosen = np.inf, None
    for _ in range(DRAWS):
        order = rng.permutation(len(counts))
        # (G, K): share of each class that is held out if the order is cut after each group
        share = counts[order].cumsum(axis=0) / total
        gap = np.where((share < 1).all(axis=1), np.abs(share - fraction).mean(axis=1), np.inf)
        cut = int(gap.argmin())
        if gap[cut] < best:
            best, chosen = gap[cut], order[: cut + 1]
    if chosen is None:
        raise ValueError(
            f"`groups` cannot be split: whichever of the {len(counts)} group(s) is held out, a class is "
            "missing from the rest. Pass `groups`=None only if series of a group are independent."
        )
    return np.isin(owner, chosen)
