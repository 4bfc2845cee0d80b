"""Steps at which the prefix model has a classifier (a head), and how much a head with few series counts."""

from __future__ import annotations

import numpy as np

GROWTH = 0.25  # a head at step t is followed by one at most 25 % later ...
LARGEST_GAP = 0.05  # ... and at most 5 % of the longest series later
FEW = 20.0  # a head learned from this many series has the same weight as the head before it


def head_steps(steps: int) -> np.ndarray:
    """Return the steps (G,) at which there is a head, from 1 to `steps`.

    Heads are dense at the start of a series, where each sample matters most, and equally spaced later.

    Examples
    --------
    >>> head_steps(40).tolist()
    [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40]
    """
    found, t = [1], 1.0
    while found[-1] < steps:
        t += max(1.0, min(GROWTH * t, LARGEST_GAP * steps))
        found.append(min(round(t), steps))
    return np.array(found)


def head_shares(counts: np.ndarray) -> np.ndarray:
    """Return the share (G,) of each head's own weights; the rest is taken from the head before it.

    Parameters
    ----------
    counts
        (G,) number of series that each head was learned from: those that are long enough.

    Examples
    --------
    >>> head_shares(np.array([100, 100, 60, 5])).round(2).tolist()
    [1.0, 1.0, 1.0, 0.2]
    """
    share = np.where(counts >= counts[0] / 2, 1.0, counts / (counts + FEW))
    share[0] = 1.0
    return share
