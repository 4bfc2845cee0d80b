"""The datasets of the archive benchmark: where they are, and their official parts."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stopwise.datasets.registry import DATA_VARIABLE
from stopwise.experiments import nosaic
from stopwise.experiments.real import LEADING, PLANS, Part, part_of, plan, split_of

FOLDER = "archive"  # folder of the archive sets below the folder of the datasets
NOSAIC = "nosaic_mnist"
ARCHIVE = (
    "ArticularyWordRecognition", "ECGMTS", "Epilepsy", "GunPointAgeSpan", "Handwriting", "ItalyPowerDemand",
    "JapaneseVowels", "LSST", "LargeKitchenAppliances", "Libras", "MedicalImages", "MelbournePedestrian",
    "MiddlePhalanxTW", "NATOPS", "OSULeaf", "PLAID", "PenDigits", "Plane", "PowerCons",
    "ProximalPhalanxOutlineCorrect", "RacketSports", "ScreenType", "SmoothSubspace", "SpokenArabicDigits",
    "Strawberry", "SwedishLeaf", "SyntheticControl", "Trace", "TwoPatterns", "UWaveGestureLibrary", "Wafer",
    "WordSynonyms",
)  # fmt: skip
SETS = (*ARCHIVE, *PLANS)


@dataclass(frozen=True)
class Prepared:
    """A dataset with its official parts.

    Parameters
    ----------
    train, test
        The parts; series without padding.
    groups
        (n,) group of each training series, or None.
    classes
        Number of classes K.
    """

    train: Part
    test: Part
    groups: np.ndarray | None
    classes: int

    @property
    def steps(self) -> int:
        """Number of steps of the longest training series."""
        return int(self.train.lengths.max())


def find(name: str) -> Path | None:
    """Return the file of a dataset in the folder of the datasets or in its subfolder; None if there is none.

    The file of "nosaic_mnist" is that of the images it is computed from.
    """
    folder = os.environ.get(DATA_VARIABLE)
    file = f"{'mnist' if name == NOSAIC else name}.npz"
    for place in () if not folder else (Path(folder), Path(folder, FOLDER)):
        if (place / file).is_file():
            return place / file
    return None


def numbers(name: str) -> int:
    """Return the size of the training part, n·T·d numbers, from the header of its file."""
    if name == NOSAIC:
        return nosaic.SERIES * 20 * nosaic.DIM
    path = find(name)
    if path is None:
        raise FileNotFoundError(_missing(name))
    with zipfile.ZipFile(path) as archive, archive.open("X_train.npy") as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape = read(file)[0]
    return int(np.prod(shape)) // plan(name).stride


def prepared(name: str, most: int | None = None, seed: int = 0) -> Prepared:
    """Load a dataset and prepare its series as for figure 4, but with all principal components.

    Figure 4 keeps the leading ones for the sake of the networks.

    Parameters
    ----------
    name
        Name of the dataset.
    most
        Largest number of training series, drawn at random within classes; None: all.
    seed
        Random seed of the draw.
    """
    path = find(name)
    if path is None:
        raise FileNotFoundError(_missing(name))
    own, split = plan(name), split_of(name, path.parent)
    prepare = None if own.prepare == LEADING else own.prepare
    rows = np.arange(len(split.y_train))
    if most is not None and len(rows) > most:
        rows = _draw(split.y_train, most, seed)
    train = part_of(split.X_train, split.y_train, split.lengths_train, rows, own.stride, prepare)
    tested = np.arange(len(split.y_test))
    test = part_of(split.X_test, split.y_test, split.lengths_test, tested, own.stride, prepare)
    groups = None if split.groups_train is None else split.groups_train[rows]
    return Prepared(train, test, groups, len(split.class_names))


def _draw(y: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Return sorted rows, about `most`: the same share of each class, at least two series of it."""
    rng = np.random.default_rng(seed)
    chosen = []
    for k in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == k))
        chosen.append(rows[: max(2, round(len(rows) * most / len(y)))])
    return np.sort(np.concatenate(chosen))


def _missing(name: str) -> str:
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        return f"cannot find {name}.npz: the environment variable {DATA_VARIABLE} is not set."
    return (
        f"there is no {name}.npz in {folder} (the folder given by {DATA_VARIABLE}) or in its folder "
        f"{FOLDER!r}. Get the data, or leave {name} out of --sets."
    )
