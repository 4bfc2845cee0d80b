"""Operating points: chosen for each method on validation series, evaluated on test series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stopwise.decision import Decisions
from stopwise.metrics import sat_curve, summarize
from stopwise.rules import SPRT, FixedTime, MaxProbability, Rule

CANDIDATES = 60


def candidates(scores: np.ndarray, y: np.ndarray, lengths: np.ndarray) -> dict[str, list[Rule]]:
    """Return, by kind of rule, the rules to choose from, given validation scores (n, T, K).

    Examples
    --------
    >>> scores = np.zeros((2, 3, 2)) + [0.0, 1.0]
    >>> sorted(candidates(scores, np.array([0, 1]), np.array([3, 3])))
    ['FixedTime', 'MaxProbability', 'SPRT']
    """
    thresholds = sat_curve(scores, y, lengths).thin(CANDIDATES).thresholds
    times = np.unique(np.linspace(1, lengths.max(), CANDIDATES).round().astype(int))
    doubts = np.geomspace(1 - 1 / scores.shape[2], 1e-6, CANDIDATES)
    return {
        "SPRT": [SPRT(float(threshold)) for threshold in thresholds],
        "MaxProbability": [MaxProbability(float(1 - doubt)) for doubt in doubts],
        "FixedTime": [FixedTime(int(time)) for time in times],
    }


def pick(rules: Sequence[Rule], scores: np.ndarray, y: np.ndarray, lengths: np.ndarray) -> Rule:
    """Return the rule with the highest harmonic mean of accuracy and 1 − earliness on validation scores."""
    values = [summarize(rule.decide(scores, lengths), y, scores.shape[2])["harmonic_mean"] for rule in rules]
    return rules[int(np.argmax(values))]


def metrics(decisions: Decisions, y: np.ndarray, classes: int) -> dict[str, Any]:
    """Return the usual metrics of early classification for decisions whose labels are class indices.

    The average cost gives errors and earliness the same weight.
    """
    summary = summarize(decisions, y, classes)
    summary["error"] = summary["macro_error"]
    summary["average_cost"] = (1 - summary["accuracy"] + summary["earliness"]) / 2
    wanted = ("error", "accuracy", "earliness", "harmonic_mean", "average_cost", "mean_time")
    return {key: summary[key] for key in wanted}
