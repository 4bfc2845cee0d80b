"""Figures of the default fit: order search, polish, threads, and the demonstration on a busy machine."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
import torch

from stopwise import models
from stopwise.bench.baselines import G, SlicedLSTM
from stopwise.bench.measure import Figure, Work, quartiles, race
from stopwise.data.examples import Examples
from stopwise.data.series import SeriesSet
from stopwise.datasets import gaussian
from stopwise.estimator import EarlyClassifier
from stopwise.llr import lsel
from stopwise.models.networks.training import threads
from stopwise.models.networks.training.loop import Task
from stopwise.models.networks.training.objective import Objective
from stopwise.models.networks.training.order_search import candidates, search

OnEpoch = Callable[[EarlyClassifier, dict[str, float]], None]

TURNS = 3
LARGE, LARGEST = 20_000, 30_000  # number of series


def default_fit() -> Figure:
    """G, 20 000 series: time of the default fit ÷ time of a fit with the chosen order given."""
    search, training, polish = _default_fit_seconds()
    whole, given = np.array([search + training + polish]), np.array([training + polish])
    return _ratio("G: default fit ÷ fit with the order given", whole / given, 1.3, 1.1, _note(whole, given))


def polish_time() -> Figure:
    """G, 20 000 series: time of the polish ÷ time of the training before it."""
    _, training, polish = (np.array([seconds]) for seconds in _default_fit_seconds())
    return _ratio("G: polish ÷ training", polish / training, 0.5, 0.2, _note(polish, training))


def order_search() -> Figure:
    """30 000 series of shape G: time of the order search ÷ time of one epoch of nn.LSTM."""
    X, y, _ = gaussian(LARGEST, offset=2.0, seed=0)
    series = SeriesSet(X)
    data = Examples(series.batch, y, 2, X.shape[2], series.lengths)
    train_set, held = data.split(0.1, 0)
    task = Task(train_set, held, Objective(), models.Training().checked())
    x, labels = torch.from_numpy(X[: G.batch]), torch.from_numpy(y[: G.batch])
    net = SlicedLSTM(G)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    part = 10  # only a tenth of the steps of an epoch is timed

    def steps() -> None:
        for _ in range(LARGEST // G.batch // part):
            optimizer.zero_grad(set_to_none=True)
            lsel(net(x), labels).backward()
            optimizer.step()

    def ours_once() -> None:
        with threads.one_blas_thread(), threads.threads_for(0):
            search(candidates(G.steps), task)

    ours, epoch = race(ours_once, steps, turns=TURNS, warm_up=1)
    return _ratio("order search ÷ epoch of nn.LSTM", ours / (part * epoch), 3, 1, _note(ours, part * epoch))


def small_fit_threads() -> Figure:
    """1500 × 20 × 4: time of a fit with its own choice of threads ÷ the better of one and two threads."""
    return _threads_figure("small fit: own threads ÷ better of 1 and 2")


def small_fit_threads_busy() -> Figure:
    """The same while another process keeps one core busy."""
    with busy_process():
        return _threads_figure("small fit next to a busy process: own threads ÷ better of 1 and 2")


def demo_busy() -> Figure:
    """Time of `stopwise demo` next to a busy process ÷ its time on an idle machine."""
    idle = _demo_seconds()
    with busy_process():
        busy = _demo_seconds()
    note = f"{busy:.0f} s; idle {idle:.0f} s"
    return _ratio("demo next to a busy process ÷ idle", np.array([busy / idle]), 2.2, 2.0, note)


FITTING: tuple[Callable[[], Figure], ...] = (
    default_fit,
    polish_time,
    order_search,
    small_fit_threads,
    small_fit_threads_busy,
    demo_busy,
)


@cache
def _default_fit_seconds() -> tuple[float, float, float]:
    """Return the seconds of order search, training and polish, from one default fit.

    A fit takes minutes, so it is not repeated for each figure. Its parts are timed by the ends of the epochs.
    What comes before the first epoch counts as search, and what comes after the last one as polish.
    """
    X, y, _ = gaussian(LARGE, offset=2.0, seed=0)
    warm_up = models.Training(max_epochs=2)
    _fit(X[:100], y[:100], order="auto", training=warm_up)  # compiles the kernels
    ends: list[float] = []
    start = perf_counter()
    _fit(X, y, on_epoch=lambda clf, record: ends.append(perf_counter()), order="auto")
    stop = perf_counter()
    epoch = float(np.median(np.diff(ends)))  # of the first one, only the end is known
    return ends[0] - epoch - start, ends[-1] - ends[0] + epoch, stop - ends[-1]


@contextmanager
def busy_process() -> Iterator[None]:
    """Keep one core busy in another process."""
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        child.kill()
        child.wait()


def _threads_figure(name: str) -> Figure:
    X, y, _ = gaussian(1500, channels=4, length=20, seed=0)

    def own() -> None:
        _fit(X, y, order=0)

    def fixed(count: int) -> Work:
        def fit() -> None:
            before, limit = torch.get_num_threads(), threads.WORTH_THREADS
            torch.set_num_threads(count)
            threads.WORTH_THREADS = 0  # any work is worth all threads
            try:
                _fit(X, y, order=0)
            finally:
                torch.set_num_threads(before)
                threads.WORTH_THREADS = limit

        return fit

    ours, one = race(own, fixed(1), turns=TURNS, warm_up=1)
    again, two = race(own, fixed(2), turns=TURNS, warm_up=0)
    better = (ours / one) if np.median(one) < np.median(two) else (again / two)
    return _ratio(name, better, 1.1, 1.0, f"{_note(ours, one)} (1 thread), {np.median(two):.1f} s (2)")


def _demo_seconds() -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = perf_counter()
        command = [sys.executable, "-m", "stopwise", "demo", "--out", folder, "--json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return perf_counter() - start


def _fit(X: np.ndarray, y: np.ndarray, on_epoch: OnEpoch | None = None, **params: Any) -> EarlyClassifier:
    return EarlyClassifier(models.Accumulator(**params), progress=False).fit(X, y, on_epoch=on_epoch)


def _ratio(name: str, values: np.ndarray, bar: float, aim: float, note: str) -> Figure:
    return Figure(name, *quartiles(values), bar, aim, "lower", note=note)


def _note(mine: np.ndarray, theirs: np.ndarray) -> str:
    return f"{np.median(mine):.1f} s; baseline {np.median(theirs):.1f} s"
