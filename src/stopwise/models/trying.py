"""Try a model for a stack: fit it to some series, as shortly as possible, and judge it on others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.base import clone

from stopwise.data.examples import Examples
from stopwise.data.holdout import hold_out
from stopwise.models.base import Model
from stopwise.models.judging import Trial
from stopwise.models.prefix.folds import make_folds

JUDGED = 0.2  # share of the series on which models are compared if folds are not possible
# A model is dropped if its log loss is higher than the best by this factor: on the first fold after a short
# fit, and on the folds so far after each full one.
HOPELESS, WORSE = 1.5, 1.1
PROMISING = 1.03  # factor after a short fit up to which the settings of a network are compared at length
SHORT_SAMPLES = 150_000  # samples that a short fit learns from
# Up to these sizes, models that do not cross-fit are fitted once per fold; beyond, one fold is enough.
MOST_SERIES, MOST_NUMBERS = 1000, 200_000
MANY_NUMBERS = 1_000_000  # up to this size of the data, a fit should take less than a minute

Fit = Callable[[Model, Examples, str], Model]  # model, series, label of the fit → the fitted model


def judging_folds(examples: Examples, seed: int) -> list[np.ndarray]:
    """Return the rows of each fold on which models are judged; the other rows contain every class."""
    fold = make_folds(examples.y, examples.groups)
    counts = np.bincount(examples.y, minlength=examples.classes)
    folds = []
    for one in np.unique(fold):
        rows = np.flatnonzero(fold == one)
        if (np.bincount(examples.y[rows], minlength=examples.classes) < counts).all():
            folds.append(rows)
    if not folds:
        folds = [hold_out(examples.y, examples.groups, fraction=JUDGED, seed=seed)[1]]
    return folds


def tried(
    model: Model, examples: Examples, folds: list[np.ndarray], others: list[Trial], label: str, fit: Fit
) -> Trial:
    """Return what a model does on series that it was not fitted to."""
    if model.cross_fits:
        fit(model, examples, f"{label}-final")
        if model.held_out_scores_ is not None:
            return Trial(model, model.held_out_scores_, examples, fitted=True)
    best = min((other for other in others if not other.dropped), key=lambda one: one.loss, default=None)
    if best is not None:
        short, model = _tried_shortly(model, examples, folds, best, label, fit)
        if short is not None:
            return short

    def without(j: int) -> Model:
        return fit(clone(model), _outside(examples, folds[j]), f"{label}-fold-{j}")

    judged = {0: without(0)}
    if not model.cross_fits:
        model = model.settled(judged[0])
    trial = Trial.of_folds(model, judged, folds, examples, fitted=model.cross_fits)
    many = _are_many(examples)
    if many:
        trial.partial = judged[0]
    if best is None or many or trial.drop_if_worse(best, WORSE, "one fold"):
        return trial
    for j in range(1, len(folds)):
        judged[j] = without(j)
        trial = Trial.of_folds(model, judged, folds, examples)
        if trial.drop_if_worse(best, WORSE, f"{j + 1} folds"):
            break
    return trial


def _tried_shortly(
    model: Model, examples: Examples, folds: list[np.ndarray], best: Trial, label: str, fit: Fit
) -> tuple[Trial | None, Model]:
    """Return the trial of a short fit, or None if a longer one may be better, and the model to fit longer."""
    rest = _outside(examples, folds[0])
    part = rest.sample(int(SHORT_SAMPLES / rest.lengths.mean()), seed=0)
    trials = []
    for i, short in enumerate(model.shorts()):
        fit(short, part, f"{label}-short-{i}")
        trials.append(Trial.of_folds(model, {0: short}, folds, examples))
        trials[-1].partial = short
        if trials[-1].ratio(best) <= PROMISING:
            # The later forms are tried only if the first one is not promising, so the comparison is made.
            return None, model if i == 0 else model.settled(short)
        if trials[0].drop_if_worse(best, HOPELESS, "a short fit"):
            return trials[0], model
    if not trials:
        return None, model
    trial = min(trials, key=lambda one: one.loss)
    if _are_many(examples) and examples.lengths.sum() * examples.channels <= MANY_NUMBERS:
        return trial, model
    assert trial.partial is not None
    return None, model.settled(trial.partial)


def _outside(examples: Examples, fold: np.ndarray) -> Examples:
    """Return the series outside a fold."""
    return examples.subset(np.setdiff1d(np.arange(len(examples)), fold))


def _are_many(examples: Examples) -> bool:
    """Whether one fold is enough to judge models."""
    return len(examples) > MOST_SERIES or len(examples) * examples.steps * examples.channels > MOST_NUMBERS
