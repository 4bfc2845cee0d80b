"""Early classifiers of others, at the operating points they choose themselves (extra `datasets`)."""

from __future__ import annotations

import warnings
from time import perf_counter
from typing import Any

import numpy as np

from stopwise.decision import Decisions
from stopwise.experiments import operating
from stopwise.experiments.real import Part, ready

# A classifier a point: TEASER's own default is 20 points, none between T/2 and T; these are evenly spread.
POINTS = 8
MOST_SERIES = 2000  # to fit on: TEASER fits six classifiers a point
SHORTEST = 9  # samples MiniRocket needs before the first point
PEERS = ("TEASER-MiniRocket", "ProbThreshold-MiniRocket")


def run_peer(data: dict[str, Any], peer: str, repeat: int) -> dict[str, Any]:
    """Fit one of `PEERS` on training and validation series, at most `MOST_SERIES`; judge it on test series.

    aeon's early classifiers take series of one length only: shorter ones are held at their last sample, and
    a decision after a series' end counts as one at its end.
    """
    found = ready(**data)
    steps = found.steps
    X = np.concatenate([_held(found.train, steps), _held(found.validation, steps)])
    y = np.concatenate([found.train.y, found.validation.y])
    rows = np.random.default_rng(repeat).permutation(len(y))[:MOST_SERIES]
    classifier = _make(peer, steps, repeat)
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # aeon and scikit-learn warn about their own defaults
        classifier.fit(X[rows], y[rows])
        fitted = perf_counter()
        labels, _ = classifier.predict(_held(found.test, steps))
    decided = perf_counter()
    lengths = found.test.lengths
    times = np.minimum(classifier.state_info[:, 3], lengths)
    n = len(lengths)
    decisions = Decisions(
        np.asarray(labels), times, np.zeros(n, dtype=bool), np.zeros((n, found.classes)), lengths
    )
    return {
        "fit_seconds": round(fitted - start, 2),
        "decision_milliseconds": round(1000 * (decided - fitted) / n, 4),
        "points": {"own": operating.figures(decisions, found.test.y, found.classes)},
    }


def _held(part: Part, steps: int) -> np.ndarray:
    """Return series as aeon takes them (n, D, T), shorter ones held at their last sample."""
    rows = [np.minimum(np.arange(steps), len(x) - 1) for x in part.X]
    return np.stack([np.asarray(x)[row].T for x, row in zip(part.X, rows)]).astype(np.float64)


def _make(peer: str, steps: int, seed: int) -> Any:
    from aeon.classification.convolution_based import MiniRocketClassifier
    from aeon.classification.early_classification import TEASER, ProbabilityThresholdEarlyClassifier
    from sklearn.linear_model import LogisticRegression

    # The ridge of MiniRocket gives no probabilities; both rules need them.
    estimator = MiniRocketClassifier(
        n_kernels=2000, estimator=LogisticRegression(C=0.01, max_iter=200), random_state=seed
    )
    points = np.unique(np.linspace(min(SHORTEST, steps), steps, POINTS).round().astype(int)).tolist()
    kind = TEASER if peer.startswith("TEASER") else ProbabilityThresholdEarlyClassifier
    return kind(estimator=estimator, classification_points=points, random_state=seed)
