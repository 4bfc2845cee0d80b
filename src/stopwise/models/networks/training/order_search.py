"""Choice of the Markov order from data.

If the order is too small, dependent samples are treated as independent and the scores are overconfident. The
validation LSEL, a proper scoring rule of the accumulated scores, shows this. If the order is too large, only
precision is lost. The search therefore chooses the smallest order that is not clearly worse than the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stopwise.data.examples import Examples
from stopwise.models.networks.modules import Integrator
from stopwise.models.networks.training.loop import Task, train
from stopwise.models.networks.training.polish import polish
from stopwise.validation import inside

CANDIDATES = (0, 1, 2, 3, 5, 8)
# An order is clearly worse if its loss exceeds the best loss by this number of standard errors of the paired
# difference. One standard error is enough if the excess is also a large fraction of the best loss, because
# overconfident scores have large losses on few series, which makes the standard error large.
CLEAR_STANDARD_ERRORS = 2.0
LARGE_SHARE_OF_LOSS = 0.1
# Limits of the search: enough training to rank the orders, but not to convergence.
SEARCH_SERIES = 5000
WATCHED_SERIES = 1000  # number of validation series that are scored after every epoch
SEARCH_STEPS = 1000
SEARCH_RIDGES = (1e-3, 1e-5)


def candidates(steps: int) -> list[int | None]:
    """Return the candidate orders for series of `steps` steps: small orders, and None for no finite order.

    Examples
    --------
    >>> candidates(4)
    [0, 1, 2, None]
    >>> candidates(50)
    [0, 1, 2, 3, 5, 8, None]
    """
    return [*(order for order in CANDIDATES if order < steps - 1), None] if steps > 1 else [0]


def search(
    fresh: Callable[[int | None], Integrator],
    tried: Iterable[int | None],
    task: Task,
    *,
    polished: bool,
    progress: bool | str,
) -> tuple[int | None, list[dict[str, Any]]]:
    """Train a network of each order for a short time, and choose an order by the validation losses.

    Parameters
    ----------
    fresh
        Function that builds an untrained network of a given order.
    tried
        Candidate orders.
    task
        Training task. The search uses at most `SEARCH_SERIES` training series, at most `SEARCH_SERIES`
        validation series, and about `SEARCH_STEPS` training steps per order.
    polished
        Whether to polish the trained networks. This should match the final training.
    progress
        As for `train`.

    Returns
    -------
    order, seen
        As for `choose`.
    """
    assert task.validation_set is not None
    size = task.training.batch_size
    part = task.train_set.sample(SEARCH_SERIES, task.seed)
    held = task.validation_set.sample(SEARCH_SERIES, task.seed)
    watched = held.sample(WATCHED_SERIES, task.seed)
    steps, all_steps = (-(-len(data) // size) for data in (part, task.train_set))
    wanted = min(SEARCH_STEPS, task.training.max_epochs * all_steps)
    short = replace(
        task,
        train_set=part,
        validation_set=watched,
        training=task.training.checked(max_epochs=-(-wanted // steps), patience=None),
    )
    losses = {}
    for order in tried:
        net = fresh(order)
        name = "no finite order" if order is None else f"order {order}"
        train(net, short, progress=progress, title=f"trying {name}")
        if polished:
            polish(net, replace(short, validation_set=held), ridges=SEARCH_RIDGES, progress=progress)
        losses[order] = _held_out_lsel(net, held, size)
    return choose(losses, held.weights)


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


def choose(
    losses: Mapping[int | None, np.ndarray], weights: np.ndarray
) -> tuple[int | None, list[dict[str, Any]]]:
    """Choose the smallest order that is not clearly worse than the best.

    Parameters
    ----------
    losses
        Validation losses (n,) of the series, by order. The key None stands for no finite order, which counts
        as the largest.
    weights
        (n,) weights of the series, with mean 1, that give every class the same total weight.

    Returns
    -------
    order
        The chosen order.
    seen
        One record per order: `order`, `validation_lsel`, `excess` over the best, and the `standard_error` of
        the excess.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> blind = rng.uniform(0.6, 0.8, 200)
    >>> sees = blind - rng.uniform(0.3, 0.5, 200)
    >>> choose({0: blind, 1: sees, 2: sees + rng.normal(-1e-4, 0.1, 200)}, np.ones(200))[0]
    1
    """
    means = {order: float((weights * loss).mean()) for order, loss in losses.items()}
    best = min(means, key=lambda order: means[order])
    seen: list[dict[str, Any]] = []
    for order in sorted(losses, key=lambda one: np.inf if one is None else one):
        worse = weights * (losses[order] - losses[best])
        error = float(worse.std(ddof=1) / np.sqrt(len(worse))) if len(worse) > 1 else 0.0
        seen.append(
            {
                "order": order,
                "validation_lsel": means[order],
                "excess": means[order] - means[best],
                "standard_error": error,
            }
        )
    chosen = next(one["order"] for one in seen if not _is_clearly_worse(one, means[best]))
    return chosen, seen


def _is_clearly_worse(one: Mapping[str, Any], best: float) -> bool:
    excess, error = one["excess"], one["standard_error"]
    return excess > CLEAR_STANDARD_ERRORS * error or (excess > error and excess > LARGE_SHARE_OF_LOSS * best)
