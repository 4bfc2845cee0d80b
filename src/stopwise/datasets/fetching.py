"""Getting a known data set from its public address."""

from __future__ import annotations

import gzip
import logging
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.atomic import written_aside
from stopwise.datasets.catalogue import CATALOGUE, Download, KnownSet, how_to_get
from stopwise.datasets.labelled import to_padded
from stopwise.datasets.registry import VARIABLE
from stopwise.datasets.ts import read_ts
from stopwise.progress import Reporter
from stopwise.validation import check_choice

SECONDS = 60  # of silence before a server is given up


class DownloadError(OSError):
    """A file that could not be fetched, or was not what it should be."""


def fetch(name: str, folder: str | os.PathLike[str] | None = None, *, progress: bool | str = "auto") -> Path:
    """Download a known data set and save it where, and as, `load` reads it.

    Needs the extra `datasets`. A set that is there already is left as it is. The file appears when it is
    whole and checked; if anything fails, nothing is left behind. Mind the terms of the set: see `CATALOGUE`.

    Parameters
    ----------
    name
        The set, such as "mnist".
    folder
        Where to; None: the folder that the environment variable STOPWISE_DATA names.
    progress
        True: a bar on a terminal, lines elsewhere; False: nothing; "auto": a bar on a terminal only.

    Returns
    -------
    path
        The file, ``<folder>/<name>.npz``.

    Raises
    ------
    DownloadError
        When an address does not answer, or what it gives is not what it should be.

    Examples
    --------
    >>> fetch("uci_hapt", folder=".")
    Traceback (most recent call last):
    ...
    ValueError: `name`: uci_hapt cannot be downloaded by itself. uci_hapt is: acceleration and ...
    """
    check_choice("name", name, CATALOGUE)
    known = CATALOGUE[name]
    if not known.downloads:
        raise ValueError(f"`name`: {name} cannot be downloaded by itself. {how_to_get(name)}")
    path = _folder(folder) / f"{name}.npz"
    if path.is_file():
        return path
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=path.parent) as place:
        files = []
        with Reporter(f"downloading {name}", len(known.downloads), progress) as reporter:
            for number, download in enumerate(known.downloads):
                files.append(_download(download, Path(place) / f"{number}.part"))
                reporter.advance()
        try:
            arrays: dict[str, Any] = _idx_arrays(files) if known.layout == "idx" else _ts_arrays(files[0])
            _check_counts(arrays, known)
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            addresses = ", ".join(download.address for download in known.downloads)
            reason = str(error).replace(f"{place}{os.sep}", "")
            raise DownloadError(
                f"what came from {addresses} is not {name} as it is known: {reason} Nothing was saved."
            ) from error
        with written_aside(path) as [aside]:
            np.savez_compressed(aside, **arrays)
    return path


def _folder(folder: str | os.PathLike[str] | None) -> Path:
    """Return the folder to save in."""
    place = os.environ.get(VARIABLE) if folder is None else folder
    if not place:
        raise FileNotFoundError(
            f"`folder` is not given and the environment variable {VARIABLE} is not set. Set it to the folder "
            "that holds the data sets."
        )
    if not Path(place).is_dir():
        raise FileNotFoundError(f"there is no folder {os.fspath(place)!r} to save to. Make it first.")
    return Path(place)


def _download(download: Download, target: Path) -> Path:
    """Fetch one file and check its checksum."""
    try:
        import pooch
        import requests
    except ImportError as error:
        raise ImportError("fetch needs pooch: pip install 'stopwise[datasets]'.") from error
    downloader = pooch.HTTPDownloader(timeout=SECONDS, chunk_size=2**16)
    try:
        with _quiet(pooch.get_logger()):
            pooch.retrieve(
                download.address, download.checksum, target.name, target.parent, downloader=downloader
            )
    except requests.RequestException as error:
        raise DownloadError(
            f"could not get {download.address}: {error}. Nothing was saved; check the connection, and try "
            "again."
        ) from error
    except ValueError as error:
        if "hash" not in str(error):
            raise
        raise DownloadError(
            f"{download.address} gave a file that does not match its checksum {download.checksum}: it is "
            "damaged, or not the one that is known. Nothing was saved; try again later."
        ) from error
    return target


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Hold a library's messages back: we have our own."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _idx_arrays(files: list[Path]) -> dict[str, np.ndarray]:
    """Return the arrays of a set from MNIST's four files."""
    X_train, y_train, X_test, y_test = (read_idx(gzip.decompress(path.read_bytes())) for path in files)
    labels = {"y_train": y_train.astype(np.int64), "y_test": y_test.astype(np.int64)}
    names = np.array([str(k) for k in range(int(y_train.max()) + 1)])
    return {"X_train": X_train, "X_test": X_test, **labels, "class_names": names}


def read_idx(data: bytes) -> np.ndarray:
    """Return the uint8 array of a file in MNIST's idx format.

    Examples
    --------
    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1])).tolist()
    [7, 2, 1]
    """
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError("not an idx file of bytes.")
    dims = data[3]
    shape = np.frombuffer(data, ">i4", dims, offset=4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * dims)
    if values.size != shape.prod(dtype=np.int64):
        raise ValueError(f"an idx file for shape {tuple(shape.tolist())} holds {values.size} values.")
    return values.reshape(shape)


def _ts_arrays(archive: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a set from a zip that holds a file ..._TRAIN.ts and a file ..._TEST.ts."""
    arrays: dict[str, np.ndarray] = {}
    labels: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(archive) as packed:
        for side in ("train", "test"):
            names = [name for name in packed.namelist() if name.endswith(f"_{side.upper()}.ts")]
            if len(names) != 1:
                raise ValueError(f"the archive has {len(names)} files ..._{side.upper()}.ts, not one.")
            file = archive.with_name(f"{side}.ts")
            file.write_bytes(packed.read(names[0]))  # never under a name that the archive chose
            data = read_ts(file)
            if data.y is None:
                raise ValueError(f"{file.name} has no labels.")
            X, lengths = to_padded(data.X)
            arrays[f"X_{side}"] = X.astype(np.float32)
            if lengths is not None:
                arrays[f"len_{side}"] = lengths
            labels[side] = data.y
    classes = np.unique(labels["train"])
    if not np.isin(labels["test"], classes).all():
        raise ValueError("the test part has classes that the training part has not.")
    for side, own in labels.items():
        arrays[f"y_{side}"] = np.searchsorted(classes, own)
    return arrays | {"class_names": classes.astype(str)}


def _check_counts(arrays: dict[str, np.ndarray], known: KnownSet) -> None:
    """Refuse a set of other numbers of series than are known."""
    for side, wanted in zip(("train", "test"), known.counts or ()):
        sizes = len(arrays[f"X_{side}"]), len(arrays[f"y_{side}"])
        if sizes != (wanted, wanted):
            raise ValueError(f"expected {wanted} {side} series and labels; got {sizes[0]} and {sizes[1]}.")
