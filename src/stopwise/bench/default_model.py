"""Figures of the default model: time to fit it, and to update a stream of the prefix model.

The times are absolute, because they are what a user waits for. Streams have one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch

from stopwise import models
from stopwise.bench.measure import Figure, quartiles
from stopwise.datasets import hidden_markov
from stopwise.estimator import EarlyClassifier
from stopwise.rules import SPRT

SHAPES, STEPS = 500, 128  # series, and samples in each
CLASSES = 15
LONG = 4000  # series with hidden states
STREAMS = 20


def default_shapes() -> Figure:
    """500 outlines of 15 kinds, 128 samples: time of the default fit, where the prefix model is kept."""
    X, y = outlines(SHAPES)
    return _fit_time("default fit, 500 × 128, 15 classes", X, y, 15)


def default_hidden_states() -> Figure:
    """4000 × 50 × 4 with hidden states: time of the default fit, where the accumulator is kept."""
    X, y, _ = hidden_markov(LONG, length=50, seed=0)
    return _fit_time("default fit, 4000 × 50 × 4, hidden states", X, y, 60)


def prefix_sample() -> Figure:
    """500 outlines of 15 kinds, 128 samples: time of a sample in a stream of the prefix model, one thread."""
    X, y = outlines(SHAPES)
    clf = EarlyClassifier(models.Prefix(), rule=SPRT(1e9), progress=False).fit(X, y)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds = np.array([_stream_seconds(clf, x) for x in X[:STREAMS]])
    finally:
        torch.set_num_threads(threads)
    size = clf.stream()._engine.step.bytes()
    name = "prefix, 1024 kernels, 15 classes: a sample of a stream"
    note = f"{size} bytes per stream"
    return Figure(name, *quartiles(1e3 * seconds / STEPS), 1.0, 0.2, "lower", "ms", note)


DEFAULT: tuple[Callable[[], Figure], ...] = (default_shapes, default_hidden_states, prefix_sample)


def outlines(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return series (n, 128) and labels: sums of waves, whose sizes depend on the class and on the series."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % CLASSES
    angles = 2 * np.pi * np.arange(1, 7)[:, None] * np.arange(STEPS) / STEPS  # (6, T)
    waves = np.concatenate([np.sin(angles), np.cos(angles)])  # (12, T)
    typical = rng.standard_normal((CLASSES, len(waves)))
    sizes = typical[y] + 0.5 * rng.standard_normal((n, len(waves)))
    return sizes @ waves + 0.1 * rng.standard_normal((n, STEPS)), y


def _fit_time(name: str, X: np.ndarray, y: np.ndarray, bar: float) -> Figure:
    """Return the seconds of a fit; kernels are compiled before."""
    few = slice(0, 4 * CLASSES)
    EarlyClassifier(progress=False).fit(X[few], y[few])
    start = perf_counter()
    clf = EarlyClassifier(progress=False).fit(X, y)
    seconds = perf_counter() - start
    tried = ", ".join(f"{one['model']} {one['seconds']:.1f} s" for one in clf.model_.report_["tried"])
    return Figure(name, seconds, seconds, seconds, bar, 15, "lower", "s", tried)


def _stream_seconds(clf: EarlyClassifier, x: np.ndarray) -> float:
    """Return the seconds that a stream takes for all samples of a series (T,)."""
    stream = clf.stream()
    start = perf_counter()
    for sample in x:
        stream.update(sample)
    return perf_counter() - start
