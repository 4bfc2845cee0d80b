"""Fit a `SlopedProbability` rule: two numbers of least expected cost, averaged over bootstrap samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stopwise.rules.arrays import add_log_prior
from stopwise.rules.expected_errors import expected_errors
from stopwise.rules.max_probability import log_odds
from stopwise.rules.sloped_probability import PIVOT, SlopedProbability
from stopwise.validation import check_class_indices, check_scores

LEVELS = np.linspace(-3.5, 8.0, 36)  # with many classes the best one may have a probability of a few percent
SLOPES = np.linspace(-8.0, 8.0, 9)
SAMPLES = 50
PREFER_FLAT = 5e-4  # cost added per unit of slope: of equal lines, the flatter one is taken

# (errors (…, n), times (…, n)) → the cost of each series (…, n), to be minimized on average
Cost = Callable[[np.ndarray, np.ndarray], np.ndarray]


class LineOutcomes:
    """Errors, expected errors and stopping times of each series for every line of a grid.

    Parameters
    ----------
    scores
        (n, T, K) scores.
    y
        (n,) true class indices.
    lengths
        (n,) lengths of the series; None means all have T steps.
    prior
        (K,) class probabilities; None means equal.
    """

    def __init__(self, scores: Any, y: Any, lengths: Any, prior: np.ndarray | None) -> None:
        scores, self.lengths = check_scores(scores, lengths)
        y = check_class_indices(y, *scores.shape[::2])
        if not len(y):
            raise ValueError("`scores` holds no series; pass at least one.")
        self.horizon = int(self.lengths.max())
        weighted = add_log_prior(np.asarray(scores[:, : self.horizon], np.float64), prior)  # (n, T, K)
        best = weighted.argmax(-1)
        odds = np.take_along_axis(log_odds(weighted), best[..., None], -1)[..., 0]  # (n, T)
        wrong = best != y[:, None]
        steps = np.arange(1, self.horizon + 1)
        risk = expected_errors(odds, wrong, self.lengths)  # (n, T)
        odds = np.where(steps <= self.lengths[:, None], odds, -np.inf)
        self.wrong = np.empty((len(LEVELS), len(SLOPES), len(y)), bool)
        self.expected = np.empty(self.wrong.shape)
        self.times = np.empty(self.wrong.shape, np.int64)
        rows = np.arange(len(y))
        for j, slope in enumerate(SLOPES):
            # A line of this slope is reached at the first step where this excess is at least its level.
            excess = np.maximum.accumulate(odds - slope * (steps / self.horizon - PIVOT), axis=1)  # (n, T)
            for i, level in enumerate(LEVELS):
                reached = excess >= level
                stop = np.where(reached[:, -1], reached.argmax(1), self.lengths - 1)
                self.wrong[i, j], self.expected[i, j] = wrong[rows, stop], risk[rows, stop]
                self.times[i, j] = stop + 1

    def best_line(self, costs: np.ndarray, weights: np.ndarray) -> tuple[int, int]:
        """Return the grid point of least mean cost (levels, slopes, n), smoothed over its neighbors."""
        mean = costs @ weights + PREFER_FLAT * np.abs(SLOPES)
        padded = np.pad(mean, 1, mode="edge")
        rows = padded[:-2] + 2 * padded[1:-1] + padded[2:]
        smooth = rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]
        place = np.unravel_index(int(smooth.argmin()), smooth.shape)
        return int(place[0]), int(place[1])


def fit_line(outcomes: LineOutcomes, cost: Cost, random_state: int = 0) -> SlopedProbability:
    """Return the rule of least mean cost: the line with the mean level and slope of bootstrap samples.

    Lines are compared by the mean of observed and expected errors: expected errors vary less by chance, but
    new series may differ from what the posterior of these series says.

    Parameters
    ----------
    outcomes
        Errors and times of the series.
    cost
        What is to be minimized, per series.
    random_state
        Seed of the bootstrap samples.

    Returns
    -------
    rule
        Its `cost_range` is that of each sample's best line on the series outside the sample, by the errors
        observed there.
    """
    rng = np.random.default_rng(random_state)
    costs = cost((outcomes.wrong + outcomes.expected) / 2, outcomes.times)  # (levels, slopes, n)
    n = costs.shape[2]
    lines, spread = [], []
    for _ in range(SAMPLES):
        counts = np.bincount(rng.integers(n, size=n), minlength=n)
        i, j = outcomes.best_line(costs, counts / n)
        lines.append((LEVELS[i], SLOPES[j]))
        outside = counts == 0
        if outside.any():
            spread.append(cost(outcomes.wrong[i, j, outside], outcomes.times[i, j, outside]).mean())
    # The numbers are far less certain than the digits that are kept, and these are easier to read. Costs have
    # a unit of the user's choice, so they keep significant digits, not decimals.
    level, slope = np.mean(lines, axis=0).round(4).tolist()
    between = [float(f"{one:.4g}") for one in np.quantile(spread, [0.05, 0.95])] if spread else None
    return SlopedProbability(level, slope, outcomes.horizon, cost_range=between)
