"""The demonstration: log-likelihood ratios of a tanh LSTM saturate, those of the other models do not.

In the Gaussian world with offset 2 the true log-likelihood ratio grows to about 200 nats over 50 samples. The
estimates of a tanh LSTM stop growing near 10; those of the other models continue to grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from stopwise import plots
from stopwise.datasets import gaussian
from stopwise.estimator import EarlyClassifier
from stopwise.metrics import LLRError, SATCurve, ausat, llr_error, sat_curve
from stopwise.models import PAPER_GAUSSIAN

# The paper's settings for the paper's models; the default settings for the accumulator.
PAPER = PAPER_GAUSSIAN | {"training.learning_rate": 3e-3, "training.schedule": "constant"}
MODELS: dict[str, dict[str, Any]] = {
    "tanh LSTM": PAPER | {"model": "tanh"},
    "B2Bsqrt-TANDEM": PAPER | {"model": "b2bsqrt"},
    "TANDEMformer": PAPER | {"model": "tandemformer"},
    "accumulator": {"model": "accumulator"},
}
THRESHOLDS = (3.0, 10.0, 30.0)
TRAIN, TEST, CHANNELS = 4000, 2000, 32
EPOCHS = 15


@dataclass(frozen=True)
class Outcome:
    """Scores and metrics of one model, or of the oracle, whose scores are exact, on the test series."""

    name: str
    scores: np.ndarray  # (n, T, K)
    llr: LLRError
    curve: SATCurve
    seconds: float

    @property
    def ausat(self) -> float:
        """Area under the speed-accuracy curve."""
        return ausat(self.curve)

    def figures(self) -> dict[str, Any]:
        """Return the metrics as plain JSON values."""
        points = [self.curve.at_threshold(a) for a in THRESHOLDS]
        return {
            "model": self.name,
            "llr_error": self.llr.mean_abs,
            "slope": self.llr.slope,
            "ausat": self.ausat,
            "seconds": self.seconds,
            "at": [
                {"threshold": a, "error": p.error, "mean_time": p.mean_time, "forced": p.forced}
                for a, p in zip(THRESHOLDS, points)
            ],
        }


def run(*, seed: int = 0, progress: bool | str = True) -> tuple[list[Outcome], Outcome, np.ndarray]:
    """Train every model on the same series and evaluate it.

    Parameters
    ----------
    seed
        Seed of the training series and of the models.
    progress
        As for `EarlyClassifier`.

    Returns
    -------
    outcomes, oracle, y
        One outcome per model, the outcome of the exact scores, and the labels (n,) of the test series.
    """
    X, y, _ = gaussian(TRAIN, channels=CHANNELS, seed=seed)
    X_test, y_test, truth = gaussian(TEST, channels=CHANNELS, seed=seed + 1)
    common = {"training.max_epochs": EPOCHS, "training.patience": None, "random_state": seed}
    outcomes = []
    for name, settings in MODELS.items():
        start = perf_counter()
        clf = EarlyClassifier.from_settings(settings | common, progress=progress).fit(X, y)
        outcomes.append(_evaluate(name, clf.scores(X_test), truth, y_test, perf_counter() - start))
    return outcomes, _evaluate("true LLR (oracle)", truth, truth, y_test, 0.0), y_test


def draw(outcomes: list[Outcome], oracle: Outcome, y: np.ndarray, folder: Path) -> list[Path]:
    """Draw the figures, save them in `folder`, and return the PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    estimates = {outcome.name: outcome.scores for outcome in outcomes}
    pictures = {
        "llr-trajectories": plots.llr_trajectories(
            estimates,
            oracle.scores,
            y,
            title="Log-likelihood ratios over time: one saturates, three keep growing",
        ),
        "llr-scatter": plots.llr_scatter(estimates, oracle.scores, title="Estimated against true LLR"),
        "sat-curves": plots.sat_curves(
            {outcome.name: outcome.curve for outcome in outcomes},
            oracle.curve,
            title="Speed against accuracy: lower left is better",
        ),
        "llr-errors": plots.llr_error_bars(
            {outcome.name: outcome.llr.mean_abs for outcome in outcomes},
            trivial=llr_error(np.zeros_like(oracle.scores), oracle.scores).mean_abs,
            title="Mean absolute error of the LLR",
        ),
    }
    return [plots.save(figure, folder / name)[0] for name, figure in pictures.items()]


def _evaluate(name: str, scores: np.ndarray, truth: np.ndarray, y: np.ndarray, seconds: float) -> Outcome:
    return Outcome(name, scores, llr_error(scores, truth), sat_curve(scores, y), seconds)
