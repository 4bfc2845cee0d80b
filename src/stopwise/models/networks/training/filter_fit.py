"""Fit of the filter body: a start by expectation-maximization, which polishing and training have to beat.

The held-out LSEL hardly depends on LLRs beyond some ten nats. Of two networks with the same held-out loss,
the one that was fitted by likelihood is therefore the more precise. Polishing and training are kept only if
they are clearly better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from stopwise.data.examples import Examples
from stopwise.models.networks.modules.accumulator import AccumulatorModule
from stopwise.models.networks.training.compare import gain, held_out_lsel
from stopwise.models.networks.training.hidden_markov import HiddenMarkov, Series, fit_hidden_markov
from stopwise.models.networks.training.loop import Task

# Limits of the data that EM uses.
MOST_SERIES = 10_000
MOST_VALUES = 50_000_000
FEW_SERIES = 1000  # for the choice of the start and the scale
SCALES = tuple(0.5**i for i in range(12))


def start_filter(
    net: AccumulatorModule, task: Task, *, brief: bool = False, progress: bool | str = False
) -> dict[str, Any]:
    """Fit the filter of a network by expectation-maximization, in place.

    Parameters
    ----------
    net
        Untrained network with a filter. Its scores become those of the fitted hidden-Markov models.
    task
        Training task. At most `MOST_SERIES` of its training series are used.
    brief
        Whether a rough fit to at most `FEW_SERIES` series is enough.
    progress
        As for `Reporter`.

    Returns
    -------
    report
        `iterations`; the `log_likelihood` of the models per sample, up to a constant; and the `scale` of
        `find_scale`.
    """
    assert net.filter is not None
    data = task.train_set
    values = data.steps * (data.channels + 4 * net.filter.states)  # per series
    data = data.sample(max(min(MOST_SERIES, MOST_VALUES // values), data.classes), task.seed)
    part = data.sample(FEW_SERIES, task.seed)
    data = part if brief else data
    series, few = (_read(one, net.skip) for one in (data, part))
    model, history = fit_hidden_markov(
        series, few, net.filter.states, task.seed, brief=brief, progress=progress
    )
    write_models(net, model)
    net.to(task.training.device)
    scale = find_scale(net, replace(task, validation_set=part))
    with torch.no_grad():
        net.head.weight.mul_(scale)
        net.head.bias.mul_(scale)
    return {"iterations": len(history), "log_likelihood": history[-1], "scale": scale}


@torch.no_grad()
def write_models(net: AccumulatorModule, model: HiddenMarkov) -> None:
    """Set the filter of a network to hidden-Markov models of its inputs."""
    assert net.filter is not None
    weights, bias = (torch.from_numpy(part) for part in model.emission)
    emission = net.filter.emission
    emission.weight.zero_()[:, : net.channels] = weights.t()
    emission.bias.copy_(bias)
    net.filter.transition.copy_(torch.from_numpy(model.transition).log())
    net.filter.start.copy_(torch.from_numpy(model.start).log())
    # The common part of the biases of a class belongs to the head; the rest is at most 0.
    class_bias = torch.from_numpy(model.class_bias)
    most = class_bias.amax(1)  # (K,)
    net.filter.class_bias.copy_(class_bias - most[:, None])
    weights, bias = (torch.from_numpy(part) for part in model.class_evidence)  # (D, K), (K,)
    net.head.bias.copy_(bias + most)
    if net.skip:  # otherwise there are no offsets
        net.head.weight[:, -net.n_skip_inputs : -net.classes] = weights.t()


def find_scale(net: AccumulatorModule, task: Task) -> float:
    """Return the factor, 1 or a power of ½, that makes overconfident scores useful.

    Where the models are wrong, for example because samples repeat each other, they can be so sure of a wrong
    class that neither polishing nor training finds a way back. The factor is 1 unless a smaller one is
    clearly better.

    Parameters
    ----------
    net
        Network.
    task
        Task whose validation set is used.
    """
    assert task.validation_set is not None
    weights = task.validation_set.weights
    losses = {scale: held_out_lsel(net, task, scale) for scale in SCALES}
    best = min(losses, key=lambda scale: float((weights * losses[scale]).mean()))
    return best if gain(losses[1.0], losses[best], weights).is_clear else 1.0


def choose_stage(
    stages: Mapping[str, AccumulatorModule], task: Task
) -> tuple[str, list[dict[str, float | str]] | None]:
    """Return the name of the first network that no later one clearly improves, and the report of the choice.

    Parameters
    ----------
    stages
        Networks by name, from the one that is closest to the likelihood fit to the most flexible one.
    task
        Training task. Without a validation set, the last network is chosen and there is no report.
    """
    if task.validation_set is None:
        return list(stages)[-1], None
    weights = task.validation_set.weights
    losses = {name: held_out_lsel(net, task) for name, net in stages.items()}
    chosen, *later = stages
    seen: list[dict[str, float | str]] = [
        {"stage": chosen, "validation_lsel": float((weights * losses[chosen]).mean())}
    ]
    for name in later:
        found = gain(losses[chosen], losses[name], weights)
        seen.append(
            {
                "stage": name,
                "validation_lsel": float((weights * losses[name]).mean()),
                "gain": found.mean,
                "standard_error": found.standard_error,
            }
        )
        if found.is_clear:
            chosen = name
    return chosen, seen


def _read(data: Examples, offsets: bool) -> Series:
    """Read all series of some examples."""
    x, lengths = data.read(np.arange(len(data)))
    return Series(x, data.y, lengths, data.classes, offsets)
