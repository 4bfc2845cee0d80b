"""Compare models by the log loss of series that they were not fitted to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from stopwise.data.examples import Examples
from stopwise.models.base import Model
from stopwise.models.prefix.folds import make_folds
from stopwise.validation import inside

# Standard errors by which a combination must be better than the best model, and a model that was judged on a
# part of the series better than one that was judged on all.
CLEARLY = 2.0
LARGEST_WEIGHT, SMALLEST_WEIGHT = 10.0, 1e-3


class Trial:
    """A model and its scores of series that it was not fitted to.

    Parameters
    ----------
    model
        The model.
    scores
        (n, T, K) scores; NaN for series that were not held out, and after the end of a series.
    examples
        The series.
    fitted
        Whether the model is fitted to all series.
    """

    def __init__(self, model: Model, scores: np.ndarray, examples: Examples, *, fitted: bool = False) -> None:
        self.model, self.scores, self.fitted = model, scores, fitted
        self.name = model.name or type(model).__name__
        self.losses = series_losses(scores, examples)  # (n,)
        self.outcome, self.seconds, self.dropped = f"held-out log loss {self.loss:.4g}", 0.0, False
        self.partial: Model | None = None  # fitted to enough of the series to be used in a combination

    @classmethod
    def of_folds(
        cls,
        model: Model,
        judged: Mapping[int, Model],
        folds: Sequence[np.ndarray],
        examples: Examples,
        *,
        fitted: bool = False,
    ) -> Trial:
        """Score some folds, each by a model that was fitted without it."""
        scores = np.full((len(examples), examples.steps, examples.classes), np.nan, np.float32)
        for j, one in judged.items():
            for start in range(0, len(folds[j]), one.batch_size):
                rows = folds[j][start : start + one.batch_size]
                x, _ = examples.read(rows)
                scores[rows, : x.shape[1]] = one.scores(x)
        scores[~inside(examples.lengths, examples.steps)] = np.nan
        return cls(model, scores, examples, fitted=fitted)

    @property
    def loss(self) -> float:
        """Mean log loss of the series that were held out."""
        return float(np.nanmean(self.losses))

    def ready(self, *, alone: bool) -> Model | None:
        """Return the fitted model, for use alone or in a combination; None: fit it to all series first."""
        return self.model if self.fitted else None if alone else self.partial

    def ratio(self, best: Trial) -> float:
        """Return the ratio of the loss to that of the best model on the same series."""
        return self.loss / float(np.nanmean(best.losses[~np.isnan(self.losses)]))

    def drop_if_worse(self, best: Trial, factor: float, after: str) -> bool:
        """Drop the model if its loss is higher than that of the best on the same series by a factor."""
        if self.ratio(best) > factor:
            there = ~np.isnan(self.losses)
            other = float(np.nanmean(best.losses[there]))
            self.dropped = True
            self.outcome = (
                f"dropped after {after}: log loss {self.loss:.3g} on {there.sum()} held-out series, "
                f"{other:.3g} of {best.name}"
            )
        return self.dropped

    def described(self, best: Trial, weight: float) -> dict[str, Any]:
        """Return the trial as JSON values."""
        difference = self.losses - best.losses
        difference = difference[~np.isnan(difference)]
        outcome = self.outcome
        if not self.dropped:
            relation = "not clearly better than" if difference.mean() < 0 else "not as good as"
            outcome = f"kept with weight {weight:.3g}" if weight else f"{relation} {best.name}"
        return {
            "model": self.name,
            "loss": self.loss,
            "standard_error": float(difference.std() / np.sqrt(max(1, len(difference)))),
            "series": int((~np.isnan(self.losses)).sum()),
            "seconds": round(self.seconds, 2),
            "weight": weight,
            "outcome": outcome,
        }


def series_losses(scores: np.ndarray, examples: Examples) -> np.ndarray:
    """Return the mean log loss (n,) of each series over its steps, under the empirical prior; NaN without."""
    prior = np.bincount(examples.y, minlength=examples.classes) / len(examples)
    own = inside(examples.lengths, scores.shape[1])
    log_p = log_softmax(np.where(own[..., None], scores, 0) + np.log(prior), axis=-1)
    loss = -np.take_along_axis(log_p, examples.y[:, None, None], axis=2)[..., 0]  # (n, T)
    return np.where(own, loss, 0).sum(axis=1) / examples.lengths


def choose(trials: Sequence[Trial], examples: Examples) -> tuple[np.ndarray, float | None]:
    """Return the weights (M,), exactly 1 for a single model, and the loss of the best combination."""
    alive = [i for i, trial in enumerate(trials) if not trial.dropped]
    judged = np.flatnonzero(~np.isnan(np.stack([trials[i].losses for i in alive])).any(axis=0))
    losses = np.stack([trials[i].losses[judged] for i in alive])  # (alive, judged)
    best = _best(losses, [not np.isnan(trials[i].losses).any() for i in alive])
    single = np.eye(len(alive))[best]
    weights = np.zeros(len(trials))
    if len(alive) == 1:
        weights[alive] = single
        return weights, None
    part = examples.subset(judged)
    scores = [np.nan_to_num(trials[i].scores[judged]) for i in alive]
    fold = make_folds(part.y, part.groups)
    combined = np.empty(len(part))  # of each series, with weights that were found without its fold
    for one in np.unique(fold):
        others, own = fold != one, np.flatnonzero(fold == one)
        tried = _combination(single, [each[others] for each in scores], part.subset(np.flatnonzero(others)))
        combined[own] = series_losses(weighted(tried, [each[own] for each in scores]), part.subset(own))
    found = _combination(single, scores, part)
    used = np.where(found > SMALLEST_WEIGHT, found, 0.0)
    clear = _is_clearly_lower(combined, losses[best])
    weights[alive] = used if clear and (used > 0).sum() > 1 else single
    return weights, float(combined.mean())


def _combination(start: np.ndarray, scores: Sequence[np.ndarray], examples: Examples) -> np.ndarray:
    """Return the weights (M,) of models with the least log loss of their weighted scores (n, T, K)."""
    return minimize(
        lambda tried: series_losses(weighted(tried, scores), examples).mean(),
        np.where(start > 0, 1.0, 0.1),
        method="L-BFGS-B",
        bounds=[(0.0, LARGEST_WEIGHT)] * len(scores),
        options={"maxiter": 30},
    ).x


def _best(losses: np.ndarray, whole: Sequence[bool]) -> int:
    """Return the row of the losses (M, n) of the model to keep.

    It is the one with the least loss. But a model that was judged on a part of the series only replaces one
    that was judged on the `whole` set if it is clearly better, because the part may be small.
    """
    means = losses.mean(axis=1)
    best = int(means.argmin())
    others = [i for i, one in enumerate(whole) if one]
    if whole[best] or not others:
        return best
    kept = min(others, key=lambda i: means[i])
    return best if _is_clearly_lower(losses[best], losses[kept]) else kept


def _is_clearly_lower(losses: np.ndarray, others: np.ndarray) -> bool:
    """Whether the mean of some losses (n,) is lower than that of others by `CLEARLY` standard errors."""
    gain = others - losses
    return bool(gain.mean() > CLEARLY * gain.std() / np.sqrt(len(gain)))


def weighted(weights: Sequence[float] | np.ndarray, scores: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sum of arrays of scores with weights."""
    total = weights[0] * scores[0]
    for weight, one in zip(weights[1:], scores[1:]):
        total = total + weight * one
    return total
