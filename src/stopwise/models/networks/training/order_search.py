"""Choice of the Markov order from data.

If the order is too small, dependent samples are treated as independent and the scores are overconfident. The
held-out LSEL, a proper scoring rule of the accumulated scores, shows this. If the order is too large, only
precision is lost. The search therefore chooses the smallest order that is not clearly worse than the best.

No network is trained. The candidates are linear in fixed features: those of order N use the samples at lags
0..N and their products (`lags.py`), and that of no finite order also uses a random recurrent network. The
features of an order include those of smaller orders, so each fit starts from the previous one. An order whose
new features alone do not lower the held-out loss is not fitted further. With groups, the search is done
twice, with the two halves of the groups exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from stopwise.data.examples import Examples
from stopwise.models.networks.training.convex import Remembered, Rows, fit_ridge
from stopwise.models.networks.training.lags import (
    Series,
    evidence_view,
    lag_features,
    read_series,
    recurrent_features,
)
from stopwise.models.networks.training.loop import Task
from stopwise.models.networks.training.prefixes import Features, Prefixes

CANDIDATES = (0, 1, 2, 3, 5, 8)
# An order is clearly worse if its loss exceeds the best loss by this number of standard errors of the paired
# difference. Fewer are enough if the excess is also a large fraction of the best loss, because overconfident
# scores have large losses on few series, which makes the standard error large.
CLEAR_STANDARD_ERRORS = 3.0
FEWER_STANDARD_ERRORS, LARGE_SHARE_OF_LOSS = 1.5, 0.1
SMALL_SHARE_OF_LOSS = 0.02  # an excess of less than this share is not worth a larger order
# Limits of the search: enough data to rank the orders.
SEARCH_SERIES = 2000
FEW_CLASSES = 4  # with more classes, fewer series are fitted: the time is proportional to both
HELD_OUT_FRACTION = 0.4  # largest fraction of the training series on which fits are compared
SEARCH_SAMPLES = 500_000  # number of samples, series times steps
LEAST_SERIES = 300
# Share of the loss by which the new features of an order must lower it to be fitted together with the others.
WORTH_A_FIT = 0.01
RIDGES = (1e-1, 1e-2, 1e-3, 1e-5)  # from strong to weak, relative to the variance of the features
PASSES = 25
TOLERANCE = 1e-5
CURVATURE_ROWS = 20_000

Losses = dict[int | None, np.ndarray]
Name = TypeVar("Name", int | None, str)


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
    tried: Sequence[int | None], task: Task, *, advance: Callable[[str], None] = lambda note: None
) -> tuple[int | None, list[dict[str, Any]]]:
    """Choose an order by the held-out losses of linear fits.

    Parameters
    ----------
    tried
        Candidate orders in ascending order; None, for no finite order, is the last.
    task
        Training task, of which the data and the seed are used. The search fits at most `SEARCH_SERIES` series
        and compares the fits on as many others.
    advance
        Function that is called after each candidate with a short text about it.

    Returns
    -------
    order, seen
        As for `choose`.
    """
    *others, last = _rounds(task)
    found = [_round(tried, *one, task, lambda note: None) for one in others] + [
        _round(tried, *last, task, advance)
    ]
    losses = {order: np.concatenate([one[order] for one in found]) for order in tried}
    weights = [held.weight * len(held) for _, held in [*others, last]]
    return choose(losses, np.concatenate(weights))


def _round(
    tried: Sequence[int | None], train: Series, held: Series, task: Task, advance: Callable[[str], None]
) -> Losses:
    """Return the losses on some series of fits to others, by order."""
    ladder = _Ladder(Prefixes(train, segments=True), Prefixes(held, segments=False), task.train_set.classes)
    lag = 0
    for order in tried:
        features: list[Features] = [lambda z: recurrent_features(z, task.seed)]
        if order is not None:
            features = [lambda z, j=j: lag_features(z, j) for j in range(lag, order + 1)]  # type: ignore[misc]
            lag = order + 1
        loss = ladder.climb(order, features)
        advance(f"{'no finite order' if order is None else f'order {order}'} · validation {loss:.4g}")
    return ladder.losses


def _rounds(task: Task) -> list[tuple[Series, Series]]:
    """Return pairs of series to fit and series to compare the fits on.

    There is one pair without groups. Series of a group resemble each other, so that a comparison on the few
    groups of a validation part depends on which groups these are. With groups, there are two pairs, and each
    half of the groups is fitted once and compared once, if both halves have every class.
    """
    assert task.validation_set is not None
    steps = max(task.train_set.steps, task.validation_set.steps)
    most = SEARCH_SERIES * FEW_CLASSES // max(FEW_CLASSES, task.train_set.classes)
    count = max(LEAST_SERIES, min(most, SEARCH_SAMPLES // steps))
    if task.train_set.groups is not None:
        one, other = _split(task.train_set, 0.5, task.seed)
        if other is not None and len(np.unique(other.y)) == len(np.unique(one.y)):
            return [_read(one, [other], count, task), _read(other, [one], count, task)]
    return [_read(*_held_out(task, count), count, task)]


def _held_out(task: Task, count: int) -> tuple[Examples, list[Examples]]:
    """Return examples to fit and the validation examples.

    If there are fewer than `count` validation series, some of the training series, of other groups than the
    rest, are added to them: the more series are compared, the smaller the differences that can be seen.
    """
    assert task.validation_set is not None
    part, held = task.train_set, [task.validation_set]
    missing = count - len(held[0])
    if missing > 0:
        part, more = _split(part, min(HELD_OUT_FRACTION, missing / len(part)), task.seed)
        held += [] if more is None else [more.sample(missing, task.seed)]
    return part, held


def _split(data: Examples, fraction: float, seed: int) -> tuple[Examples, Examples | None]:
    """Return two parts of some examples; the second is None if the groups or classes are too few for two."""
    try:
        return data.split(fraction, seed)
    except ValueError:  # a class would be missing from the first part
        return data, None


def _read(part: Examples, held: Sequence[Examples], count: int, task: Task) -> tuple[Series, Series]:
    """Return at most `count` series of the examples to fit, and of each of those to compare the fits on."""
    part = part.sample(count, task.seed)
    view = evidence_view(part, task.seed)
    size = task.training.batch_size
    compared = [one.sample(count, task.seed) for one in held]
    return read_series([part], view, size), read_series(compared, view, size)


class _Ladder:
    """Nested linear fits, each started from the best one so far.

    Parameters
    ----------
    train, held
        Prefixes to fit, and prefixes to compare the fits on.
    classes
        K, the number of classes.
    """

    def __init__(self, train: Prefixes, held: Prefixes, classes: int) -> None:
        self.train, self.held, self.classes = train, held, classes
        self.losses: Losses = {}
        self._weight = held.series.weight
        self._features: tuple[list[Tensor], list[Tensor]] = ([], [])  # of the rungs so far
        self._best: np.ndarray = np.zeros((0, classes))  # parameters of the best fit
        self._best_losses: np.ndarray | None = None  # (n,)
        self._logits: tuple[Tensor | None, Tensor | None] = (None, None)

    def climb(self, order: int | None, features: Sequence[Features]) -> float:
        """Add features, fit them, and return the held-out loss."""
        new = [torch.cat([part.rows(one) for one in features], dim=1) for part in (self.train, self.held)]
        scale = self.train.deviations(new[0])
        new = [block / scale for block in new]
        width = new[0].shape[1]
        # First the new features alone, added to the scores of the best fit so far.
        alone, losses = self._path(order, new, np.zeros((width, self.classes)), self._logits)
        if self._best_losses is None or self._gains(losses):
            for blocks, block in zip(self._features, new):
                blocks.append(block)
            if len(self._features[0]) > 1:
                both = [torch.cat(blocks, dim=1) for blocks in self._features]
                missing = both[0].shape[1] - width - len(self._best)
                start = np.concatenate([np.pad(self._best, ((0, missing), (0, 0))), alone])
                alone, losses = self._path(order, both, start, (None, None))
            self._accept(alone, losses)
        elif order is not None:
            for blocks, block in zip(self._features, new):
                blocks.append(block)
        self.losses[order] = losses
        return float(self._weight @ losses)

    def _gains(self, losses: np.ndarray) -> bool:
        """Whether held-out losses (n,) are lower than the best so far by more than their noise."""
        assert self._best_losses is not None
        gain = self._weight * (self._best_losses - losses) * len(losses)
        noise = max(gain.std() / np.sqrt(len(gain)), WORTH_A_FIT * float(self._weight @ self._best_losses))
        return bool(gain.mean() > noise)

    def _accept(self, parameters: np.ndarray, losses: np.ndarray) -> None:
        if self._best_losses is not None and self._weight @ losses >= self._weight @ self._best_losses:
            return
        self._best, self._best_losses = parameters, losses
        matrix = torch.from_numpy(parameters).float()
        first, second = (
            sum(
                (block @ rows for block, rows in zip(blocks, matrix.split([b.shape[1] for b in blocks]))),
                torch.zeros(()),
            )
            for blocks in self._features
        )
        self._logits = first, second

    def _path(
        self,
        order: int | None,
        features: Sequence[Tensor],
        start: np.ndarray,
        offsets: tuple[Tensor | None, Tensor | None],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the best parameters of a regularization path, and their held-out losses (n,)."""
        train, held = features
        fitted = Rows(train, self.train.y, self.train.weight(order), self.classes, offsets[0])
        judged = Rows(held, self.held.y, self.held.weight(order), self.classes, offsets[1])
        stride = max(1, len(train) // CURVATURE_ROWS)
        loss = Remembered(fitted.loss)
        path = [(start, self.held.per_series(judged.losses(start)))]
        for ridge in RIDGES:
            fitted_here = fit_ridge(
                loss,
                path[-1][0],
                fitted.curvature(path[-1][0], stride),
                np.full(len(start), ridge),
                passes=PASSES,
                tolerance=TOLERANCE,
            )
            path.append((fitted_here, self.held.per_series(judged.losses(fitted_here))))
            if len(path) > 2 and self._weight @ path[-1][1] > self._weight @ path[-2][1]:
                break  # weaker ridge penalties fit noise
        best = min(path, key=lambda one: float(self._weight @ one[1]))[0]
        return best, crosswise(np.stack([losses for _, losses in path]), self._weight)


def crosswise(losses: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the losses (n,) of the best of several fits, chosen for each half of the series on the other.

    The lowest of several noisy losses is too optimistic. This choice is not, because the losses that decide
    and those that are returned belong to different series.

    Parameters
    ----------
    losses
        (fits, n) losses.
    weight
        (n,) weights of the series.

    Examples
    --------
    >>> crosswise(np.array([[1.0, 2.0, 1.0, 2.0], [2.0, 1.0, 2.0, 1.0]]), np.ones(4)).tolist()
    [2.0, 2.0, 2.0, 2.0]
    """
    even = np.arange(losses.shape[1]) % 2 == 0
    chosen = np.empty(losses.shape[1])
    for half in (even, ~even):
        # With a single series there is no other half.
        other = ~half if half.sum() < len(half) else half
        chosen[half] = losses[int((losses[:, other] @ weight[other]).argmin()), half]
    return chosen


def choose(
    losses: Mapping[Name, np.ndarray], weights: np.ndarray, key: str = "order"
) -> tuple[Name, list[dict[str, Any]]]:
    """Choose the first candidate that is not clearly worse than the best.

    Parameters
    ----------
    losses
        Validation losses (n,) of the series, by candidate, the simplest first: small orders before large
        ones, and those before None, which stands for no finite order.
    weights
        (n,) weights of the series, with mean 1, that give every class the same total weight.
    key
        Name of the candidates in the records.

    Returns
    -------
    chosen
        The chosen candidate.
    seen
        One record per candidate: its name (`key`), `validation_lsel`, `excess` over the best, and the
        `standard_error` of the excess.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> blind = rng.uniform(0.6, 0.8, 200)
    >>> sees = blind - rng.uniform(0.3, 0.5, 200)
    >>> choose({0: blind, 1: sees, 2: sees + rng.normal(-1e-4, 0.1, 200)}, np.ones(200))[0]
    1
    """
    means = {name: float((weights * loss).mean()) for name, loss in losses.items()}
    best = min(means, key=lambda name: means[name])
    seen: list[dict[str, Any]] = []
    for name, loss in losses.items():
        worse = weights * (loss - losses[best])
        error = float(worse.std(ddof=1) / np.sqrt(len(worse))) if len(worse) > 1 else 0.0
        seen.append(
            {
                key: name,
                "validation_lsel": means[name],
                "excess": means[name] - means[best],
                "standard_error": error,
            }
        )
    chosen = next(one[key] for one in seen if not _is_clearly_worse(one, means[best]))
    return chosen, seen


def best_finite_order(seen: Sequence[Mapping[str, Any]]) -> int:
    """Return the smallest finite order that is not clearly worse than the best finite one.

    Parameters
    ----------
    seen
        Records of `choose`. Standard errors refer to the best candidate of all, so the choice is among the
        orders whose loss is not clearly higher than the lowest of a finite order.

    Examples
    --------
    >>> losses = {0: 0.7, 1: 0.31, 2: 0.305, None: 0.2}
    >>> best_finite_order([{"order": n, "validation_lsel": l} for n, l in losses.items()])
    1
    """
    finite = {one["order"]: one["validation_lsel"] for one in seen if one["order"] is not None}
    least = min(finite.values())
    return next(order for order, loss in finite.items() if loss <= (1 + SMALL_SHARE_OF_LOSS) * least)


def _is_clearly_worse(one: Mapping[str, Any], best: float) -> bool:
    excess, error = one["excess"], one["standard_error"]
    if excess <= SMALL_SHARE_OF_LOSS * best:
        return False
    large = excess > LARGE_SHARE_OF_LOSS * best
    return excess > (FEWER_STANDARD_ERRORS if large else CLEAR_STANDARD_ERRORS) * error
