"""The measurements of the benchmark: one function per figure, by name in `FIGURES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stopwise import models
from stopwise.bench.baselines import G, H, PrefixEncoder, S, Shape, SlicedLSTM, U, threshold_sweep
from stopwise.bench.default_model import DEFAULT
from stopwise.bench.fitting import FITTING
from stopwise.bench.measure import Figure, Work, child_peak_megabytes, quartiles, race
from stopwise.bench.streaming import STREAMING
from stopwise.estimator import EarlyClassifier
from stopwise.llr import lsel
from stopwise.metrics import sat_curve
from stopwise.models.networks.training.objective import Objective

FORMER = {"blocks": 1, "heads": 2, "head_size": 16, "feed_forward": 32}


def g_b2bsqrt_step() -> Figure:
    """G: time of a B2Bsqrt training step ÷ time of an nn.LSTM (tanh) training step."""
    return _slowdown(
        "G: B2Bsqrt step ÷ nn.LSTM step", _ours("b2bsqrt", G), _plain(SlicedLSTM(G), G), 1.35, 1.0
    )


def g_accumulator_step() -> Figure:
    """G: time of an accumulator training step ÷ time of an nn.LSTM training step."""
    return _slowdown(
        "G: accumulator step ÷ nn.LSTM step", _ours("accumulator", G), _plain(SlicedLSTM(G), G), 1.1, 1.0
    )


def s_b2bsqrt_step() -> Figure:
    """S: time of an nn.LSTM step on sliced windows ÷ time of a B2Bsqrt step."""
    return _speedup(
        "S: B2Bsqrt step, vs nn.LSTM on windows", _ours("b2bsqrt", S), _plain(SlicedLSTM(S), S), 1.5, 2.2, 7
    )


def u_b2bsqrt_step() -> Figure:
    """U: time of an nn.LSTM step on sliced windows ÷ time of a B2Bsqrt step."""
    return _speedup(
        "U: B2Bsqrt step, vs nn.LSTM on windows", _ours("b2bsqrt", U), _plain(SlicedLSTM(U), U), 3.0, 4.5, 7
    )


def h_b2bsqrt_step() -> Figure:
    """H: time of an nn.LSTM step on sliced windows ÷ time of a B2Bsqrt step."""
    return _speedup(
        "H: B2Bsqrt step, vs nn.LSTM on windows", _ours("b2bsqrt", H), _plain(SlicedLSTM(H), H), 3.0, 4.5, 7
    )


def u_memory() -> Figure:
    """U: peak memory of one B2Bsqrt training step, minus the memory of the idle process."""
    setup = (
        "from stopwise.bench.figures import _ours, G, U\n"
        "_ours('b2bsqrt', G)()  # loads the libraries, which count as idle memory\n"
        "step = _ours('b2bsqrt', U)"
    )
    peaks = np.array([child_peak_megabytes(setup, "step()") for _ in range(3)])
    return Figure("U: B2Bsqrt step, peak memory", *quartiles(peaks), 1536, 600, "lower", "MB")


def g_tandemformer_step() -> Figure:
    """G: time of a step with one encoder call per prefix ÷ time of a TANDEMformer step."""
    return _speedup(
        "G: TANDEMformer step, vs a call per prefix",
        _ours("tandemformer", G, FORMER),
        _plain(PrefixEncoder(G), G),
        8.0,
        15.0,
        7,
    )


def g_tandemformer_norm() -> Figure:
    """G: time of a TANDEMformer step with LayerNorm ÷ time of a step without."""
    return _slowdown(
        "G: TANDEMformer step, LayerNorm ÷ none",
        _ours("tandemformer", G, {**FORMER, "layer_norm": True}),
        _ours("tandemformer", G, FORMER),
        3.0,
        2.0,
    )


def g_decided_step() -> Figure:
    """G: time of a B2Bsqrt step in which all series are decided by 80 nats ÷ in which none is decided."""
    return _slowdown("G: step, decided ÷ undecided", _objective_step(80.0), _objective_step(0.0), 1.1, 1.0)


def s_tandemformer_step() -> Figure:
    """S: time of a step with one encoder call per prefix of each window ÷ time of a TANDEMformer step."""
    return _speedup(
        "S: TANDEMformer step, vs a call per prefix",
        _ours("tandemformer", S, FORMER),
        _plain(PrefixEncoder(S), S),
        10.0,
        30.0,
        3,
    )


def sat_time() -> Figure:
    """Time of `SPRT.decide` at each of 1000 thresholds ÷ time of the exact SAT curve."""
    scores, y = _scores()
    thresholds = np.quantile(np.abs(scores[:, -1, 0]), np.linspace(0, 1, 1000))
    # Only ten of the thousand thresholds are timed, because all of them would take ten minutes.
    ours, sweep = race(
        lambda: sat_curve(scores, y),
        lambda: threshold_sweep(scores, y, thresholds[::100]),
        turns=3,
        warm_up=1,
    )
    return Figure(
        "exact SAT, vs a sweep of 1000 thresholds",
        *quartiles(100 * sweep / ours),
        100,
        100,
        "higher",
        note=f"{np.median(ours):.2f} s; sweep {100 * np.median(sweep):.0f} s (from 10 thresholds)",
    )


def sat_memory() -> Figure:
    """Peak memory of the exact SAT curve, not counting its inputs."""
    setup = (
        "from stopwise.bench.figures import _scores\n"
        "from stopwise.metrics import sat_curve\n"
        "scores, y = _scores()\n"
        "sat_curve(scores[:9], y[:9])"
    )
    peaks = np.array([child_peak_megabytes(setup, "sat_curve(scores, y)") for _ in range(3)])
    return Figure("exact SAT, peak memory", *quartiles(peaks), 200, 200, "lower", "MB")


def scoring_throughput() -> Figure:
    """G: series per second of `EarlyClassifier.scores` ÷ series per second of the network alone."""
    X, y = _g_data(2000)
    clf = EarlyClassifier(_one_epoch(), progress=False).fit(X[:200], y[:200])
    batches = torch.from_numpy(X).split(100)

    def bare() -> None:
        with torch.inference_mode():
            for x in batches:
                clf.model_.net_(x)

    return _speedup("G: scores() rate ÷ bare forward rate", lambda: clf.scores(X), bare, 0.8, 0.95, 9)


def fit_overhead() -> Figure:
    """G: time of one epoch of `fit` ÷ time of its training steps alone."""
    X, y = _g_data(3000)
    step = _ours("b2bsqrt", G)

    def epoch() -> None:
        model = _one_epoch().set_params(training__validation_fraction=0)
        EarlyClassifier(model, standardize=False, progress=False).fit(X, y)

    def steps() -> None:
        for _ in range(30):
            step()

    return _slowdown("G: epoch of fit ÷ bare steps", epoch, steps, 1.15, 1.05, 7)


def growth() -> Figure:
    """Growth of the time of a step with T, from 50 to 400 (N=10), as an exponent; 1 means linear.

    The exponent refers to the number of windows T−N, which grows faster than T if T is close to N.
    """
    lengths = (50, 100, 200, 400)
    steps = [_ours("b2bsqrt", Shape(50, steps, 64, 64, 2, 10)) for steps in lengths]
    times = np.array([race(work, steps[0], turns=7)[0] for work in steps])  # (lengths, turns)
    exponents = np.polyfit(np.log(np.array(lengths) - 10), np.log(times), 1)[0]
    note = ", ".join(f"T={t}: {1000 * m:.1f} ms" for t, m in zip(lengths, np.median(times, axis=1)))
    return Figure("growth of a step with T−N, exponent", *quartiles(exponents), 1.1, 1.0, "lower", "", note)


FIGURES: dict[str, Callable[[], Figure]] = {
    work.__name__.replace("_", "-"): work
    for work in (
        g_b2bsqrt_step,
        g_accumulator_step,
        s_b2bsqrt_step,
        u_b2bsqrt_step,
        h_b2bsqrt_step,
        u_memory,
        g_tandemformer_step,
        g_tandemformer_norm,
        g_decided_step,
        s_tandemformer_step,
        sat_time,
        sat_memory,
        scoring_throughput,
        fit_overhead,
        growth,
        *FITTING,
        *DEFAULT,
        *STREAMING,
    )
}


def _ours(model: str, shape: Shape, params: dict[str, Any] | None = None) -> Work:
    """Return one training step of a network of this package."""
    net = _network(model, shape, params)
    return _training_step(net, lambda x: net(x).scores, shape)


def _network(model: str, shape: Shape, params: dict[str, Any] | None = None) -> Any:
    """Return an untrained network of this package."""
    torch.manual_seed(0)
    order = None if shape.order == shape.steps - 1 else shape.order
    network = models.make(model, params or {"hidden": shape.hidden})
    return network.build(shape.channels, shape.classes, order, shape.steps)


def _one_epoch() -> models.Model:
    """Return the network of the paper, set to train for one epoch."""
    return models.B2BsqrtTandem(**models.PAPER_GAUSSIAN, training=models.Training(max_epochs=1))


def _plain(net: nn.Module, shape: Shape) -> Work:
    """Return one training step of a baseline."""
    return _training_step(net, net, shape)


def _training_step(net: nn.Module, scores: Callable[[Tensor], Tensor], shape: Shape) -> Work:
    x, y = shape.series()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        lsel(scores(x), y).backward()
        optimizer.step()

    return step


def _objective_step(lead: float) -> Work:
    """Return both passes of a B2Bsqrt training step; `lead` is added to the scores of the true class."""
    net, (x, y) = _network("b2bsqrt", G), G.series()
    ahead = lead * nn.functional.one_hot(y, G.classes)[:, None]  # (B, 1, K)
    objective, weight = Objective(llre_ratio=1.0), torch.full((len(y),), 1 / len(y))

    def step() -> None:
        net.zero_grad(set_to_none=True)
        objective.of_scores(net(x).scores + ahead, y, None, weight).backward()

    return step


def _slowdown(name: str, ours: Work, baseline: Work, bar: float, aim: float, turns: int = 31) -> Figure:
    mine, theirs = race(ours, baseline, turns=turns)
    return Figure(name, *quartiles(mine / theirs), bar, aim, "lower", note=_note(mine, theirs))


def _speedup(name: str, ours: Work, baseline: Work, bar: float, aim: float, turns: int) -> Figure:
    mine, theirs = race(ours, baseline, turns=turns)
    return Figure(name, *quartiles(theirs / mine), bar, aim, "higher", note=_note(mine, theirs))


def _note(mine: np.ndarray, theirs: np.ndarray) -> str:
    return f"{1000 * np.median(mine):.1f} ms; baseline {1000 * np.median(theirs):.1f} ms"


def _scores() -> tuple[np.ndarray, np.ndarray]:
    """Return random walks of scores (10000, 50, 101) that drift to the true class, and labels (10000,)."""
    rng = np.random.default_rng(0)
    y = np.arange(10_000) % 101
    increments = rng.standard_normal((10_000, 50, 101), dtype=np.float32)
    increments[np.arange(10_000), :, y] += 0.5
    return np.cumsum(increments, axis=1, out=increments), y


def _g_data(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, G.steps, G.channels), dtype=np.float32), np.arange(n) % 2
