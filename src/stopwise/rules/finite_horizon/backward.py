"""Backward induction on held-out series: the expected cost of waiting at each step, from the last one on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from stopwise.rules.finite_horizon.concave import ConcaveFit, features_for, knots_for, tents
from stopwise.rules.finite_horizon.held_out import HeldOutScores
from stopwise.rules.finite_horizon.posteriors import BEND_QUANTILES, apply_curve, fit_step

# The variance of the risk at the next step is roughly proportional to the risk of stopping now. This fraction
# of the largest loss is added, so that the weights of series whose class is almost certain stay finite.
MIN_RELATIVE_VARIANCE = 0.01

# Number of quantiles of the risk that are tried as constant risk limits.
RISK_LIMIT_QUANTILES = 100

# Number of standard errors by which an alternative must be cheaper to be preferred. All alternatives are
# evaluated on the series they were learned from, so the cost of the best of many limits is underestimated.
MIN_SAVING_LEARNED, MIN_SAVING_CONSTANT = 2.0, 3.0


@dataclass(frozen=True)
class Calibration:
    """Maps the scores of each step to posteriors: bends (T, M), slopes (T, M + 1) and shift (T, K)."""

    bends: np.ndarray
    slopes: np.ndarray
    shift: np.ndarray

    def posterior(self, scores: np.ndarray, t: int) -> np.ndarray:
        """Return the posteriors (n, K) of scores (n, K) at step t, counted from 0."""
        return softmax(apply_curve(scores, self.bends[t], self.slopes[t]) + self.shift[t], axis=-1)


class Candidate(NamedTuple):
    """One candidate boundary for each of C costs."""

    min_saving: float  # standard errors by which it must be cheaper than the current choice
    calibration: Calibration
    value: np.ndarray  # (C, T - 1, F) weights of the concave functions
    costs: np.ndarray  # (C, n) cost of each series


def identity_calibration(held_out: HeldOutScores) -> Calibration:
    """Return the calibration that leaves the scores unchanged."""
    steps = held_out.scores.shape[1]
    shift = np.tile(held_out.log_prior, (steps, 1))
    bends = len(BEND_QUANTILES)
    return Calibration(np.zeros((steps, bends)), np.ones((steps, bends + 1)), shift)


def fit_calibration(held_out: HeldOutScores, y: np.ndarray) -> Calibration:
    """Learn the calibration of each step from the labels."""
    found = []
    for t in range(held_out.scores.shape[1]):
        here = held_out.lengths > t
        scores = held_out.scores[here, t].astype(np.float64)
        found.append(fit_step(scores, y[here], held_out.weights[here], held_out.log_prior))
    return Calibration(*(np.stack(part) for part in zip(*found)))


def cheapest(held_out: HeldOutScores, costs: np.ndarray) -> list[tuple[Calibration, np.ndarray]]:
    """Return, for each cost, the calibration and the value (T - 1, F) of least cost on these series.

    Without labels, the scores are assumed to be exact. With labels, the scores are calibrated if this clearly
    improves the likelihood on a held-out half of the series. Then alternatives are compared by their cost
    according to the labels. Each one makes weaker assumptions about the scores than the one before; the last
    ones use a constant limit on the risk.
    """
    first = exact = identity_calibration(held_out)
    learned = None if held_out.y is None else fit_calibration(held_out, held_out.y)
    if learned is not None and _needs_calibration(held_out):
        first = learned
    candidates = [Candidate(0.0, first, *induce(held_out, first, costs, martingale=True, realized=False))]
    if learned is not None:
        for martingale, realized in ((True, False), (False, False), (False, True)):
            found = induce(held_out, learned, costs, martingale=martingale, realized=realized)
            candidates.append(Candidate(MIN_SAVING_LEARNED, learned, *found))
        for calibration in (exact, learned):
            found = constant_risk_limit(held_out, calibration, costs)
            candidates.append(Candidate(MIN_SAVING_CONSTANT, calibration, *found))
    chosen = []
    for i in range(len(costs)):
        best = candidates[0]
        for other in candidates[1:]:
            saving = held_out.weights * (best.costs[i] - other.costs[i])  # (n,)
            if _standard_errors(saving) > other.min_saving:
                best = other
        chosen.append((best.calibration, best.value[i]))
    return chosen


def _needs_calibration(held_out: HeldOutScores) -> bool:
    """Return whether calibration on one half of the series clearly improves the fit on the other half.

    The comparison uses the likelihood. It needs far fewer series than a comparison of decision costs, because
    it uses every step of every series, not only the few steps at which two rules differ.
    """
    gains, weights = [], []
    permutation = np.random.default_rng(0).permutation(
        len(held_out.scores)
    )  # shuffled, because labels may alternate
    halves = [held_out.part(permutation[start::2]) for start in (0, 1)]
    for part, other in (halves, halves[::-1]):
        assert part.y is not None
        learned = fit_calibration(part, part.y)
        gains.append(_log_losses(other, identity_calibration(other)) - _log_losses(other, learned))
        weights.append(other.weights)
    return _standard_errors(np.concatenate(gains) * np.concatenate(weights)) > MIN_SAVING_LEARNED


def _log_losses(held_out: HeldOutScores, calibration: Calibration) -> np.ndarray:
    """Return the mean of -log posterior of the true class over the steps of each series, (n,)."""
    assert held_out.y is not None
    total = np.zeros(len(held_out.y))
    for t in range(held_out.scores.shape[1]):
        here = np.flatnonzero(held_out.lengths > t)
        own = calibration.posterior(held_out.scores[here, t], t)[np.arange(len(here)), held_out.y[here]]
        total[here] -= np.log(np.maximum(own, 1e-300))
    return total / held_out.lengths


def _standard_errors(gains: np.ndarray) -> float:
    """Return the mean of the gains (n,) divided by its standard error."""
    error = gains.std() / np.sqrt(len(gains))
    return float(gains.mean() / error) if error > 0 else 0.0


def constant_risk_limit(
    held_out: HeldOutScores, calibration: Calibration, costs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best rule of the form "stop when the expected loss is at most r", as `induce` does."""
    n, steps, classes = held_out.scores.shape
    risk, loss = np.full((n, steps), np.inf), np.zeros((n, steps))
    for t in range(steps):
        here = np.flatnonzero(held_out.lengths > t)
        risks = calibration.posterior(held_out.scores[here, t], t) @ held_out.loss
        best = risks.argmin(-1)
        risk[here, t] = risks[np.arange(len(here)), best]
        loss[here, t] = risk[here, t] if held_out.y is None else held_out.loss[held_out.y[here], best]
    rows = np.arange(n)
    # Candidate limits: quantiles of the lowest and of the first risk of the series.
    shares = np.linspace(0, 1, RISK_LIMIT_QUANTILES)
    lowest = np.quantile(risk.min(1), shares, method="nearest")
    limits = np.unique(np.concatenate([lowest, np.quantile(risk[:, 0], shares)]))
    losses, times = np.empty(len(limits)), np.empty(len(limits))
    for i, limit in enumerate(limits):
        below = risk <= limit  # (n, T)
        first = np.where(below.any(1), below.argmax(1), held_out.lengths - 1)
        losses[i] = held_out.weights @ loss[rows, first] / held_out.weights.sum()
        times[i] = held_out.weights @ (first + 1) / held_out.weights.sum()
    averages = losses + costs[:, None] * times  # (C, limits)
    chosen = averages.argmin(1)
    # A constant cost of waiting: equal weights of the K components of p, which sum to 1, and no tents.
    flat = np.zeros((len(costs), steps - 1, features_for(classes)))
    flat[..., :classes] = limits[chosen][:, None, None]
    below = risk <= limits[chosen][:, None, None]  # (C, n, T)
    first = np.where(below.any(2), below.argmax(2), held_out.lengths - 1)
    return flat, loss[rows, first] + costs[:, None] * (first + 1)


