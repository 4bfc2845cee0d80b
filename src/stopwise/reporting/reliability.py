"""Whether the posterior probabilities are right: claimed against observed, by step."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

MOST_STEPS = 60  # on the chart over time
MOST_DETAILED = 8  # steps with bins
BINS = 10
FEWEST_SERIES = 20  # a share among fewer series says little


def reliability(scores: np.ndarray, y: np.ndarray, lengths: np.ndarray, prior: np.ndarray) -> dict[str, Any]:
    """Compare the probability of the most likely class with how often this class is right.

    Parameters
    ----------
    scores
        (n, T, K) scores.
    y
        (n,) true class indices.
    lengths
        (n,) lengths of the series.
    prior
        (K,) class frequencies.

    Returns
    -------
    found
        `steps`, and for each of them `claimed`, `observed` and `series`; `detailed`: for some steps the
        shares by bin of the claimed probability.
    """
    alive = np.sort(lengths)[::-1]
    last = int(alive[min(FEWEST_SERIES, len(alive)) - 1])  # the last step with enough series
    steps = np.unique(np.linspace(1, last, min(last, MOST_STEPS)).round().astype(int))
    chosen = set(steps[np.unique(np.linspace(0, len(steps) - 1, MOST_DETAILED).round().astype(int))].tolist())
    found: dict[str, Any] = {"steps": steps.tolist(), "claimed": [], "observed": [], "series": []}
    detailed = []
    for step in steps.tolist():
        rows = np.flatnonzero(lengths >= step)
        posterior = softmax(scores[rows, step - 1].astype(np.float64) + np.log(prior), axis=-1)
        claimed, right = posterior.max(-1), posterior.argmax(-1) == y[rows]
        found["claimed"].append(float(claimed.mean()))
        found["observed"].append(float(right.mean()))
        found["series"].append(len(rows))
        if step in chosen:
            detailed.append({"step": step, "bins": _bins(claimed, right)})
    return found | {"detailed": detailed}


def _bins(claimed: np.ndarray, right: np.ndarray) -> list[dict[str, float]]:
    """Return the mean claimed probability, the share that is right and the number of series, by bin."""
    place = np.minimum((claimed * BINS).astype(int), BINS - 1)
    return [
        {
            "claimed": float(claimed[place == b].mean()),
            "observed": float(right[place == b].mean()),
            "series": int((place == b).sum()),
        }
        for b in range(BINS)
        if (place == b).any()
    ]
