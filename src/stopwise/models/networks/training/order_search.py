"""The Markov order from data.

An order too small makes dependent samples look independent: the scores are over-confident, and a proper
scoring rule of the accumulated scores, the validation LSEL, shows it. An order too large only costs
precision. So: the smallest order that is not clearly worse than the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stopwise.data.examples import Examples
from stopwise.models.networks.modules import Integrator
from stopwise.models.networks.scoring import scored
from stopwise.models.networks.training.config import Recipe
from stopwise.models.networks.training.loop import train
from stopwise.models.networks.training.polish import polish

CANDIDATES = (0, 1, 2, 3, 5, 8)
# An order is clearly worse when it loses by so many standard errors, series by series; or by one, if that is
# also a good part of the loss. Scores that are too sure lose much on few series and hide in that spread.
CLEARLY = 2.0
MUCH = 0.1
# The search is short: enough to tell the orders apart, not to reach the last digit.
SEARCH_SERIES = 5000
WATCHED_SERIES = 1000  # held out, seen after every epoch
SEARCH_STEPS = 1000
SEARCH_RIDGES = (1e-3, 1e-5)


def candidates(steps: int) -> list[int]:
    """Return the orders to try on series of so many steps: small ones, and the longest.

    Examples
    --------
    >>> candidates(4)
    [0, 1, 2, 3]
    >>> candidates(50)
    [0, 1, 2, 3, 5, 8, 49]
    """
    return sorted({order for order in (*CANDIDATES, steps - 1) if order < steps})


def search(
    fresh: Callable[[int], Integrator],
    train_set: Examples,
    validation_set: Examples,
    recipe: Recipe,
    tried: Iterable[int],
    *,
    polished: bool,
    progress: bool | str,
) -> tuple[int, list[dict[str, Any]]]:
    """Train a network of each order shortly, and return what `choose` says of their validation losses.

    Parameters
    ----------
    fresh
        Makes an untrained network of an order.
    train_set, validation_set
        The data; at most `SEARCH_SERIES` of each are used.
    recipe
        How to train; the search takes at most `SEARCH_STEPS` steps an order.
    tried
        The orders.
    polished
        Whether to polish the trained networks, as the final one will be.
    progress
        As for `train`.
    """
    part = train_set.sample(SEARCH_SERIES, recipe.seed)
    held = validation_set.sample(SEARCH_SERIES, recipe.seed)
    watched = held.sample(WATCHED_SERIES, recipe.seed)
    steps, whole = (-(-len(data) // recipe.batch_size) for data in (part, train_set))
    wanted = min(SEARCH_STEPS, recipe.max_epochs * whole)
    short = replace(recipe, max_epochs=-(-wanted // steps), patience=None)
    losses = {}
    for order in tried:
        net = fresh(order)
        train(net, part, watched, short, progress=progress, title=f"trying order {order}")
        if polished:
            polish(net, part, held, short, ridges=SEARCH_RIDGES, progress=progress)
        batches = scored(net, held.read, len(held), recipe.batch_size, recipe.device)
        losses[order] = np.concatenate(
            [series_lsel(scores, held.y[rows], lengths) for rows, scores, lengths in batches]
        )
    return choose(losses, held.weights())


def series_lsel(scores: np.ndarray, y: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the LSEL (n,) of each series: the mean over its steps of −log posterior of its class.

    Parameters
    ----------
    scores
        (n, T, K).
    y
        (n,) class indices.
    lengths
        (n,) steps of each series.

    Examples
    --------
    >>> series_lsel(np.zeros((1, 3, 2)), np.array([1]), np.array([3])).round(3).tolist()
    [0.693]
    """
    inside = np.arange(scores.shape[1]) < lengths[:, None]
    scores = np.where(inside[..., None], scores, 0).astype(np.float64)
    own = np.take_along_axis(scores, y[:, None, None], axis=2)[..., 0]  # (n, T)
    losses = np.logaddexp.reduce(scores, axis=2) - own
    return np.where(inside, losses, 0.0).sum(axis=1) / lengths


def choose(losses: Mapping[int, np.ndarray], weights: np.ndarray) -> tuple[int, list[dict[str, Any]]]:
    """Return the order chosen, and what was seen of each.

    Parameters
    ----------
    losses
        By order, the validation loss (n,) of each series.
    weights
        (n,) weights of the series, with mean 1, that give every class the same share.

    Returns
    -------
    order
        The smallest that is not clearly worse than the best.
    seen
        For each order: `order`, `validation_lsel`, `excess` over the best, and its `standard_error`.

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
    for order in sorted(losses):
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
    return excess > CLEARLY * error or (excess > error and excess > MUCH * best)
