"""Backward induction on held-out series: what waiting costs at each step, from the deadline back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from stopwise.rules.finite_horizon.concave import ConcaveFit, features_for, knots_for, tents
from stopwise.rules.finite_horizon.held_out import HeldOutScores
from stopwise.rules.finite_horizon.posteriors import BEND_QUANTILES, apply_curve, fit_step

# The variance of the next step's risk is roughly proportional to the risk of stopping now. This share of the
# largest loss is added to it, so that the weights of series whose class is almost certain stay finite.
MIN_RELATIVE_VARIANCE = 0.01

# How many quantiles of the risk are tried as constant risk limits.
RISK_LIMIT_QUANTILES = 100

# By how many standard errors an alternative must be cheaper to be preferred. All are judged on the series
# they were learned from, and the best of many constant limits always looks better than it is.
MIN_SAVING_LEARNED, MIN_SAVING_CONSTANT = 2.0, 3.0


@dataclass(frozen=True)
class Calibration:
    """How the scores of each step become posteriors: bends (T, M), slopes (T, M + 1) and shift (T, K)."""

    bends: np.ndarray
    slopes: np.ndarray
    shift: np.ndarray

    def posterior(self, scores: np.ndarray, t: int) -> np.ndarray:
        """Return the posteriors (n, K) of scores (n, K) at step t, counted from 0."""
        return softmax(apply_curve(scores, self.bends[t], self.slopes[t]) + self.shift[t], axis=-1)


class Candidate(NamedTuple):
    """One way to set the boundary, for each of C costs."""

    min_saving: float  # standard errors by which it must be cheaper than the current choice
    calibration: Calibration
    value: np.ndarray  # (C, T - 1, F) weights of the concave functions
    costs: np.ndarray  # (C, n) what each series costs


def identity_calibration(held_out: HeldOutScores) -> Calibration:
    """Return the calibration that takes the scores to be exact."""
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
    """Return for each cost the calibration and the value (T - 1, F) that cost these series least.

    Without labels the scores are taken to be exact. With labels they are calibrated if that clearly improves
    the likelihood of other series. Then several alternatives are compared by what they cost according to the
    labels. They assume less and less about the scores; the last is a constant limit on the risk.
    """
    first = exact = identity_calibration(held_out)
    learned = None if held_out.y is None else fit_calibration(held_out, held_out.y)
    if learned is not None and _needs_calibration(held_out):
        first = learned
    candidates = [Candidate(0.0, first, *induce(held_out, first, costs, martingale=True, realised=False))]
    if learned is not None:
        for martingale, realised in ((True, False), (False, False), (False, True)):
            found = induce(held_out, learned, costs, martingale=martingale, realised=realised)
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
    """Whether posteriors calibrated on one half of the series clearly fit the other half better.

    The likelihood shows this with far fewer series than the cost of decisions: it uses every step of every
    series, not only the few at which two rules differ.
    """
    gains, weights = [], []
    permutation = np.random.default_rng(0).permutation(len(held_out.scores))  # labels may alternate
    halves = [held_out.part(permutation[start::2]) for start in (0, 1)]
    for part, other in (halves, halves[::-1]):
        assert part.y is not None
        learned = fit_calibration(part, part.y)
        gains.append(_log_losses(other, identity_calibration(other)) - _log_losses(other, learned))
        weights.append(other.weights)
    return _standard_errors(np.concatenate(gains) * np.concatenate(weights)) > MIN_SAVING_LEARNED


def _log_losses(held_out: HeldOutScores, calibration: Calibration) -> np.ndarray:
    """Return the mean over each series' steps of -log posterior of its class, (n,)."""
    assert held_out.y is not None
    total = np.zeros(len(held_out.y))
    for t in range(held_out.scores.shape[1]):
        here = np.flatnonzero(held_out.lengths > t)
        own = calibration.posterior(held_out.scores[here, t], t)[np.arange(len(here)), held_out.y[here]]
        total[here] -= np.log(np.maximum(own, 1e-300))
    return total / held_out.lengths


def _standard_errors(gains: np.ndarray) -> float:
    """Return the mean of gains (n,) in units of its standard error."""
    error = gains.std() / np.sqrt(len(gains))
    return float(gains.mean() / error) if error > 0 else 0.0


def constant_risk_limit(
    held_out: HeldOutScores, calibration: Calibration, costs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return, as `induce` does, the best rule of the form "stop when the expected loss is at most r"."""
    n, steps, classes = held_out.scores.shape
    risk, loss = np.full((n, steps), np.inf), np.zeros((n, steps))
    for t in range(steps):
        here = np.flatnonzero(held_out.lengths > t)
        risks = calibration.posterior(held_out.scores[here, t], t) @ held_out.loss
        best = risks.argmin(-1)
        risk[here, t] = risks[np.arange(len(here)), best]
        loss[here, t] = risk[here, t] if held_out.y is None else held_out.loss[held_out.y[here], best]
    rows = np.arange(n)
    # Limits that the lowest risk, or the first risk, of some series just reaches.
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
    # The same cost of waiting for every posterior p: K equal weights of p, which sums to 1, and no tents.
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
    realised: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return what waiting costs at each step for each cost, and what the resulting rule costs.

    Parameters
    ----------
    held_out, calibration
        The series, and how their scores become posteriors.
    costs
        (C,) costs of a sample.
    martingale
        Whether to use that posteriors of a sufficient score have no drift: less noise where this is true.
    realised
        Whether a series that waits carries its realised cost, not its expected one: less bias where the
        score is not sufficient, more noise.

    Returns
    -------
    value
        (C, T - 1, F) weights of the concave functions.
    series_costs
        (C, n) what each series costs by its label, or by its posterior if labels are not known.
    """
    n, steps, classes = held_out.scores.shape
    knots, rows = knots_for(classes), np.arange(n)
    next_posterior = np.zeros((n, classes))  # at the following step
    ahead = np.zeros((len(costs), n))  # expected cost from the following step on
    series_costs = np.zeros((len(costs), n))  # cost from the following step on, by the labels
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
            # The sample is added after the fit: where there are no series, waiting still costs that much.
            found[:, :classes] += costs[:, None]
            wait[:, can_wait] = found @ regressors.T
            value.append(found)
        stops = risk <= wait  # (C, n)
        carried = ahead + costs[:, None] if realised else wait
        ahead = np.where(here, np.where(stops, risk, carried), 0.0)
        series_costs = np.where(here, np.where(stops, by_label, series_costs + costs[:, None]), 0.0)
        next_posterior = posterior
    none = np.zeros((len(costs), 0, features_for(classes)))
    return np.stack(value[::-1], axis=1) if value else none, series_costs + costs[:, None]
