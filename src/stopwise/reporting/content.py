"""The numbers of the page, as JSON values."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.decision import Decisions
from stopwise.metrics import ausat, error_rates, sat_curve
from stopwise.reporting.bounds import bounds
from stopwise.reporting.examples import choose_examples, describe_examples, drawn_steps
from stopwise.reporting.packing import pack, pack_records, ranked_records
from stopwise.reporting.positions import common_threshold, slider_thresholds
from stopwise.reporting.reliability import reliability
from stopwise.reporting.summary import rule_as_text, rule_name
from stopwise.rules import Rule
from stopwise.rules.arrays import add_log_prior

MOST_FIXED = 100  # points of the curve that decides every series at the same step


def numbers(
    rule: Rule,
    decisions: Decisions,
    scores: np.ndarray,
    y: np.ndarray,
    lengths: np.ndarray,
    prior: np.ndarray,
) -> dict[str, Any]:
    """Return everything that depends on the scores and the rule.

    Parameters
    ----------
    rule
        The rule in use, bound to the prior.
    decisions
        Its decisions, with class indices as labels.
    scores
        (n, T, K) scores.
    y
        (n,) true class indices.
    lengths
        (n,) lengths of the series.
    prior
        (K,) class frequencies, which also decide at the end of a series.
    """
    classes = scores.shape[-1]
    curve, own = sat_curve(scores, y, lengths), common_threshold(rule, classes)
    thresholds = slider_thresholds(curve, len(y), own)
    records = ranked_records(scores, lengths, thresholds)
    last = scores[np.arange(len(y)), lengths - 1]  # (n, K)
    rows = choose_examples(decisions, y, classes)
    return {
        "y": pack(y),
        "lengths": pack(lengths),
        "at_end": pack(add_log_prior(last, prior).argmax(-1)),
        "thresholds": [float(value) if np.isfinite(value) else None for value in thresholds],
        "counts": pack(records.counts),
        "records": pack_records(records),
        "rule": _described(rule, decisions, thresholds, own, drawn_steps(int(lengths.max()))),
        "fixed": _same_step(scores, y, lengths, prior),
        "ausat": ausat(curve),
        "prior": prior.tolist(),
        "examples": describe_examples(scores, lengths, rows),
        "reliability": reliability(scores, y, lengths, prior),
    }


def _described(
    rule: Rule, decisions: Decisions, thresholds: np.ndarray, own: float | None, steps: np.ndarray
) -> dict[str, Any]:
    """Return the rule in use and its decisions."""
    classes = decisions.scores.shape[-1]
    given = getattr(rule, "prior", None)
    return {
        "name": rule_name(rule),
        "words": rule_as_text(rule, classes),
        "position": None if own is None else int(np.searchsorted(thresholds, own)),
        "labels": pack(decisions.labels),
        "times": pack(decisions.times),
        "forced": pack(decisions.forced.astype(np.int64)),
        "bounds": bounds(rule, steps, classes),
        "prior": None if given is None else np.asarray(given).tolist(),
    }


def _same_step(
    scores: np.ndarray, y: np.ndarray, lengths: np.ndarray, prior: np.ndarray
) -> dict[str, list[float]]:
    """Return mean times and error rates of rules that decide every series at the same step."""
    longest = int(lengths.max())
    found: dict[str, list[float]] = {"time": [], "error": [], "macro": []}
    for step in np.unique(np.linspace(1, longest, min(longest, MOST_FIXED)).round().astype(int)):
        times = np.minimum(step, lengths)
        labels = add_log_prior(scores[np.arange(len(y)), times - 1], prior).argmax(-1)
        found["time"].append(float(times.mean()))
        found["error"].append(float((labels != y).mean()))
        found["macro"].append(error_rates(labels, y, scores.shape[-1])[0])
    return found
