"""Script that runs an early classifier of the library aeon in the separate environment of the peers.

It is started by `stopwise.experiments.peers` as ``python -I peer_worker.py IN.npz OUT.json`` and imports
nothing from stopwise, which is not installed there.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from time import perf_counter
from typing import Any

import numpy as np


def main(source: str, target: str) -> None:
    """Fit on the training series in `source`, decide on its test series, write labels and times to `target`.

    Parameters
    ----------
    source
        An .npz file: X_train (n, d, T), y_train (n,), X_test (m, d, T), and `settings`, a JSON text with
        "peer", "points", "kernels" and "seed".
    target
        The JSON file to write.
    """
    with np.load(source, allow_pickle=False) as arrays:
        X, y, X_test = (arrays[name] for name in ("X_train", "y_train", "X_test"))
        settings = json.loads(str(arrays["settings"]))
    warnings.simplefilter("ignore")  # aeon and scikit-learn warn about their own defaults
    classifier = make(**settings)
    start = perf_counter()
    classifier.fit(X, y)
    fitted = perf_counter()
    labels, _ = classifier.predict(X_test)
    decided = perf_counter()
    result = {
        "labels": np.asarray(labels).astype(int).tolist(),
        "times": np.asarray(classifier.state_info)[:, 3].astype(int).tolist(),
        "fit_seconds": fitted - start,
        "decision_seconds": decided - fitted,
        "versions": {package: version(package) for package in ("aeon", "numpy", "scikit-learn")},
    }
    with open(target, "w") as file:
        json.dump(result, file)


def make(peer: str, points: list[int], kernels: int, seed: int) -> Any:
    """Return an unfitted early classifier: "TEASER" or "ProbThreshold", on MiniRocket."""
    from aeon.classification.convolution_based import MiniRocketClassifier
    from aeon.classification.early_classification import TEASER, ProbabilityThresholdEarlyClassifier
    from sklearn.linear_model import LogisticRegression

    # Both rules need probabilities, which the default ridge classifier of MiniRocket does not give.
    estimator = MiniRocketClassifier(
        n_kernels=kernels, estimator=LogisticRegression(C=0.01, max_iter=200), random_state=seed
    )
    kind = TEASER if peer == "TEASER" else ProbabilityThresholdEarlyClassifier
    return kind(estimator=estimator, classification_points=points, random_state=seed)


if __name__ == "__main__":
    main(*sys.argv[1:])
