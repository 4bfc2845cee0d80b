"""Comparison with the exact LLRs during training, and the epoch that they would choose.

The loss cannot tell how far large LLRs are off, so the epoch with the smallest validation loss need not be
the one with the smallest LLR error. Only where the exact LLRs are known can the latter be chosen.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from stopwise.estimator import EarlyClassifier
from stopwise.metrics import llr_error

WATCHED = 2000  # largest number of validation series that are compared with the exact LLRs


class Watch:
    """Callback `on_epoch` that records the LLR error on validation series and keeps the best weights.

    Parameters
    ----------
    X
        (n, T, D) validation series, of which the first `WATCHED` are used.
    truth
        (n, T, K) their exact scores.
    """

    def __init__(self, X: np.ndarray, truth: np.ndarray) -> None:
        self.X, self.truth = X[:WATCHED], truth[:WATCHED]
        self.records: list[dict[str, float]] = []
        self.best: dict[str, Tensor] = {}

    def __call__(self, clf: EarlyClassifier, record: dict[str, float]) -> None:
        """Record the error and the slope after an epoch."""
        error, slope = self.compare(clf)
        if error < min((one["llr_error"] for one in self.records), default=np.inf):
            weights = clf.model_.tensors()
            self.best = {name: value.detach().clone() for name, value in weights.items()}
        loss = record["validation_loss"]
        self.records.append({"validation_loss": loss, "llr_error": error, "slope": slope})

    def compare(self, clf: EarlyClassifier) -> tuple[float, float]:
        """Return the LLR error of a classifier in nats, and its slope."""
        found = llr_error(clf.scores(self.X).astype(np.float64), self.truth)
        return found.mean_abs, found.slope

    def choose(self, clf: EarlyClassifier) -> int | None:
        """Give the classifier the weights with the smallest LLR error.

        Returns
        -------
        epoch
            The epoch of these weights. None if the classifier as it is, such as after polishing, is better.
        """
        errors = [one["llr_error"] for one in self.records]
        if not errors or self.compare(clf)[0] <= min(errors):
            return None
        clf.model_.net_.load_state_dict(self.best)
        return int(np.argmin(errors)) + 1

    def history(self) -> dict[str, list[float]]:
        """Return the records as lists of numbers by name, rounded."""
        keys = self.records[0] if self.records else ()
        return {key: [round(one[key], 6) for one in self.records] for key in keys}
