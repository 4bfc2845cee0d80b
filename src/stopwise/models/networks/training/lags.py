"""Features of samples and their lags, on which the order search fits linear layers.

The evidence between Gaussian processes of order N is linear in the samples at lags 0..N and in their
products. These features need no training. With many channels, only the directions that carry most evidence
are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import eigh
from sklearn.utils.class_weight import compute_sample_weight
from torch import Tensor

from stopwise.data.examples import Examples
from stopwise.validation import inside

SCREENED_CHANNELS = 128  # number of channels, those with the most evidence, that directions combine
LINEAR = 32  # number of directions of the linear features of lag 0
PRODUCTS = 8  # number of directions of the products and of the linear features of earlier lags
EVIDENCE_LAGS = (0, 1, 2, 3, 5, 8)  # lags at which the covariances of the classes are compared
EVIDENCE_SERIES = 1000  # number of series from which the directions are computed
SHRINKAGE = 1e-3  # share of the mean variance that is added to the covariance
UNITS = 16  # size of the random recurrent network, and number of random functions of a sample
MEMORY = 0.5  # factor by which the state of the random recurrent network decays per step


@dataclass(frozen=True)
class Series:
    """Series in the directions with the most evidence.

    Parameters
    ----------
    z
        (n, T, q) float32 values. They are 0 after the end of a series.
    y
        (n,) class indices.
    lengths
        (n,) lengths.
    weight
        (n,) weights with sum 1 that give all classes the same total weight.
    """

    z: Tensor
    y: np.ndarray
    lengths: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    @property
    def steps(self) -> int:
        """T, the number of steps."""
        return self.z.shape[1]


@dataclass(frozen=True)
class View:
    """Linear map of samples (C,) to the directions that carry the most evidence, the strongest first.

    Parameters
    ----------
    directions
        (C, q) directions.
    center
        (C,) value to subtract from the samples first.
    """

    directions: np.ndarray
    center: np.ndarray

    def __call__(self, x: np.ndarray, lengths: np.ndarray) -> Tensor:
        """Return the values (B, T, q) of series x (B, T, C), 0 after the end of each series."""
        shift = (self.center @ self.directions).astype(np.float32)
        mapped = x @ self.directions.astype(np.float32) - shift
        return torch.from_numpy(mapped * inside(lengths, x.shape[1])[..., None])


def read_series(parts: Sequence[Examples], view: View, size: int) -> Series:
    """Read series in batches of `size` and map their samples to the directions of a view."""
    y, lengths = (np.concatenate([getattr(data, name) for data in parts]) for name in ("y", "lengths"))
    z = torch.zeros(len(y), int(lengths.max()), view.directions.shape[1])
    first = 0
    for data in parts:
        for start in range(0, len(data), size):
            rows = np.arange(start, min(start + size, len(data)))
            mapped = view(*data.read(rows))
            z[first : first + len(rows), : mapped.shape[1]] = mapped
            first += len(rows)
    return Series(z, y, lengths, compute_sample_weight("balanced", y) / len(y))


def evidence_view(data: Examples, seed: int) -> View:
    """Return the directions that carry the most evidence.

    The samples are whitened by the covariance within classes. A direction is then rated by the squared
    differences between classes of the means and of the covariances at several lags: to second order, these
    are the evidence per sample. Directions that are correlated with a difference of means at an earlier step
    count as well, because they show which part of that difference is repeated.
    """
    part = data.sample(EVIDENCE_SERIES, seed)
    x, lengths = part.read(np.arange(len(part)))
    there = inside(lengths, x.shape[1])
    total = there.sum()
    center = (x * there[..., None]).sum((0, 1), dtype=np.float64) / total
    x = ((x - center) * there[..., None]).astype(np.float32)
    classes = [part.y == k for k in np.unique(part.y)]
    kept = _screen(x, there, classes)
    x = x[..., kept]
    means = np.stack([x[own].sum((0, 1), dtype=np.float64) / there[own].sum() for own in classes])
    index = np.searchsorted(np.unique(part.y), part.y)
    x = (x - means[index].astype(np.float32)[:, None]) * there[..., None]
    within = _lagged(x, 0) / total
    within += (SHRINKAGE * np.trace(within) / len(within) + 1e-30) * np.eye(len(within))
    values, vectors = eigh(within)
    whiten = vectors / np.sqrt(values)  # (C, C)
    means = (means - means.mean(0)) @ whiten
    between = means.T @ means
    z, rated = x @ whiten.astype(np.float32), between.copy()
    for lag in (lag for lag in EVIDENCE_LAGS if lag < x.shape[1]):
        pairs = [max(1, int(np.maximum(lengths[own] - lag, 0).sum())) for own in classes]
        own = np.stack([_lagged(z[rows], lag) / count for rows, count in zip(classes, pairs)])
        common = own.mean(0)
        for difference in own - common:
            rated += (difference @ difference.T + difference.T @ difference) / 4
        if lag:
            rated += common @ between @ common.T + common.T @ between @ common
    _, best = eigh(rated)
    directions = np.zeros((data.channels, min(LINEAR, len(kept))))
    directions[kept] = (whiten @ best[:, ::-1])[:, : directions.shape[1]]
    return View(directions, center)


def _screen(x: np.ndarray, there: np.ndarray, classes: list[np.ndarray]) -> np.ndarray:
    """Return the indices of the channels with the most evidence, taken one by one, in ascending order."""
    if x.shape[2] <= SCREENED_CHANNELS:
        return np.arange(x.shape[2])
    tables = []
    for own in classes:
        samples = x[own][there[own]].astype(np.float64)
        following = x[own][:, 1:] * x[own][:, :-1]
        tables.append((samples.mean(0), samples.var(0), following.mean((0, 1), dtype=np.float64)))
    means, variances, products = (np.stack(column) for column in zip(*tables))  # (K, C)
    scale = variances.mean(0) + 1e-12 * variances.mean() + 1e-30
    rated = means.var(0) / scale + (variances.var(0) + products.var(0)) / scale**2
    return np.sort(np.argsort(-rated, kind="stable")[:SCREENED_CHANNELS])


def _lagged(x: np.ndarray, lag: int) -> np.ndarray:
    """Return the sum (C, C) over series and steps of ``x_s x_{s-lag}ᵀ`` for x (n, T, C)."""
    steps, channels = x.shape[1:]
    now, before = x[:, lag:].reshape(-1, channels), x[:, : steps - lag].reshape(-1, channels)
    return (torch.from_numpy(now).t() @ torch.from_numpy(before)).double().numpy()


def lag_features(z: Tensor, lag: int) -> Tensor:
    """Return the features (n, T, f) that a lag adds, for series z (n, T, q).

    Lag 0: a constant, the samples, and the products of their first directions. Other lags: a constant
    and the first directions of the samples in the steps in which the lag reaches before the start, the first
    directions of the samples at that lag, and their products with those of the current samples.
    """
    few = z[..., :PRODUCTS]
    if lag == 0:
        left, right = torch.triu_indices(few.shape[-1], few.shape[-1])
        return torch.cat([torch.ones_like(z[..., :1]), z, few[..., left] * few[..., right]], dim=-1)
    early = torch.zeros_like(z[..., :1])
    early[:, :lag] = 1
    before = torch.zeros_like(few)
    before[:, lag:] = few[:, : max(0, z.shape[1] - lag)]
    products = few[..., :, None] * before[..., None, :]
    return torch.cat([early, early * few, before, products.flatten(-2)], dim=-1)


def lag_width() -> int:
    """Return the largest number of features that a lag adds."""
    return 1 + 2 * PRODUCTS + PRODUCTS**2


def recurrent_features(z: Tensor, seed: int) -> Tensor:
    """Return random features (n, T, f) of all samples so far, for series z (n, T, q).

    They are the units of a random recurrent network, and products of units before a sample with random
    functions of that sample. Their evidence depends on a summary of the past that no window contains.
    """
    z = z[..., :PRODUCTS]
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    recurrent = MEMORY * torch.linalg.qr(random(UNITS, UNITS))[0]
    driven = z @ (0.7 * _directions(z.shape[-1], random)) + random(UNITS)
    gates = torch.tanh(z @ _directions(z.shape[-1], random) + random(UNITS))
    units, state = torch.empty_like(driven), torch.zeros(len(z), UNITS)
    for step in range(z.shape[1]):
        state = torch.tanh(driven[:, step] + state @ recurrent)
        units[:, step] = state
    before = torch.zeros_like(units)
    before[:, 1:] = units[:, :-1]
    products = gates[..., :, None] * before[..., None, :]
    return torch.cat([units, products.flatten(-2)], dim=-1)


def _directions(inputs: int, random: Callable[..., Tensor]) -> Tensor:
    """Return random unit vectors (inputs, UNITS), in blocks of orthogonal ones: these vary less by chance."""
    blocks = [torch.linalg.qr(random(inputs, inputs))[0] for _ in range(-(-UNITS // inputs))]
    return torch.cat(blocks, dim=1)[:, :UNITS]
