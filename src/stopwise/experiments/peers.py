"""Peers: early classifiers of the library aeon, at their own operating points.

aeon is not part of any extra of stopwise: install both in a separate environment.
"""

from __future__ import annotations

import warnings
from time import perf_counter
from typing import Any

import numpy as np

from stopwise.decision import Decisions
from stopwise.experiments import operating
from stopwise.experiments.real import Part, ready

# Number of equidistant decision points, each with its own classifier. The default points of TEASER are 20,
# none of them between T/2 and T.
POINTS = 8
MOST_SERIES = 2000  # largest number of series to fit on: TEASER fits six classifiers per point
SHORTEST = 9  # number of samples that MiniRocket needs before the first point
PEERS = ("TEASER-MiniRocket", "ProbThreshold-MiniRocket")


def run_peer(data: dict[str, Any], peer: str, repeat: int) -> dict[str, Any]:
    """Fit one of `PEERS` on at most `MOST_SERIES` training and validation series; evaluate it on test series.

    The early classifiers of aeon need series of equal length, so shorter series are padded by repeating their
    last sample. A decision after the end of a series counts as a decision at its end.
    """
    found = ready(**data)
    steps = found.steps
    X = np.concatenate([_padded(found.train, steps), _padded(found.validation, steps)])
    y = np.concatenate([found.train.y, found.validation.y])
    rows = np.random.default_rng(repeat).permutation(len(y))[:MOST_SERIES]
    classifier = _make(peer, steps, repeat)
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # aeon and scikit-learn warn about their own defaults
        classifier.fit(X[rows], y[rows])
        fitted = perf_counter()
        labels, _ = classifier.predict(_padded(found.test, steps))
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
        "points": {"own": operating.metrics(decisions, found.test.y, found.classes)},
    }


def _padded(part: Part, steps: int) -> np.ndarray:
    """Return series in the layout of aeon (n, D, T); the last sample of shorter ones is repeated."""
    rows = [np.minimum(np.arange(steps), len(x) - 1) for x in part.X]
    return np.stack([np.asarray(x)[row].T for x, row in zip(part.X, rows)]).astype(np.float64)


def _make(peer: str, steps: int, seed: int) -> Any:
    try:
        from aeon.classification.convolution_based import MiniRocketClassifier
        from aeon.classification.early_classification import TEASER, ProbabilityThresholdEarlyClassifier
    except ImportError as error:
        raise ImportError(
            f"{peer} needs aeon, which is not part of any extra of stopwise. Install both in a separate "
            "environment and run the command again there; finished runs are kept."
        ) from error
    from sklearn.linear_model import LogisticRegression

    # Both rules need probabilities, which the default ridge classifier of MiniRocket does not give.
    estimator = MiniRocketClassifier(
        n_kernels=2000, estimator=LogisticRegression(C=0.01, max_iter=200), random_state=seed
    )
    points = np.unique(np.linspace(min(SHORTEST, steps), steps, POINTS).round().astype(int)).tolist()
    kind = TEASER if peer.startswith("TEASER") else ProbabilityThresholdEarlyClassifier
    return kind(estimator=estimator, classification_points=points, random_state=seed)
