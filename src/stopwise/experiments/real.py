"""The real datasets of figure 4: their preparation and the number of training epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.datasets import Split, japanese_vowels, load

VALIDATION_SEED = 0
VALIDATION_SHARE = 0.2
HIP = slice(9, 12)  # the hip center of a Kinect skeleton with 20 joints


@dataclass(frozen=True)
class Plan:
    """How a dataset is prepared, and how long every model is trained on it.

    Parameters
    ----------
    epochs
        Number of epochs; the best one is chosen on validation series.
    batch_size
        Number of series per training step.
    stride
        Every `stride`-th sample is kept, because sensors are often faster than the process they observe.
    prepare
        Transformation of the samples (n, T, D), the same for every model: a name in `PREPARATIONS`.
    standardize
        Whether each channel is scaled to standard deviation 1. It is False for principal components: the last
        ones, which are mostly noise, would become as large as the first.
    """

    epochs: int = 20
    batch_size: int = 50
    stride: int = 1
    prepare: str | None = None
    standardize: bool = True


def from_hip(X: np.ndarray) -> np.ndarray:
    """Return skeletons (n, T, 60) relative to the hip center, which removes the position of the person."""
    joints = X.reshape(*X.shape[:2], 20, 3)
    return (joints - X[:, :, None, HIP]).reshape(X.shape)


def leading_64(X: np.ndarray) -> np.ndarray:
    """Return the first 64 of 256 principal components and all channels after them, (n, T, 64 + rest)."""
    return np.concatenate([X[..., :64], X[..., 256:]], axis=-1)


LEADING = "leading_64"
PREPARATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"from_hip": from_hip, LEADING: leading_64}
PLANS = {
    "nosaic_mnist": Plan(epochs=10, batch_size=100),
    "ucf101_14_vgg16": Plan(prepare=LEADING, standardize=False),
    "jhmdb21": Plan(prepare=LEADING, standardize=False),
    "uci_hapt": Plan(epochs=8, batch_size=100, stride=4),
    "utd_mhad_skeleton": Plan(epochs=40, stride=3, prepare="from_hip"),
    "ucr_electricdevices": Plan(epochs=12, batch_size=100, stride=2),
    "ucr_ecg5000": Plan(epochs=25, stride=4),
    "physionet2012": Plan(epochs=15, batch_size=100),
}


@dataclass(frozen=True)
class Part:
    """Series and class indices of one part of a dataset."""

    X: Any  # (n, T, D), or a list of (T_i, D)
    y: np.ndarray  # (n,)

    @property
    def lengths(self) -> np.ndarray:
        """(n,) number of steps of each series."""
        return np.array([len(x) for x in self.X])


@dataclass(frozen=True)
class Ready:
    """A prepared dataset: training, validation and test part."""

    train: Part
    validation: Part
    test: Part
    classes: int

    @property
    def steps(self) -> int:
        """Number of steps of the longest training series."""
        return max(len(x) for x in self.train.X)


def plan(name: str) -> Plan:
    """Return the plan of a dataset, or the default plan if it is not in `PLANS`.

    Examples
    --------
    >>> plan("uci_hapt").stride
    4
    >>> plan("my_dataset").stride
    1
    """
    return PLANS.get(name, Plan())


@lru_cache(maxsize=1)
def ready(name: str, most: int | None = None, stride: int = 1, prepare: str | None = None) -> Ready:
    """Load and prepare a dataset.

    Parameters
    ----------
    name
        As for `stopwise.datasets.load`; or "nosaic_mnist", which is computed from "mnist", or
        "japanese_vowels", which ships with stopwise.
    most
        Largest number of series in each part; larger parts are subsampled at random. If None, there is no
        limit.
    stride, prepare
        As in `Plan`.
    """
    split = split_of(name)
    rows, held = split.validation(VALIDATION_SHARE, seed=VALIDATION_SEED)
    tested = np.arange(len(split.y_test))
    rng = np.random.default_rng(VALIDATION_SEED)
    if most is not None:
        rows, held, tested = (np.sort(rng.permutation(part)[:most]) for part in (rows, held, tested))
    train = (split.X_train, split.y_train, split.lengths_train)
    test = (split.X_test, split.y_test, split.lengths_test)
    return Ready(
        part_of(*train, rows, stride, prepare),
        part_of(*train, held, stride, prepare),
        part_of(*test, tested, stride, prepare),
        len(split.class_names),
    )


def part_of(
    X: np.ndarray,
    y: np.ndarray,
    lengths: np.ndarray | None,
    chosen: np.ndarray,
    stride: int = 1,
    prepare: str | None = None,
) -> Part:
    """Return the chosen series: prepared, subsampled, and without padding.

    Parameters
    ----------
    X, y, lengths
        Series (n, T, ...), class indices (n,) and lengths (n,), None if all are T.
    chosen
        Rows of the series to return.
    stride, prepare
        As in `Plan`.
    """
    samples = np.asarray(X[chosen], dtype=np.float32).reshape(len(chosen), X.shape[1], -1)
    if prepare is not None:
        samples = PREPARATIONS[prepare](samples)
    samples = np.ascontiguousarray(samples[:, ::stride])
    if lengths is None:
        return Part(samples, y[chosen])
    ends = -(-lengths[chosen] // stride)
    return Part([series[:end] for series, end in zip(samples, ends)], y[chosen])


def split_of(name: str, folder: Path | None = None) -> Split:
    """Return a dataset as stored, or one of `OWN`."""
    return OWN[name]() if name in OWN else load(name, folder)


def _nosaic() -> Split:
    """Return the features of Nosaic MNIST; see `stopwise.experiments.nosaic`."""
    from stopwise.experiments.nosaic import features

    return features()


def _vowels() -> Split:
    """Return Japanese Vowels, padded at the end."""
    train, test = japanese_vowels()
    names = np.unique(np.asarray(train.y))
    steps = max(len(x) for part in (train, test) for x in list(part.X))  # type: ignore[arg-type]
    padded, labels, lengths = [], [], []
    for part in (train, test):
        series: list[np.ndarray] = list(part.X)  # type: ignore[arg-type]
        padded.append(np.stack([np.pad(x, ((0, steps - len(x)), (0, 0))) for x in series]))
        labels.append(np.searchsorted(names, np.asarray(part.y)))
        lengths.append(np.array([len(x) for x in series]))
    return Split(
        padded[0], labels[0], padded[1], labels[1], tuple(names.tolist()), lengths[0], lengths[1], None
    )


OWN: dict[str, Callable[[], Split]] = {"nosaic_mnist": _nosaic, "japanese_vowels": _vowels}
