"""The score average: a classifier of single frames, whose probabilities are averaged over the samples so far.

This is what a video classifier without a temporal model does. It cannot use the order of the samples, and an
average does not grow with the number of samples, as evidence does.
"""

from __future__ import annotations

import warnings
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stopwise.experiments.real import Part, ready
from stopwise.experiments.real_runs import evaluate
from stopwise.experiments.scores_file import write_scores

NAME = "score average"
FRAMES = 10  # number of frames of each series to train on
# Hidden layers and penalties to choose from, by the log loss of single validation frames.
CANDIDATES = [(hidden, penalty) for hidden in ((), (64,)) for penalty in (1e-4, 1e-2, 1.0)]
PASSES, STEPS = 30, 1000  # least numbers of passes and of training steps


def run_average(data: dict[str, Any], repeat: int, export: str | None = None) -> dict[str, Any]:
    """Train a classifier of single frames and evaluate the average of its probabilities.

    Parameters
    ----------
    data
        The arguments of `ready`.
    repeat
        Seed of the frames and of the initialization.
    export
        As for `stopwise.experiments.runs.run`.

    Returns
    -------
    result
        As for `stopwise.experiments.real_runs.run`.
    """
    found = ready(**data)
    rng = np.random.default_rng(repeat)
    start = perf_counter()
    x, y = _frames(found.train, rng)
    x_held, y_held = _frames(found.validation, rng)
    fits = [_fit(x, y, hidden, penalty, repeat) for hidden, penalty in CANDIDATES]
    losses = [log_loss(y_held, fit.predict_proba(x_held), labels=fit.classes_) for fit in fits]
    best = fits[int(np.argmin(losses))]
    fitted = perf_counter()
    scores = average_scores(best, found.test, found.classes)
    scored = perf_counter()
    if export is not None:
        write_scores(export, scores, found.test.y, lengths=found.test.lengths)
    hidden, penalty = CANDIDATES[int(np.argmin(losses))]
    return {
        "fit_seconds": round(fitted - start, 2),
        "decision_milliseconds": round(1000 * (scored - fitted) / len(found.test.y), 4),
        "classifier": {"hidden": list(hidden), "penalty": penalty},
        **evaluate(found, scores, average_scores(best, found.validation, found.classes)),
    }


def average_scores(classifier: Any, part: Part, classes: int) -> np.ndarray:
    """Return the logarithm (n, T, K) of the probabilities averaged over the samples so far.

    After the end of a series the scores are NaN.

    Parameters
    ----------
    classifier
        A fitted scikit-learn classifier of samples (n, D) with `predict_proba`.
    part
        The series.
    classes
        K, the number of classes; those that `classifier` does not know have probability 0.
    """
    lengths = part.lengths
    probabilities = classifier.predict_proba(np.concatenate(list(part.X)))
    tiny = np.finfo(np.float64).tiny
    result = np.full((len(lengths), lengths.max(), classes), np.nan)
    for i, own in enumerate(np.split(probabilities, lengths.cumsum()[:-1])):
        means = np.zeros((len(own), classes))
        means[:, classifier.classes_] = own.cumsum(0) / np.arange(1, len(own) + 1)[:, None]
        result[i, : len(own)] = np.log(np.maximum(means, tiny))
    return result


def _frames(part: Part, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return random samples of each series, (n·FRAMES, D), and their labels."""
    rows = [np.asarray(x)[rng.integers(0, len(x), FRAMES)] for x in part.X]
    return np.concatenate(rows), np.repeat(part.y, FRAMES)


def _fit(x: np.ndarray, y: np.ndarray, hidden: tuple[int, ...], penalty: float, seed: int) -> Any:
    batch = min(200, len(x))
    passes = max(PASSES, -(-STEPS * batch // len(x)))
    network = MLPClassifier(
        hidden, alpha=penalty, batch_size=batch, learning_rate_init=1e-2, max_iter=passes, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of passes is limited on purpose
        return make_pipeline(StandardScaler(), network).fit(x, y)
