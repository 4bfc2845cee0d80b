"""Scores for the tests of the report: random walks that drift to the true class."""

import numpy as np

from stopwise.reporting.content import numbers
from stopwise.reporting.html import page


def walks(n=200, steps=20, classes=3, drift=0.3, seed=0, equal=False):
    """Return scores (n, T, K), class indices (n,) and lengths (n,)."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, n, p=np.arange(1, classes + 1) / np.arange(1, classes + 1).sum())
    y[:classes] = np.arange(classes)
    steps_of_walk = rng.normal(size=(n, steps, classes)).astype(np.float32)
    steps_of_walk[np.arange(n), :, y] += drift
    lengths = np.full(n, steps) if equal else rng.integers(1, steps + 1, n)
    return steps_of_walk.cumsum(1), y, lengths


def page_of(rule, scores, y, lengths, prior, *, names=None, cost=0.02, loss=None):
    """Return a page without a model."""
    classes = scores.shape[-1]
    data = {
        "classes": names or [f"class {k}" for k in range(classes)],
        "cost": cost,
        "loss": (1 - np.eye(classes) if loss is None else loss).tolist(),
        "training": {"histories": [], "tried": [], "facts": []},
        "origin": [["Model", "none"]],
    }
    bound = rule.with_prior(prior)
    found = numbers(bound, bound.decide(scores, lengths), scores, y, lengths, prior)
    return page("Test", "a test", [], [], data | found)
