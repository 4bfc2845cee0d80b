"""Real datasets with a train and test split, in the folder given by $STOPWISE_DATA."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stopwise.data.holdout import hold_out
from stopwise.datasets.catalog import CATALOG, how_to_get
from stopwise.datasets.npz import read_npz
from stopwise.validation import check_class_indices, check_lengths

DATA_VARIABLE = "STOPWISE_DATA"
_GROUP_KEYS = ("subject_train", "group_train", "speaker_train")


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """A dataset with its training and test parts.

    Parameters
    ----------
    X_train, X_test
        (n, T, ...) series as stored, padded at the end if lengths vary.
    y_train, y_test
        (n,) class indices.
    class_names
        The K names of the classes.
    lengths_train, lengths_test
        (n,) numbers of steps, or None if all series have T steps.
    groups_train
        (n,) the subject or recording that each training series comes from, or None. A validation part must
        be split off by group, as `validation` does; otherwise information leaks into it.

    Examples
    --------
    >>> X, y = np.zeros((6, 20, 3)), np.array([0, 1, 2, 0, 1, 2])
    >>> Split(X, y, X[:3], y[:3], ("sit", "walk", "run"), None, None, None)
    Split(6 train, 3 test, X (n, 20, 3), 3 classes)
    """

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    class_names: tuple[str, ...]
    lengths_train: np.ndarray | None
    lengths_test: np.ndarray | None
    groups_train: np.ndarray | None

    def validation(self, fraction: float = 0.2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Split the training part into rows to train on and rows to hold out for validation.

        The split is by group if the dataset has groups, else stratified by class. Every class remains in
        the rows to train on. See `hold_out`.

        Parameters
        ----------
        fraction
            Fraction of the training series to hold out, in (0, 1).
        seed
            Seed of the random split.

        Returns
        -------
        train, held
            Sorted row indices of the two parts.

        Examples
        --------
        >>> X, y = np.zeros((6, 20, 3)), np.array([0, 1, 0, 1, 0, 1])
        >>> split = Split(X, y, X, y, ("sit", "walk"), None, None, np.array([1, 1, 2, 2, 3, 3]))
        >>> train, held = split.validation(0.33)
        >>> sorted(set(split.groups_train[train]) & set(split.groups_train[held]))
        []
        """
        return hold_out(self.y_train, self.groups_train, fraction=fraction, seed=seed)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.X_train.shape[1:]))
        return (
            f"Split({len(self.y_train)} train, {len(self.y_test)} test, X (n, {shape}), "
            f"{len(self.class_names)} classes)"
        )


def load(name: str, folder: str | Path | None = None) -> Split:
    """Load the dataset `name` from a folder, by default that of the environment variable STOPWISE_DATA.

    Parameters
    ----------
    name
        Name of the dataset. The file is ``$STOPWISE_DATA/<name>.npz`` with the arrays X_train, y_train,
        X_test, y_test and, optionally, len_train, len_test, class_names, and subject_train, group_train or
        speaker_train.
    folder
        Folder of the file. None: the folder given by STOPWISE_DATA.

    Returns
    -------
    split
        The dataset as a `Split`.

    Raises
    ------
    FileNotFoundError
        If the variable is not set, or the folder or the file does not exist. The message lists the datasets
        in the folder and, for a name in `CATALOG`, says how to obtain the dataset.
    ValueError
        If `name` is not a valid name, the file is damaged, or its arrays are inconsistent.

    Examples
    --------
    >>> import tempfile
    >>> from unittest import mock
    >>> folder = tempfile.mkdtemp()
    >>> X, y = np.zeros((4, 10, 2), np.float32), np.array([0, 1, 0, 1])
    >>> np.savez(Path(folder, "toy.npz"), X_train=X, y_train=y, X_test=X, y_test=y)
    >>> with mock.patch.dict(os.environ, STOPWISE_DATA=folder):
    ...     load("toy")
    Split(4 train, 4 test, X (n, 10, 2), 2 classes)
    """
    path = _find(name, folder)
    optional = ["len_train", "len_test", "class_names", *_GROUP_KEYS]
    arrays = read_npz(path, ["X_train", "y_train", "X_test", "y_test"], optional)
    try:
        return _split(arrays)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def _find(name: str, given: str | Path | None = None) -> Path:
    """Return the path of the dataset `name`."""
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise ValueError(
            f"`name` must be the name of a dataset without a folder, such as 'uci_hapt'; got {name!r}."
        )
    name = name.removesuffix(".npz")
    value = os.environ.get(DATA_VARIABLE) if given is None else str(given)
    source = DATA_VARIABLE if given is None else "`folder`"
    if not value:
        raise FileNotFoundError(
            f"cannot find {name}.npz: the environment variable {DATA_VARIABLE} is not set. "
            f"Set it to the folder of the datasets. {how_to_get(name)}".rstrip()
        )
    folder = Path(value)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"cannot find {name}.npz: {source} is {value!r}, which is not a folder. "
            f"Set {'the variable' if given is None else 'it'} to an existing folder."
        )
    path = folder / f"{name}.npz"
    if not path.is_file():
        present = sorted(file.stem for file in folder.glob("*.npz"))
        near = [] if name in CATALOG else difflib.get_close_matches(name, {*present, *CATALOG}, n=3)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise FileNotFoundError(
            f"there is no {name}.npz in {folder} (the folder given by {source}); "
            f"it holds: {', '.join(present) or 'no datasets'}.{hint} {how_to_get(name)}".rstrip()
        )
    return path


def _split(arrays: dict[str, np.ndarray]) -> Split:
    """Return the arrays as a `Split` after checking that they are consistent."""
    names = arrays.get("class_names")
    classes = int(arrays["y_train"].max(initial=0)) + 1 if names is None else len(names)
    X_train, y_train, lengths_train = _part(arrays, "train", classes)
    X_test, y_test, lengths_test = _part(arrays, "test", classes)
    if X_train.shape[2:] != X_test.shape[2:]:
        raise ValueError(
            f"training and test series differ in channels: X has shapes {X_train.shape} and {X_test.shape}."
        )
    groups = next((arrays[key] for key in _GROUP_KEYS if key in arrays), None)
    if groups is not None and groups.shape != y_train.shape:
        raise ValueError(f"there must be one group per training series; got shape {groups.shape}.")
    class_names = tuple(map(str, range(classes) if names is None else names))
    return Split(X_train, y_train, X_test, y_test, class_names, lengths_train, lengths_test, groups)


def _part(
    arrays: dict[str, np.ndarray], part: str, classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the series, labels and lengths of one part of the split."""
    X, lengths = arrays[f"X_{part}"], arrays.get(f"len_{part}")
    if X.ndim < 2 or 0 in X.shape:
        raise ValueError(f"`X_{part}` must have shape (n, T, ...), none of them 0; got shape {X.shape}.")
    y = check_class_indices(arrays[f"y_{part}"], len(X), classes, name=f"y_{part}")
    return X, y, None if lengths is None else check_lengths(lengths, *X.shape[:2])
