"""Streaming benchmarks: one update relative to one LSTM cell, and many streams relative to a batched step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from stopwise import models
from stopwise.bench.measure import Figure, Work, quartiles, race
from stopwise.data.inputs import Inputs
from stopwise.datasets import gaussian
from stopwise.estimator import EarlyClassifier
from stopwise.models.networks.steps import make_step
from stopwise.rules import SPRT
from stopwise.streaming.engine import Engine
from stopwise.streaming.stream import Stream
from stopwise.streaming.streams import Streams

SMALL, LARGE = (64, 10, 16), (256, 10, 512)  # H, N, D
UPDATES = 2000
MANY = 10_000


def stream_accumulator_small() -> Figure:
    """Accumulator, H=64, N=10, D=16: time of one update ÷ time of one LSTMCell call."""
    return _update("accumulator", SMALL, 2.25, 1.5)


def stream_accumulator_large() -> Figure:
    """Accumulator, H=256, N=10, D=512: time of one update ÷ time of one LSTMCell call."""
    return _update("accumulator", LARGE, 1.5, 1.0)


def stream_b2bsqrt_small() -> Figure:
    """B2Bsqrt, H=64, N=10, D=16: time of one update ÷ time of one LSTMCell call."""
    return _update("b2bsqrt", SMALL, 4.5, 3.0)


def stream_b2bsqrt_large() -> Figure:
    """B2Bsqrt, H=256, N=10, D=512: time of one update ÷ time of one LSTMCell call."""
    return _update("b2bsqrt", LARGE, 4.5, 3.0)


def stream_many() -> Figure:
    """10 000 accumulator streams: updates per second ÷ updates per second of the batched step alone."""
    engine = _engine("accumulator", SMALL)
    streams = Streams(engine)
    keys = np.arange(MANY)
    x = np.random.default_rng(0).standard_normal((MANY, SMALL[2]), dtype=np.float32)
    state = engine.start(MANY)
    mine, theirs = race(lambda: streams.update(keys, x), lambda: engine.step(state, x), turns=15)
    note = f"{MANY / np.median(mine) / 1e3:.0f} thousand updates per second"
    name = "10 000 streams: update rate ÷ bare step rate"
    return Figure(name, *quartiles(theirs / mine), 0.7, 0.7, "higher", note=note)


def stream_creation() -> Figure:
    """Accumulator, H=64, N=10, D=16: time of `clf.stream()` ÷ time of one update."""
    hidden, order, channels = SMALL
    training = models.Training(max_epochs=1)
    model = models.Accumulator(order=order, hidden=hidden, polish=False, training=training)
    X, y, _ = gaussian(100, channels=channels, length=order + 2, seed=0)
    clf = EarlyClassifier(model, rule=SPRT(1e9), progress=False).fit(X, y)
    stream, x = clf.stream(), X[0, 0]
    mine, theirs = race(clf.stream, lambda: stream.update(x), turns=UPDATES, warm_up=50)
    note = f"{1e6 * np.median(mine):.0f} µs; update {1e6 * np.median(theirs):.0f} µs"
    return Figure("clf.stream() ÷ update", *quartiles(mine / theirs), 5.0, 1.0, "lower", note=note)


STREAMING: tuple[Callable[[], Figure], ...] = (
    stream_accumulator_small,
    stream_accumulator_large,
    stream_b2bsqrt_small,
    stream_b2bsqrt_large,
    stream_many,
    stream_creation,
)


def _update(model: str, shape: tuple[int, int, int], bar: float, aim: float) -> Figure:
    hidden, order, channels = shape
    stream = Stream(_engine(model, shape))
    x = np.random.default_rng(0).standard_normal(channels, dtype=np.float32)
    cell = torch.nn.LSTMCell(channels, hidden)
    sample, state = torch.from_numpy(x)[None], (torch.zeros(1, hidden), torch.zeros(1, hidden))
    matrix = np.ones((4 * hidden, channels + hidden), np.float32)
    vector = np.ones(channels + hidden, np.float32)

    def bare() -> None:
        with torch.inference_mode():
            cell(sample, state)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for one cell, starting a second thread costs more than it saves
    try:
        mine, theirs = race(lambda: stream.update(x), bare, turns=UPDATES, warm_up=50)
        product: Work = lambda: matrix @ vector  # noqa: E731
        _, least = race(bare, product, turns=UPDATES, warm_up=50)
    finally:
        torch.set_num_threads(threads)
    median, late = (1e6 * np.percentile(mine, q) for q in (50, 99))
    note = (
        f"median {median:.0f} µs, 99 % {late:.0f} µs; LSTMCell {1e6 * np.median(theirs):.0f} µs, bare "
        f"product {1e6 * np.median(least):.0f} µs; {stream._engine.step.bytes()} bytes per stream"
    )
    name = f"{model} H={hidden} N={order} D={channels}: update ÷ LSTMCell"
    return Figure(name, *quartiles(mine / theirs), bar, aim, "lower", note=note)


def _engine(model: str, shape: tuple[int, int, int]) -> Engine:
    hidden, order, channels = shape
    torch.manual_seed(0)
    network = models.make(model, {"hidden": hidden})
    step = make_step(network.build(channels, 2, order, order + 2))
    assert step is not None
    zeros = np.zeros(channels)
    inputs = Inputs(zeros, zeros + 1, zeros.astype(np.float32), mask=False)
    return Engine(inputs.step(), step, SPRT(1e9), np.arange(2), bytes(16))
