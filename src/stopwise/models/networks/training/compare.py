"""Paired comparison of two networks on held-out series."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stopwise.models.networks.modules import Integrator
from stopwise.models.networks.training.loop import Task
from stopwise.models.networks.training.trials import series_lsel

# A gain is clear if it exceeds this number of standard errors, or this share of the loss. Overconfident
# scores have large losses on few series, which makes the standard error large although the gain is real.
CLEAR_STANDARD_ERRORS = 2.0
LARGE_SHARE_OF_LOSS = 0.02


class Gain(NamedTuple):
    """Decrease of the held-out LSEL from one network to another.

    Parameters
    ----------
    mean
        Mean decrease.
    standard_error
        Standard error of the mean.
    loss
        LSEL after the decrease.
    """

    mean: float
    standard_error: float
    loss: float

    @property
    def is_clear(self) -> bool:
        """Whether the decrease is larger than chance explains, or large compared with the loss."""
        large = self.mean > LARGE_SHARE_OF_LOSS * self.loss
        return large or self.mean > CLEAR_STANDARD_ERRORS * self.standard_error


def held_out_lsel(net: Integrator, task: Task, scale: float = 1.0) -> np.ndarray:
    """Return the LSEL (n,) of each validation series of a task, with the scores times `scale`."""
    held, size = task.validation_set, task.training.batch_size
    assert held is not None
    parts = []
    for start in range(0, len(held), size):
        rows = np.arange(start, min(start + size, len(held)))
        x, lengths = held.read(rows)
        parts.append(series_lsel(scale * net.score(x), held.y[rows], lengths))
    return np.concatenate(parts)


def gain(before: np.ndarray, after: np.ndarray, weights: np.ndarray) -> Gain:
    """Compare the losses of two networks on the same series.

    Parameters
    ----------
    before, after
        (n,) losses of the series by the two networks.
    weights
        (n,) weights of the series, with mean 1, that give every class the same total weight.

    Examples
    --------
    >>> losses = np.linspace(0.1, 0.9, 50)
    >>> gain(losses, losses - 0.1, np.ones(50)).is_clear
    True
    >>> gain(losses, losses[::-1], np.ones(50)).is_clear  # the same mean
    False
    """
    lower = weights * (before - after)
    error = float(lower.std(ddof=1) / np.sqrt(len(lower))) if len(lower) > 1 else np.inf
    return Gain(float(lower.mean()), error, float((weights * after).mean()))
