"""Thresholds per step whose loss is small among the series decided by step t, whatever t.

An overall promise lets early decisions be bad if late ones make up for it. Here the mean loss of the
series decided by step t must be at most the rate for every t. After Ringel and others, "Early time
classification with accuracy gap control" (2024): one half of the series suggests thresholds, the other
half tests them.
"""

from __future__ import annotations

import numpy as np

from stopwise.rules.calibration.learn_then_test import p_values
from stopwise.rules.calibration.trials import Trials, stopping_steps

# How sure the suggesting half must be: the surer, the later the thresholds stop, and the sooner the other
# half agrees. What serves best is tried out within the suggesting half.
STRICTNESS = 4.0 ** -np.arange(5)
CONSTANTS = 64  # constant thresholds that are looked at


def conditional_thresholds(trials: Trials, rate: float, delta: float, seed: int) -> np.ndarray:
    """Return thresholds (T,) whose accuracy gap among series decided by step t is at most `rate`.

    With probability 1 − `delta` over draws of the series it holds for every t at once. A series that ends
    counts as decided at its end, where there is no gap. So to wait, infinity, is always right, and it is
    what remains where nothing else can be shown.

    Parameters
    ----------
    trials
        The calibration series.
    rate, delta
        The gap allowed, and the probability of failure.
    seed
        Of the split, which must not depend on what the series are.
    """
    order = np.random.default_rng(seed).permutation(len(trials.y))
    half = len(order) // 2
    suggested = _suggest(trials.part(order[:half]), rate, delta)
    return _test(trials.part(order[half:]), suggested, rate, delta)


def _suggest(trials: Trials, rate: float, delta: float) -> np.ndarray:
    """Return thresholds (T,) that are likely to pass, and early if they do.

    Anything may be done here: these series do not take part in the test. Several ways are rehearsed, one
    half of these series suggesting to the other; the way that stops earliest on average is taken.
    """
    half = len(trials.y) // 2
    if not half:
        return np.full(trials.leads.shape[1], np.inf)
    first, second = trials.part(np.arange(half)), trials.part(np.arange(half, len(trials.y)))
    ways = [(way, level) for way in (_constant, _greedy) for level in delta * STRICTNESS]
    means = []
    for way, level in ways:
        passed = _test(second, way(first, rate, level), rate, delta)
        means.append(stopping_steps(second, passed).mean())
    way, level = ways[int(np.argmin(means))]
    return way(trials, rate, level)


def _constant(trials: Trials, rate: float, level: float) -> np.ndarray:
    """Return the lowest threshold common to all steps that passes, (T,); infinity while few are decided."""
    n, steps = trials.leads.shape
    gap = trials.gap()
    seen = trials.leads[np.isfinite(trials.leads)]
    values = np.unique(np.quantile(seen, np.linspace(0, 1, CONSTANTS)))[::-1]  # (V,), falling
    decided, losses = np.empty((2, len(values), steps), dtype=np.int64)
    for i, value in enumerate(values):
        stop = stopping_steps(trials, np.full(steps, value))
        decided[i] = np.cumsum(np.bincount(stop, minlength=steps))
        losses[i] = np.cumsum(np.bincount(stop, gap[np.arange(n), stop], minlength=steps))
    enough = p_values(np.zeros_like(losses), decided, np.array(rate)) <= level  # few cannot pass at all
    fails = ((p_values(losses, decided, np.array(rate)) > level) & enough).any(1)  # (V,)
    passing = (int(np.argmax(fails)) if fails.any() else len(values)) - 1
    if passing < 0:
        return np.full(steps, np.inf)
    return np.where(enough[passing], values[passing], np.inf)


def _greedy(trials: Trials, rate: float, level: float) -> np.ndarray:
    """Return for each step the lowest threshold that passes, given those before it, (T,)."""
    n, steps = trials.leads.shape
    gap = trials.gap()
    thresholds = np.full(steps, np.inf)
    open_ = np.ones(n, dtype=bool)
    decided = losses = 0
    for t in range(steps):
        ending = open_ & (trials.lengths == t + 1)  # decided here in any case, without a gap
        decided, open_ = decided + int(ending.sum()), open_ & ~ending
        rows = np.flatnonzero(open_)
        if not len(rows):  # later steps are of use where earlier ones fail the test
            thresholds[t:] = 0.0
            break
        rows = rows[np.argsort(-trials.leads[rows, t], kind="stable")]
        leads, lost = trials.leads[rows, t], losses + np.cumsum(gap[rows, t])
        counts = decided + np.arange(1, len(rows) + 1)
        # Equal leads stop together: only the last of them may end the list.
        possible = np.append(leads[1:] < leads[:-1], True)
        passes = np.flatnonzero(possible & (p_values(lost, counts, np.array(rate)) <= level))
        if len(passes):
            last = passes[-1]
            thresholds[t] = 0.0 if last == len(rows) - 1 else leads[last]
            decided, losses = int(counts[last]), int(lost[last])
            open_[rows[: last + 1]] = False
    return thresholds


def _test(trials: Trials, suggested: np.ndarray, rate: float, delta: float) -> np.ndarray:
    """Return the suggested thresholds from the earliest step on that can be shown to be right, (T,).

    Candidate t stops from step t on, by the suggested thresholds, and never before. Candidates are tested
    from the last step to the first, a fixed sequence. Candidate t is bad if the gap among series decided
    by some step s is above the rate. Before t only series that end are decided, without a gap; for each
    s >= t, given who is decided by then, their losses are independent draws, so the binomial p-value holds;
    and all of them must pass (an intersection-union test).
    """
    n, steps = trials.leads.shape
    gap = trials.gap()
    accepted = np.full(steps, np.inf)
    stop, lost = trials.lengths - 1, np.zeros(n, dtype=bool)  # when each series is decided, and its loss
    for t in reversed(range(steps)):
        if suggested[t] == np.inf:  # the same candidate as before
            continue
        now = trials.leads[:, t] >= suggested[t]
        stop, lost = np.where(now, t, stop), np.where(now, gap[:, t], lost)
        decided = np.cumsum(np.bincount(stop, minlength=steps))[t:]
        losses = np.cumsum(np.bincount(stop, lost, minlength=steps))[t:]
        if (p_values(losses, decided, np.array(rate)) > delta).any():
            break
        accepted[t] = suggested[t]
    return accepted
