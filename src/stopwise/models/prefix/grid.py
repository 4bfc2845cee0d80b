"""Steps at which the prefix model has a classifier (a head), and how scores between them are formed."""

from __future__ import annotations

import numpy as np

GROWTH = 0.25  # a head at step t is followed by one at most 25 % later ...
LARGEST_GAP = 0.05  # ... and at most 5 % of the longest series later
FEW = 20.0  # a head learned from this many series has the same weight as the head before it


def head_steps(steps: int) -> np.ndarray:
    """Return the steps (G,) at which there is a head, from 1 to `steps`.

    Heads are dense at the start of a series, where each sample changes the decision, and equally spaced later.

    Examples
    --------
    >>> head_steps(40).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40]
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


def time_weights(steps: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the weight (T, G) of each head at each step 1…T; rows sum to 1, the last row holds after T.

    Between two heads the weights are linear in time. A head with a share below 1 gives the rest of its weight
    to the head before it.

    Examples
    --------
    >>> time_weights(np.array([1, 3]), np.ones(2)).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    """
    times = np.arange(1, steps[-1] + 1)
    own = np.stack([np.interp(times, steps, row) for row in np.eye(len(steps))], axis=1)  # (T, G)
    mixed = own * shares
    mixed[:, :-1] += own[:, 1:] * (1 - shares[1:])
    return mixed