def induce(
    held_out: HeldOutScores,
    calibration: Calibration,
    costs: np.ndarray,
    *,
    martingale: bool,
    realized: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cost of waiting at each step for each cost, and the cost of the resulting rule.

    Parameters
    ----------
    held_out, calibration
        The series, and the map from scores to posteriors.
    costs
        (C,) costs of one sample.
    martingale
        Whether to assume that the posteriors have no drift, as is the case if the scores are sufficient
        statistics. This reduces noise.
    realized
        Whether the target of a series that waits is its realized cost instead of its expected cost. This has
        less bias if the scores are not sufficient statistics, but more noise.

    Returns
    -------
    value
        (C, T - 1, F) weights of the concave functions.
    series_costs
        (C, n) cost of each series according to its label, or to its posterior if labels are not known.
    """
    n, steps, classes = held_out.scores.shape
    knots, rows = knots_for(classes), np.arange(n)
    next_posterior = np.zeros((n, classes))  # posteriors at the next step
    ahead = np.zeros((len(costs), n))  # expected cost from the next step on
    series_costs = np.zeros((len(costs), n))  # cost from the next step on, according to the labels
    value: list[np.ndarray] = []
    for t in range(steps - 1, -1, -1):
        here = held_out.lengths > t
        scores = np.where(here[:, None], held_out.scores[:, t], 0.0)
        posterior = calibration.posterior(scores, t)  # (n, K)
        risks = posterior @ held_out.loss
        best = risks.argmin(-1)
        risk = risks[rows, best]
        by_label = risk if held_out.y is None else held_out.loss[held_out.y, best]
        can_wait = held_out.lengths > t + 1
        wait = np.full((len(costs), n), np.inf)
        if t < steps - 1:
            at = posterior[can_wait]
            regressors = tents(at, knots)
            relative_risk = risk[can_wait] / held_out.loss.max()
            weights = held_out.weights[can_wait] / (relative_risk + MIN_RELATIVE_VARIANCE)
            moved = (next_posterior[can_wait] - at)[:, : classes - 1]
            known_zero = (moved[..., None] * at[:, None]).reshape(len(at), -1) if martingale else None
            fit = ConcaveFit(regressors, weights, known_zero)
            found = np.stack([fit.solve(a[can_wait]) for a in ahead])  # (C, F)
            # The cost of the sample is added after the fit, so that it is included where there are no series.
            found[:, :classes] += costs[:, None]
            wait[:, can_wait] = found @ regressors.T
            value.append(found)
        stops = risk <= wait  # (C, n)
        carried = ahead + costs[:, None] if realized else wait
        ahead = np.where(here, np.where(stops, risk, carried), 0.0)
        series_costs = np.where(here, np.where(stops, by_label, series_costs + costs[:, None]), 0.0)
        next_posterior = posterior
    none = np.zeros((len(costs), 0, features_for(classes)))
    return np.stack(value[::-1], axis=1) if value else none, series_costs + costs[:, None]
