"""Backward induction on held-out series: what waiting costs at each step, from the deadline back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stopwise.rules.finite_horizon.concave import ConcaveFit, features_for, knots_for, tents
from stopwise.rules.finite_horizon.posteriors import BENDS, fit_step, softmax, stretch

# The variance of the next step's risk is roughly the risk of stopping now; this share of the largest
# loss keeps the weights of all but decided series finite.
SURE = 0.01

# Constant bars that are tried besides.
BARS = 100

# Standard errors of a saving from which on another way is preferred. The ways are judged on the series
# they are learnt from, and the best of many bars always looks better than it is.
LEARNT, BAR = 2.0, 3.0


@dataclass(frozen=True)
class Evidence:
    """Held-out series as the induction reads them.

    Attributes
    ----------
    scores
        (n, T, K) scores, anything past a series' end.
    lengths
        (n,) their lengths, none beyond T.
    y
        (n,) class indices, or None if not known.
    weights
        (n,) weights of the series, of mean 1.
    log_prior
        (K,) logarithm of the prior.
    loss
        (K, K) loss of deciding the class of the column for a series of the row's class, 0 for the best.
    """

    scores: np.ndarray
    lengths: np.ndarray
    y: np.ndarray | None
    weights: np.ndarray
    log_prior: np.ndarray
    loss: np.ndarray

    def at(self, rows: np.ndarray) -> Evidence:
        """Return some of the series."""
        y = None if self.y is None else self.y[rows]
        return replace(
            self, scores=self.scores[rows], lengths=self.lengths[rows], y=y, weights=self.weights[rows]
        )


@dataclass(frozen=True)
class Calibration:
    """How the scores of each step become posteriors: bends (T, M), slopes (T, M + 1) and shift (T, K)."""

    bends: np.ndarray
    slopes: np.ndarray
    shift: np.ndarray

    def posterior(self, scores: np.ndarray, t: int) -> np.ndarray:
        """Return the posteriors (n, K) of scores (n, K) at step t, counted from 0."""
        return softmax(stretch(scores, self.bends[t], self.slopes[t]) + self.shift[t])


def believe(evidence: Evidence) -> Calibration:
    """Return the calibration that takes the scores at their word."""
    steps = evidence.scores.shape[1]
    shift = np.tile(evidence.log_prior, (steps, 1))
    return Calibration(np.zeros((steps, len(BENDS))), np.ones((steps, len(BENDS) + 1)), shift)


def calibrate(evidence: Evidence, y: np.ndarray) -> Calibration:
    """Learn the calibration of each step from the labels."""
    found = []
    for t in range(evidence.scores.shape[1]):
        here = evidence.lengths > t
        scores = evidence.scores[here, t].astype(np.float64)
        found.append(fit_step(scores, y[here], evidence.weights[here], evidence.log_prior))
    return Calibration(*(np.stack(part) for part in zip(*found)))


def cheapest(evidence: Evidence, costs: np.ndarray) -> list[tuple[Calibration, np.ndarray]]:
    """Return for each cost the calibration and the value (T - 1, F) that cost these series least.

    Without labels the scores are believed. With labels they are calibrated if that clearly fits series
    better from which it was not learnt, and several ways are tried, from the one that assumes most of the
    scores to the one that assumes least, down to a bar that never moves; what each comes to is counted by the
    labels.
    """
    first = believed = believe(evidence)
    learnt = None if evidence.y is None else calibrate(evidence, evidence.y)
    if learnt is not None and _needs_calibration(evidence):
        first = learnt
    tried = [(0.0, first, *induce(evidence, first, costs, martingale=True, realised=False))]
    if learnt is not None:
        for martingale, realised in ((True, False), (False, False), (False, True)):
            found = induce(evidence, learnt, costs, martingale=martingale, realised=realised)
            tried.append((LEARNT, learnt, *found))
        tried += [(BAR, how, *constant_bar(evidence, how, costs)) for how in (believed, learnt)]
    chosen = []
    for i in range(len(costs)):
        _, how, value, paid = tried[0]
        for hurdle, other, other_value, other_paid in tried[1:]:
            if _saving(paid[i], other_paid[i], evidence.weights) > hurdle:
                how, value, paid = other, other_value, other_paid
        chosen.append((how, value[i]))
    return chosen


def _needs_calibration(evidence: Evidence) -> bool:
    """Whether posteriors calibrated on one half of the series clearly fit the other half better.

    The likelihood tells far sooner than what decisions cost: every step of every series speaks, not only the
    few at which two rules differ.
    """
    gains, weights = [], []
    order = np.random.default_rng(0).permutation(len(evidence.scores))  # labels may come in turn
    halves = [evidence.at(order[start::2]) for start in (0, 1)]
    for part, other in (halves, halves[::-1]):
        assert part.y is not None
        learnt = calibrate(part, part.y)
        gains.append(_log_losses(other, believe(other)) - _log_losses(other, learnt))
        weights.append(other.weights)
    return _deviations(np.concatenate(gains) * np.concatenate(weights)) > LEARNT


def _log_losses(evidence: Evidence, calibration: Calibration) -> np.ndarray:
    """Return the mean over each series' steps of -log posterior of its class, (n,)."""
    assert evidence.y is not None
    total = np.zeros(len(evidence.y))
    for t in range(evidence.scores.shape[1]):
        here = np.flatnonzero(evidence.lengths > t)
        own = calibration.posterior(evidence.scores[here, t], t)[np.arange(len(here)), evidence.y[here]]
        total[here] -= np.log(np.maximum(own, 1e-300))
    return total / evidence.lengths


