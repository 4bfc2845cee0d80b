"""Reading arrays from .npz and .npy files that may be damaged, of another format, or malicious.

Files are never unpickled, so a data file cannot run code. Declared sizes are compared with the size of the
file before memory is allocated.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.datasets.declared import DeclaredSizeError, check_array_header, check_member


def read_npz(path: Path, required: Iterable[str], optional: Iterable[str] = ()) -> dict[str, np.ndarray]:
    """Return the arrays of `path` under the required keys and under the optional keys that are present."""
    required = list(required)
    check_exists(path)
    # Opened here, because numpy does not close a damaged file.
    with path.open("rb") as file:
        magic = file.read(len(np.lib.format.MAGIC_PREFIX))
        if magic == np.lib.format.MAGIC_PREFIX:
            raise ValueError(f"{path} is a single array, not an .npz archive. Rename it to end in _X.npy.")
        file.seek(0)
        archive = _attempt(path, lambda: np.load(file, allow_pickle=False))
        for key in required:
            if key not in archive.files:
                raise ValueError(_missing_key(path, key, archive.files))
        present = [key for key in (*required, *optional) if key in archive.files]
        size = path.stat().st_size
        return {
            key: _attempt(path, partial(_member, archive, key, size), f" under the key {key!r}")
            for key in present
        }


def read_npy(path: Path) -> np.ndarray:
    """Return the array of `path` as a read-only memory map."""
    check_exists(path)
    with path.open("rb") as file:
        if file.read(4) in (b"PK\3\4", b"PK\5\6"):
            raise ValueError(f"{path} is an .npz archive, not a single array. Rename it to end in .npz.")
        file.seek(0)
        _attempt(path, lambda: check_array_header(file, path.stat().st_size))
    return _attempt(path, lambda: np.load(path, mmap_mode="r", allow_pickle=False))


def check_exists(path: Path) -> None:
    """Raise FileNotFoundError unless `path` is a file; the message suggests similar names."""
    if path.is_file():
        return
    if path.is_dir():
        raise FileNotFoundError(f"{path} is a folder, not a file. Pass the path of one of the files in it.")
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{path} does not exist: there is no folder {folder}.")
    near = difflib.get_close_matches(path.name, sorted(p.name for p in folder.iterdir()), n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise FileNotFoundError(f"{path} does not exist.{hint}")


def _member(archive: Any, key: str, size: int) -> np.ndarray:
    """Return one array of an archive of `size` bytes."""
    name = key if key in archive.zip.namelist() else f"{key}.npy"
    check_member(archive.zip, name, size)
    return archive[key]


def _attempt(path: Path, action: Callable[[], Any], where: str = "") -> Any:
    """Call `action` and turn any failure to read `path` into one clear error."""
    try:
        return action()
    except PermissionError:
        raise
    except DeclaredSizeError as error:
        raise ValueError(f"{path} cannot be read{where}: {error}") from None
    except MemoryError as error:
        raise ValueError(
            f"{path} cannot be read{where}: there is not enough memory. Save the series as NAME_X.npy, which "
            "is read piece by piece."
        ) from error
    except Exception as error:  # a damaged file makes zipfile, zlib, tokenize and numpy fail in many ways
        # Numpy's message is replaced, because it suggests allowing pickle, which would let the file run code.
        if any(words in str(error) for words in ("Object arrays", "Python objects")):
            raise ValueError(
                f"{path} holds Python objects{where}. They are not read, because they could run code. Save "
                "arrays of numbers or strings; pad series of unequal length and add `lengths`."
            ) from None
        raise ValueError(
            f"{path} cannot be read{where}: it is damaged, truncated or in another format "
            f"({type(error).__name__}). Copy or write it again."
        ) from error


def _missing_key(path: Path, key: str, present: list[str]) -> str:
    """Return the error message for an archive without `key`."""
    remedy = f"Save the array as {key}=..."
    near = difflib.get_close_matches(key.lower(), [name.lower() for name in present], n=1)
    if f"{key}_train" in present:
        remedy = "It is a train and test split: read it with datasets.load(name)."
    elif near:
        remedy = f"Rename the array {next(name for name in present if name.lower() == near[0])!r} to {key!r}."
    return f"{path} has no array {key!r}; it holds {', '.join(map(repr, present)) or 'nothing'}. {remedy}"
