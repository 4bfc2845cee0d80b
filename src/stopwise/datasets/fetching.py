"""Downloading datasets from their public URLs."""

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

from stopwise.atomic import atomic_write
from stopwise.datasets.catalog import CATALOG, DatasetInfo, Download, how_to_get
from stopwise.datasets.labeled import to_padded
from stopwise.datasets.registry import DATA_VARIABLE
from stopwise.datasets.ts import read_ts
from stopwise.extras import extra
from stopwise.progress import Reporter
from stopwise.validation import check_choice

TIMEOUT = 60  # seconds to wait for a server


class DownloadError(OSError):
    """Error raised if a dataset cannot be downloaded, or if its content is not the expected one.

    Examples
    --------
    Handlers for `OSError` catch it too:

    >>> issubclass(DownloadError, OSError)
    True
    """


def fetch(name: str, folder: str | os.PathLike[str] | None = None, *, progress: bool | str = "auto") -> Path:
    """Download a dataset and save it as a file that `load` can read.

    This function needs the extra `datasets`. An existing file is kept. The file is written atomically after
    its content has been checked; if anything fails, no file is left behind. `CATALOG` lists the licenses.

    Parameters
    ----------
    name
        A name in `CATALOG`, such as "mnist".
    folder
        Folder to save to, which must exist. If None, the folder given by the environment variable
        STOPWISE_DATA, from which `load` reads.
    progress
        Whether to report progress. True shows a bar on a terminal and prints lines elsewhere; "auto" shows a
        bar on a terminal only; False shows nothing.

    Returns
    -------
    path
        Path of the file, ``<folder>/<name>.npz``.

    Raises
    ------
    DownloadError
        If a server does not answer, or the content is not the expected one.
    ValueError
        If `name` is not in `CATALOG`, or the dataset cannot be downloaded automatically. The message says
        how to obtain it.
    FileNotFoundError
        If the folder does not exist, or `folder` is None and STOPWISE_DATA is not set.

    Examples
    --------
    >>> fetch("mnist", folder="data")  # doctest: +SKIP
    PosixPath('data/mnist.npz')

    Some datasets have no public URL:

    >>> fetch("uci_hapt", folder=".")
    Traceback (most recent call last):
    ...
    ValueError: `name`: uci_hapt cannot be downloaded automatically. uci_hapt: acceleration and ...
    """
    check_choice("name", name, CATALOG)
    info = CATALOG[name]
    if not info.downloads:
        raise ValueError(f"`name`: {name} cannot be downloaded automatically. {how_to_get(name)}")
    path = _folder(folder) / f"{name}.npz"
    if path.is_file():
        return path
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=path.parent) as temporary_folder:
        files = []
        with Reporter(f"downloading {name}", len(info.downloads), progress) as reporter:
            for number, download in enumerate(info.downloads):
                files.append(_download(download, Path(temporary_folder) / f"{number}.part"))
                reporter.advance()
        try:
            arrays: dict[str, Any] = _idx_arrays(files) if info.file_format == "idx" else _ts_arrays(files[0])
            _check_counts(arrays, info)
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            urls = ", ".join(download.url for download in info.downloads)
            reason = str(error).replace(f"{temporary_folder}{os.sep}", "")
            raise DownloadError(
                f"the content of {urls} is not the expected dataset {name}: {reason} Nothing was saved."
            ) from error
        with atomic_write(path) as [temporary]:
            np.savez_compressed(temporary, **arrays)
    return path


def _folder(folder: str | os.PathLike[str] | None) -> Path:
    """Return the folder to save to."""
    target = os.environ.get(DATA_VARIABLE) if folder is None else folder
    if not target:
        raise FileNotFoundError(
            f"`folder` is None and the environment variable {DATA_VARIABLE} is not set. Pass `folder`, or "
            "set the variable to the folder of the datasets."
        )
    if not Path(target).is_dir():
        raise FileNotFoundError(f"there is no folder {os.fspath(target)!r} to save to. Create it first.")
    return Path(target)


def _download(download: Download, target: Path) -> Path:
    """Download one file and verify its checksum."""
    with extra("datasets", "fetch"):
        import pooch
        import requests
    downloader = pooch.HTTPDownloader(timeout=TIMEOUT, chunk_size=2**16)
    try:
        with _quiet(pooch.get_logger()):
            pooch.retrieve(download.url, download.checksum, target.name, target.parent, downloader=downloader)
    except requests.RequestException as error:
        raise DownloadError(
            f"could not download {download.url}: {error}. Nothing was saved; check the connection and try "
            "again."
        ) from error
    except ValueError as error:
        if "hash" not in str(error):
            raise
        raise DownloadError(
            f"the file at {download.url} does not match its checksum {download.checksum}: it is damaged or "
            "was changed. Nothing was saved; try again later."
        ) from error
    return target


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Suppress the messages of a library."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _idx_arrays(files: list[Path]) -> dict[str, np.ndarray]:
    """Return the arrays of a dataset from the four files of MNIST."""
    X_train, y_train, X_test, y_test = (read_idx(gzip.decompress(path.read_bytes())) for path in files)
    labels = {"y_train": y_train.astype(np.int64), "y_test": y_test.astype(np.int64)}
    names = np.array([str(k) for k in range(int(y_train.max()) + 1)])
    return {"X_train": X_train, "X_test": X_test, **labels, "class_names": names}


def read_idx(data: bytes) -> np.ndarray:
    """Return the uint8 array of a file in the idx format of MNIST.

    Examples
    --------
    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1])).tolist()
    [7, 2, 1]
    """
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError("not an idx file with dtype uint8.")
    ndim = data[3]
    shape = np.frombuffer(data, ">i4", ndim, offset=4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * ndim)
    size = int(shape.prod(dtype=np.int64))
    if values.size != size:
        raise ValueError(
            f"an idx file of shape {tuple(shape.tolist())} must hold {size} values; got {values.size}."
        )
    return values.reshape(shape)


def _ts_arrays(archive: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a dataset from a zip file with one file ..._TRAIN.ts and one file ..._TEST.ts."""
    arrays: dict[str, np.ndarray] = {}
    labels: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(archive) as packed:
        for part in ("train", "test"):
            names = [name for name in packed.namelist() if name.endswith(f"_{part.upper()}.ts")]
            if len(names) != 1:
                raise ValueError(f"the archive has {len(names)} files ..._{part.upper()}.ts; expected one.")
            file = archive.with_name(f"{part}.ts")
            file.write_bytes(packed.read(names[0]))  # names in the archive are not used as paths
            data = read_ts(file)
            if data.y is None:
                raise ValueError(f"{file.name} has no labels.")
            X, lengths = to_padded(data.X)
            arrays[f"X_{part}"] = X.astype(np.float32)
            if lengths is not None:
                arrays[f"len_{part}"] = lengths
            labels[part] = data.y
    classes = np.unique(labels["train"])
    if not np.isin(labels["test"], classes).all():
        raise ValueError("the test part has classes that are not in the training part.")
    for part, own in labels.items():
        arrays[f"y_{part}"] = np.searchsorted(classes, own)
    return arrays | {"class_names": classes.astype(str)}


def _check_counts(arrays: dict[str, np.ndarray], info: DatasetInfo) -> None:
    """Raise an error if the number of series is not the expected one."""
    for part, expected in zip(("train", "test"), info.counts or ()):
        sizes = len(arrays[f"X_{part}"]), len(arrays[f"y_{part}"])
        if sizes != (expected, expected):
            raise ValueError(f"expected {expected} {part} series and labels; got {sizes[0]} and {sizes[1]}.")
