"""Comparison of networks by short trainings, where convex fits cannot tell which is best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.data.examples import Examples
from stopwise.models.networks.modules import Integrator
from stopwise.models.networks.training.loop import Task, train
from stopwise.models.networks.training.order_search import choose
from stopwise.models.networks.training.polish import FEW_RIDGES, polish
from stopwise.progress import Stages
from stopwise.validation import inside

# Limits of a trial: enough training to rank the networks, but not to convergence.
TRIAL_SERIES = 5000
WATCHED_SERIES = 1000  # number of validation series that are scored after every epoch
TRIAL_STEPS = 1000

# Losses (n,) of the trials so far, by name
Losses = dict[str, list[float]]


def compare(
    networks: Mapping[str, Callable[[], Integrator]],
    task: Task,
    *,
    polished: bool,
    progress: bool | str | Stages = False,
    known: Losses | None = None,
    on_trial: Callable[[Losses], None] = lambda losses: None,
    path: Path | None = None,
) -> tuple[str, list[dict[str, Any]]]:
    """Train each network for a short time, and choose one by the validation losses.

    Parameters
    ----------
    networks
        Functions that build the untrained networks, by name, the simplest first.
    task
        Training task. A trial uses at most `TRIAL_SERIES` training series, as many validation series, and
        about `TRIAL_STEPS` training steps.
    polished
        Whether to polish the trained networks. This should match the final training.
    progress
        As for `train`, with a stage named "trying <name>" per network.
    known
        Losses of trials of an interrupted run, which are not repeated.
    on_trial
        Callback that receives the losses of all trials so far after each trial.
    path
        File of the training checkpoint of the fit. That of a trial is next to it until the trial ends.

    Returns
    -------
    name, seen
        As for `choose`: the first network that is not clearly worse than the best, and one record per
        network.
    """
    assert task.validation_set is not None
    held = task.validation_set.sample(TRIAL_SERIES, task.seed)
    short = _short(task, held)
    losses: Losses = dict(known or {})
    for name, fresh in networks.items():
        own_path = path and path.with_name(f"{path.name}.{name}")
        if name not in losses:
            net = fresh()
            train(net, short, path=own_path, progress=progress, title=f"trying {name}")
            if polished:
                polish(net, replace(short, validation_set=held), ridges=FEW_RIDGES)
            losses[name] = _held_out_lsel(net, held, task.training.batch_size).tolist()
            on_trial(losses)
        if own_path is not None:
            own_path.unlink(missing_ok=True)
    found = {name: np.array(losses[name]) for name in networks}
    return choose(found, held.weights, key="body")


def _short(task: Task, held: Examples) -> Task:
    """Return the task of a trial."""
    size = task.training.batch_size
    part = task.train_set.sample(TRIAL_SERIES, task.seed)
    per_epoch = min(len(task.train_set), task.training.epoch_series or len(task.train_set))
    steps, all_steps = (-(-number // size) for number in (len(part), per_epoch))
    wanted = min(TRIAL_STEPS, task.training.max_epochs * all_steps)
    return replace(
        task,
        train_set=part,
        validation_set=held.sample(WATCHED_SERIES, task.seed),
        training=task.training.checked(max_epochs=-(-wanted // steps), patience=None, epoch_series=None),
    )


def _held_out_lsel(net: Integrator, held: Examples, size: int) -> np.ndarray:
    """Return the LSEL (n,) of each held-out series."""
    parts = []
    for start in range(0, len(held), size):
        rows = np.arange(start, min(start + size, len(held)))
        x, lengths = held.read(rows)
        parts.append(series_lsel(net.score(x), held.y[rows], lengths))
    return np.concatenate(parts)


def series_lsel(scores: np.ndarray, y: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the LSEL (n,) of each series, the mean negative log posterior of its class over its steps.

    Parameters
    ----------
    scores
        (n, T, K) scores.
    y
        (n,) class indices.
    lengths
        (n,) lengths of the series.

    Examples
    --------
    >>> series_lsel(np.zeros((1, 3, 2)), np.array([1]), np.array([3])).round(3).tolist()
    [0.693]
    """
    own_steps = inside(lengths, scores.shape[1])
    scores = np.where(own_steps[..., None], scores, 0).astype(np.float64)
    own = np.take_along_axis(scores, y[:, None, None], axis=2)[..., 0]  # (n, T)
    losses = np.logaddexp.reduce(scores, axis=2) - own
    return np.where(own_steps, losses, 0.0).sum(axis=1) / lengths
