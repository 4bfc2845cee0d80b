"""Thresholds per step that limit the accuracy gap among the series decided by step t, for every t.

An overall guarantee allows many wrong early decisions if late decisions compensate for them. Here the mean
loss of the series decided by step t must be at most the given rate, for every t. The method follows Ringel et
al., "Early time classification with accuracy gap control" (2024): one half of the series is used to choose
thresholds, the other half to test them.
"""

from __future__ import annotations

import numpy as np

from stopwise.rules.calibration.learn_then_test import p_values
from stopwise.rules.calibration.trials import Trials, stops

# Significance levels used to choose thresholds, as fractions of `delta`. Thresholds chosen at a stricter
# level stop later but pass the test on the other half more often. `_suggest` chooses the best level.
STRICTNESS = 4.0 ** -np.arange(5)
CONSTANTS = 64  # number of constant thresholds that are tried


def conditional_thresholds(trials: Trials, rate: float, delta: float, random_state: int) -> np.ndarray:
    """Return thresholds (T,) whose accuracy gap among series decided by step t is at most `rate`.

    With probability at least 1 − `delta` over draws of the series, this holds for all t simultaneously. A
    forced decision has no accuracy gap, so an infinite threshold is always valid. It is used at the steps
    where no finite threshold passes the test.

    Parameters
    ----------
    trials
        The calibration series.
    rate, delta
        The maximum gap, and the maximum probability that the guarantee fails.
    random_state
        Seed of the split into halves, which must not depend on the content of the series.
    """
    permutation = np.random.default_rng(random_state).permutation(len(trials.y))
    half = len(permutation) // 2
    suggested = _suggest(trials.part(permutation[:half]), rate, delta)
    return _test(trials.part(permutation[half:]), suggested, rate, delta)


def _suggest(trials: Trials, rate: float, delta: float) -> np.ndarray:
    """Return thresholds (T,) that are likely to pass the test and stop early.

    These series are not used in the final test, so thresholds may be chosen from them in any way. Each method
    is tried on a split of these series into two halves: thresholds are chosen on the first half and tested on
    the second. The method with the earliest mean stopping time is used.
    """
    half = len(trials.y) // 2
    if not half:
        return np.full(trials.leads.shape[1], np.inf)
    first, second = trials.part(np.arange(half)), trials.part(np.arange(half, len(trials.y)))
    methods = [(method, level) for method in (_constant, _greedy) for level in delta * STRICTNESS]
    means = []
    for method, level in methods:
        passed = _test(second, method(first, rate, level), rate, delta)
        means.append(stops(second, passed)[0].mean())
    method, level = methods[int(np.argmin(means))]
    return method(trials, rate, level)


def _constant(trials: Trials, rate: float, level: float) -> np.ndarray:
    """Return the lowest constant threshold that passes, (T,); infinity at steps with few decided series."""
    steps = trials.leads.shape[1]
    gaps = trials.gaps()
    seen = trials.leads[np.isfinite(trials.leads)]
    values = np.unique(np.quantile(seen, np.linspace(0, 1, CONSTANTS)))[::-1]  # (V,), descending
    decided, losses = np.empty((2, len(values), steps), dtype=np.int64)
    for i, value in enumerate(values):
        stop, forced = stops(trials, np.full(steps, value))
        decided[i] = np.cumsum(np.bincount(stop, minlength=steps))
        losses[i] = np.cumsum(np.bincount(stop, gaps.at(stop, forced), minlength=steps))
    enough = p_values(np.zeros_like(losses), decided, np.array(rate)) <= level  # too few series cannot pass
    fails = ((p_values(losses, decided, np.array(rate)) > level) & enough).any(1)  # (V,)
    passing = (int(np.argmax(fails)) if fails.any() else len(values)) - 1
    if passing < 0:
        return np.full(steps, np.inf)
    return np.where(enough[passing], values[passing], np.inf)


def _greedy(trials: Trials, rate: float, level: float) -> np.ndarray:
    """Return, for each step, the lowest threshold that passes given the earlier thresholds, (T,)."""
    n, steps = trials.leads.shape
    gap = trials.gaps().accepted
    thresholds, harmless = np.full(steps, np.inf), _harmless(trials)
    undecided = np.ones(n, dtype=bool)
    decided = losses = 0
    for t in range(steps):
        ending = undecided & (trials.lengths == t + 1)
        decided, undecided = decided + int(ending.sum()), undecided & ~ending
        rows = np.flatnonzero(undecided)
        if not len(rows):  # these are used if the earlier thresholds fail the test
            thresholds[t:] = harmless[t:]
            break
        rows = rows[np.argsort(-trials.leads[rows, t], kind="stable")]
        leads = trials.leads[rows, t]
        limits = np.append(leads[:-1], min(leads[-1], harmless[t]))  # the last limit accepts all series
        # Series that end here are decided at this step anyway; accepting their best class may be a loss.
        lost_at_end = np.sort(trials.leads[ending & gap[:, t], t])
        lost = losses + np.cumsum(gap[rows, t]) + len(lost_at_end) - np.searchsorted(lost_at_end, limits)
        counts = decided + np.arange(1, len(rows) + 1)
        # Series with equal leads stop together, so a limit can only lie after the last of them.
        possible = np.append(leads[1:] < leads[:-1], True)
        passes = np.flatnonzero(possible & (p_values(lost, counts, np.array(rate)) <= level))
        if len(passes):
            last = passes[-1]
            thresholds[t] = limits[last]
            decided, losses = int(counts[last]), int(lost[last])
            undecided[rows[: last + 1]] = False
    return thresholds


def _harmless(trials: Trials) -> np.ndarray:
    """Return, for each step, the lowest threshold without an accuracy gap in series that end there, (T,).

    It is 0 unless a prior makes forced decisions differ from the class with the highest score.
    """
    thresholds = np.zeros(trials.leads.shape[1])
    last = trials.lengths - 1
    rows = np.flatnonzero(trials.gaps().accepted[np.arange(len(last)), last])
    above = np.nextafter(trials.leads[rows, last[rows]], np.inf)
    np.maximum.at(thresholds, last[rows], above)
    return thresholds


def _test(trials: Trials, suggested: np.ndarray, rate: float, delta: float) -> np.ndarray:
    """Return the suggested thresholds from the earliest accepted step on, and infinity before it, (T,).

    Candidate t uses the suggested thresholds from step t on and never stops before. Candidates are tested in
    a fixed sequence, from the last step to the first. Candidate t is invalid if the gap among the series
    decided by some step s exceeds the rate. Before step t all decisions are forced and have no gap. For each
    s >= t, given which series are decided by step s, their losses are independent draws, so the binomial
    p-value is valid. The candidate passes if the tests of all s pass (an intersection-union test).
    """
    n, steps = trials.leads.shape
    gap = trials.gaps().accepted
    accepted = np.full(steps, np.inf)
    stop, lost = trials.lengths - 1, np.zeros(n, dtype=bool)  # step and loss of each decision
    for t in reversed(range(steps)):
        if suggested[t] == np.inf:  # the same candidate as t + 1
            continue
        now = trials.leads[:, t] >= suggested[t]
        stop, lost = np.where(now, t, stop), np.where(now, gap[:, t], lost)
        decided = np.cumsum(np.bincount(stop, minlength=steps))[t:]
        losses = np.cumsum(np.bincount(stop, lost, minlength=steps))[t:]
        if (p_values(losses, decided, np.array(rate)) > delta).any():
            break
        accepted[t] = suggested[t]
    return accepted
