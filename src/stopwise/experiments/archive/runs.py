"""One run of the archive benchmark: fit a method on a dataset and evaluate its decisions on the test part."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from time import perf_counter, process_time
from typing import Any

import numpy as np

from stopwise.estimator import EarlyClassifier
from stopwise.experiments import peers
from stopwise.experiments.archive.data import Prepared, prepared
from stopwise.metrics import ausat, error_rates, harmonic_mean, sat_curve
from stopwise.models import Stack

PEER_POINTS = 20


@dataclass(frozen=True)
class Outcome:
    """What a method did on the test part.

    Parameters
    ----------
    labels, times
        (n,) class indices, and steps of the decisions, at most the lengths of the series.
    fit_seconds, decision_seconds
        Time to fit, with the rule, and to decide on all test series.
    scores
        (n, T, K) scores of every prefix, NaN after the end of a series; None if the method has none.
    about
        What else is recorded of the run, as JSON values.
    """

    labels: np.ndarray
    times: np.ndarray
    fit_seconds: float
    decision_seconds: float
    scores: np.ndarray | None = None
    about: dict[str, Any] = field(default_factory=dict)


def run(data: str, method: str, seed: int, most: int | None = None) -> dict[str, Any]:
    """Run a method once.

    Parameters
    ----------
    data
        Name of the dataset.
    method
        A name in `METHODS`.
    seed
        Random seed of the method.
    most
        Largest number of training series; None: all.

    Returns
    -------
    result
        Metrics, times and sizes as plain JSON values; {"failed": reason} if the method cannot be run on this
        dataset.
    """
    found = prepared(data, most)
    sizes = {
        "n_train": len(found.train.y),
        "n_test": len(found.test.y),
        "T": found.steps,
        "d": int(np.shape(found.train.X[0])[1]),
        "K": found.classes,
        "seed": seed,
        "versions": {name: version(name) for name in ("scikit-learn", "scipy", "numba")},
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rules from few series are uncertain, which the table shows
            outcome = METHODS[method](found, seed)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError, RuntimeError, MemoryError) as error:
        return sizes | {"failed": f"{type(error).__name__}: {error}"[:500]}
    return sizes | metrics(outcome, found)


def metrics(outcome: Outcome, found: Prepared) -> dict[str, Any]:
    """Return the metrics of a run. The cost is 1 − accuracy + earliness."""
    y, lengths = found.test.y, found.test.lengths
    error = float((outcome.labels != y).mean())
    early = float((outcome.times / lengths).mean())
    area = None
    if outcome.scores is not None:
        area = float(ausat(sat_curve(outcome.scores, y, lengths)))
    return {
        "accuracy": 1 - error,
        "macro_error": error_rates(outcome.labels, y, found.classes)[0],
        "earliness": early,
        "harmonic_mean": harmonic_mean(1 - error, early),
        "cost": error + early,
        "average_cost_0.5": 0.5 * error + 0.5 * early,
        "average_cost_0.8": 0.8 * error + 0.2 * early,
        "ausat": area,
        "fit_seconds": round(outcome.fit_seconds, 3),
        "decision_seconds_per_series": outcome.decision_seconds / len(y),
    } | outcome.about


def cost_per_sample(lengths: np.ndarray) -> float:
    """Return the cost of a sample that matches the earliness, time ÷ own length: the mean of 1 ÷ length.

    If all series have T steps, it is 1/T. If lengths differ, a rule cannot know the length of a new series,
    so the mean over the training series takes its place.

    Examples
    --------
    >>> cost_per_sample(np.array([10, 10])), cost_per_sample(np.array([5, 10]))
    (0.1, 0.15)
    """
    return float((1 / lengths).mean())


def _ours(model: Any, found: Prepared, seed: int) -> Outcome:
    """Run a classifier of stopwise with the rule of least cost, from held-out scores of the training part."""
    settings = {} if model is None else {"model": Stack([model])}
    clf = EarlyClassifier(**settings, progress=False, random_state=seed)
    start, used = perf_counter(), process_time()
    clf.fit(found.train.X, found.train.y, groups=found.groups)
    clf.fit_rule(cost=cost_per_sample(found.train.lengths))
    fitted, used = perf_counter(), process_time() - used
    decisions = clf.decide(found.test.X)
    decided = perf_counter()
    own = clf.scores(found.test.X).astype(np.float64)
    scores = np.full((*own.shape[:2], found.classes), own.min(initial=0, where=~np.isnan(own)) - 1)
    scores[..., clf.classes_] = own  # classes without training series are never the best
    scores[np.isnan(own).any(axis=2)] = np.nan
    kept = {one["model"]: round(one["weight"], 3) for one in clf.model_.report_["tried"] if one["weight"]}
    about = {"fit_cpu_seconds": round(used, 3), "kept": kept}
    return Outcome(decisions.labels, decisions.times, fitted - start, decided - fitted, scores, about)


def _calimera(found: Prepared, seed: int) -> Outcome:
    from stopwise.experiments.calimera import Calimera

    X, X_test = peers.padded(found.train, found.steps), peers.padded(found.test, found.steps)
    start = perf_counter()
    model = Calimera(seed=seed).fit(X, found.train.y, found.train.lengths, found.classes)
    fitted = perf_counter()
    labels, times, p = model.decide(X_test)
    decided = perf_counter()
    lengths = found.test.lengths
    shares = np.bincount(found.train.y, minlength=found.classes) / len(found.train.y)
    scores = held_scores(p, model.steps, shares, lengths)
    return Outcome(labels, np.minimum(times, lengths), fitted - start, decided - fitted, scores)


def held_scores(p: np.ndarray, steps: np.ndarray, shares: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return scores (n, T, K) of every step from probabilities (n, P, K) after some prefixes.

    Between prefixes the last scores are held; before the first, all are 0. A prefix longer than the series
    counts at its end.

    Parameters
    ----------
    p
        Class probabilities.
    steps
        (P,) lengths of the prefixes.
    shares
        (K,) class frequencies.
    lengths
        (n,) lengths of the series.
    """
    last = int(lengths.max())
    at = np.log(np.maximum(p, 1e-12)) - np.log(np.maximum(shares, 1e-12))  # (n, P, K)
    at[..., shares == 0] = at.min() - 1
    known = np.searchsorted(steps, np.arange(1, last + 1), side="right")  # prefixes seen at each step
    padded = np.concatenate([np.zeros_like(at[:, :1]), at], axis=1)
    scores = padded[:, known]
    for i, length in enumerate(lengths):
        if length not in steps and length < steps[-1]:
            # A decision at a later prefix was counted at the end, so its scores count there too.
            scores[i, length - 1] = padded[i, known[length - 1] + 1]
        scores[i, length:] = np.nan
    return scores


def _aeon(peer: str, found: Prepared, seed: int) -> Outcome:
    X, X_test = peers.padded(found.train, found.steps), peers.padded(found.test, found.steps)
    answer = peers.ask(peer, X, found.train.y, X_test, points=PEER_POINTS, seed=seed)
    times = np.minimum(answer["times"], found.test.lengths)
    return Outcome(np.array(answer["labels"]), times, answer["fit_seconds"], answer["decision_seconds"])


#: The methods by name, with the names of the tables.
METHODS: dict[str, Callable[[Prepared, int], Outcome]] = {
    "default": partial(_ours, None),
    "prefix": partial(_ours, "prefix"),
    "CALIMERA": _calimera,
    "accumulator": partial(_ours, "accumulator"),
    "B2Bsqrt-TANDEM": partial(_ours, "b2bsqrt"),
    "TEASER": partial(_aeon, "TEASER"),
    "probability threshold": partial(_aeon, "ProbThreshold"),
}