def _saving(paid: np.ndarray, other: np.ndarray, weights: np.ndarray) -> float:
    """Return how many standard errors cheaper the other way was for the same series (n,)."""
    return _deviations(weights * (paid - other))


def _deviations(gains: np.ndarray) -> float:
    """Return the mean (n,) in units of its standard error."""
    error = gains.std() / np.sqrt(len(gains))
    return float(gains.mean() / error) if error > 0 else 0.0


def constant_bar(
    evidence: Evidence, calibration: Calibration, costs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return as `induce` does the best rule of the kind "stop when the expected loss is below r"."""
    n, steps, classes = evidence.scores.shape
    risk, loss = np.full((n, steps), np.inf), np.zeros((n, steps))
    for t in range(steps):
        here = np.flatnonzero(evidence.lengths > t)
        risks = calibration.posterior(evidence.scores[here, t], t) @ evidence.loss
        best = risks.argmin(-1)
        risk[here, t] = risks[np.arange(len(here)), best]
        loss[here, t] = risk[here, t] if evidence.y is None else evidence.loss[evidence.y[here], best]
    rows = np.arange(n)
    # A bar between those that the lowest risk of some series just passes: all that can be told apart.
    bars = np.quantile(risk.min(1), np.linspace(0, 1, BARS), method="nearest")
    bars = np.unique(np.concatenate([bars, np.quantile(risk[:, 0], np.linspace(0, 1, BARS))]))
    losses, times = np.empty(len(bars)), np.empty(len(bars))
    for i, bar in enumerate(bars):
        below = risk <= bar  # (n, T)
        first = np.where(below.any(1), below.argmax(1), evidence.lengths - 1)
        losses[i] = evidence.weights @ loss[rows, first] / evidence.weights.sum()
        times[i] = evidence.weights @ (first + 1) / evidence.weights.sum()
    averages = losses + costs[:, None] * times  # (C, bars)
    chosen = averages.argmin(1)
    # The same cost of waiting whatever the posterior: its weights sum p to 1, and there are no tents.
    flat = np.zeros((len(costs), steps - 1, features_for(classes)))
    flat[..., :classes] = bars[chosen][:, None, None]
    below = risk <= bars[chosen][:, None, None]  # (C, n, T)
    first = np.where(below.any(2), below.argmax(2), evidence.lengths - 1)
    return flat, loss[rows, first] + costs[:, None] * (first + 1)


def induce(
    evidence: Evidence,
    calibration: Calibration,
    costs: np.ndarray,
    *,
    martingale: bool,
    realised: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return what waiting costs at each step and each cost, and what the rule so found costs.

    Parameters
    ----------
    evidence, calibration
        The series, and how their scores become posteriors.
    costs
        (C,) costs of a sample.
    martingale
        Whether to use that posteriors of a sufficient score drift nowhere: less noise where it is true.
    realised
        Whether a series that waits carries what it came to cost in the end, not what was expected: less
        bias where the score is not sufficient, more noise.

    Returns
    -------
    value
        (C, T - 1, F) weights of the concave functions.
    paid
        (C, n) what each series costs by its label, or by its posterior if labels are not known.
    """
    n, steps, classes = evidence.scores.shape
    knots, rows = knots_for(classes), np.arange(n)
    later = np.zeros((n, classes))  # the posteriors of the step after
    ahead = np.zeros((len(costs), n))  # expected cost from the step after on
    paid = np.zeros((len(costs), n))  # what it came to by the labels
    value: list[np.ndarray] = []
    for t in range(steps - 1, -1, -1):
        here = evidence.lengths > t
        scores = np.where(here[:, None], evidence.scores[:, t], 0.0)
        posterior = calibration.posterior(scores, t)  # (n, K)
        risks = posterior @ evidence.loss
        best = risks.argmin(-1)
        risk = risks[rows, best]
        by_label = risk if evidence.y is None else evidence.loss[evidence.y, best]
        goes_on = evidence.lengths > t + 1  # the others end here: nothing is left to choose
        wait = np.full((len(costs), n), np.inf)
        if t < steps - 1:
            at = posterior[goes_on]
            regressors = tents(at, knots)
            weights = evidence.weights[goes_on] / (risk[goes_on] / evidence.loss.max() + SURE)
            moved = (later[goes_on] - at)[:, : classes - 1]
            known = (moved[..., None] * at[:, None]).reshape(len(at), -1) if martingale else None
            fit = ConcaveFit(regressors, weights, known)
            found = np.stack([fit.solve(a[goes_on]) for a in ahead])  # (C, F)
            # The sample is added after the fit: where no series has been, waiting still costs that much.
            found[:, :classes] += costs[:, None]
            wait[:, goes_on] = found @ regressors.T
            value.append(found)
        stops = risk <= wait  # (C, n)
        carried = ahead + costs[:, None] if realised else wait
        ahead = np.where(here, np.where(stops, risk, carried), 0.0)
        paid = np.where(here, np.where(stops, by_label, paid + costs[:, None]), 0.0)
        later = posterior
    none = np.zeros((len(costs), 0, features_for(classes)))
    return np.stack(value[::-1], axis=1) if value else none, paid + costs[:, None]
