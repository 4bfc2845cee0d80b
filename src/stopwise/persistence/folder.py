"""Model folders: a readable `model.json`, the weights, and what is known of the training series.

The latter are files of their own that can be left out: fingerprints of the series, and held-out scores.

The names of the files that `model.json` refers to contain a hash of their content. A save writes them first
and then replaces `model.json` atomically. So the folder holds a complete model at any time, even if a save is
killed. A lock makes saves of several processes wait for each other; loads need no lock. `model.json` holds
the hashes of the other files and a hash of its own content, so any change of the folder is detected. Loading
only reads numbers and text and cannot run code.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from stopwise.atomic import leftover_pattern, remove_leftovers, write_durably
from stopwise.locking import LOCK, exclusive
from stopwise.persistence import tensors as files
from stopwise.persistence.digests import digest_file, digest_json

FORMAT = "stopwise-model"
FORMAT_VERSION = 3
ABOUT = "model.json"
DIGEST = "sha256"
SUFFIXES = {"weights": ".safetensors", "fingerprints": ".txt", "held_out": ".safetensors"}
PART_NAMES = "|".join(rf"{kind}-[0-9a-f]{{16}}{re.escape(end)}" for kind, end in SUFFIXES.items())
# Parsed JSON takes many times the memory of its text.
MOST_BYTES = {ABOUT: 1 << 28, "fingerprints": 1 << 24}
# How often a load starts over because another process has replaced the model.
MOST_TRIES = 100
SAME_TRIES = 4  # if model.json did not change; an equal model may have been saved again


class ModelFolderError(ValueError):
    """A model folder is damaged, incomplete or not written by stopwise."""


class _MissingPartError(ModelFolderError):
    """A file is missing, which can be the case because another process has just replaced the model."""


class Stored(NamedTuple):
    """Content of a model folder.

    Parameters
    ----------
    tensors
        Tensors of the model.
    about
        Description, the content of `model.json`.
    fingerprints
        Fingerprints of the training series as text; None if they were not saved.
    held_out
        Held-out scores of the training series, as tensors by name; None if they were not saved.
    """

    tensors: dict[str, Tensor]
    about: dict[str, Any]
    fingerprints: str | None
    held_out: dict[str, Tensor] | None


def versions() -> dict[str, str]:
    """Return the versions of stopwise, torch, numpy and Python.

    Examples
    --------
    >>> sorted(versions())
    ['numpy', 'python', 'stopwise', 'torch']
    """
    return {
        "stopwise": version("stopwise"),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def save_model(
    folder: str | Path,
    tensors: Mapping[str, Tensor | np.ndarray],
    about: dict[str, Any],
    fingerprints: str | None = None,
    held_out: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write a model to `folder`, and replace the model that is there, if any.

    If the save fails, the previous model stays. If several processes save at a time, the last one wins.
    """
    folder = Path(folder)
    _check_target(folder)
    parts = {"weights": files.pack(tensors, {"kind": "weights"})}
    if fingerprints is not None:
        parts["fingerprints"] = fingerprints.encode()
    if held_out is not None:
        parts["held_out"] = files.pack(held_out, {"kind": "held_out"})
    hashes = {kind: hashlib.sha256(data).hexdigest() for kind, data in parts.items()}
    names = {kind: f"{kind}-{digest[:16]}{SUFFIXES[kind]}" for kind, digest in hashes.items()}
    text = _sealed(about, {kind: {"file": names[kind], DIGEST: hashes[kind]} for kind in parts})
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder):
        try:
            for kind, data in parts.items():
                write_durably(folder / names[kind], data)
            _flush(folder)
            write_durably(folder / ABOUT, text)
            _flush(folder)
        finally:
            _sweep(folder)


def load_model(folder: str | Path) -> Stored:
    """Return what `save_model` wrote.

    If another process replaces the model in the meantime, the new model is loaded.
    """
    folder = Path(folder)
    same = 0
    for _ in range(MOST_TRIES):
        text = _about_bytes(folder)
        about = _parsed(folder, text)
        try:
            return _load(folder, about)
        except _MissingPartError:
            same += _about_bytes(folder) == text
            if same == SAME_TRIES:
                raise
            time.sleep(0.001 * same)
    raise ModelFolderError(
        f"{folder} was replaced {MOST_TRIES} times while it was read. Load it when no process saves to it."
    )


def _load(folder: Path, about: dict[str, Any]) -> Stored:
    stored = about.get("files")
    if not isinstance(stored, dict) or not {"weights"} <= stored.keys() <= SUFFIXES.keys():
        raise ModelFolderError(f"{folder / ABOUT} is damaged: it does not name the weights file.")
    data = {kind: _part(folder, kind, entry) for kind, entry in stored.items()}
    tensors = _unpacked(data["weights"], folder / stored["weights"]["file"])
    held_out = None
    if "held_out" in data:
        held_out = _unpacked(data["held_out"], folder / stored["held_out"]["file"])
    seen = data.get("fingerprints")
    return Stored(tensors, about, None if seen is None else seen.decode("ascii", "replace"), held_out)


def _unpacked(data: bytes, path: Path) -> dict[str, Tensor]:
    try:
        return files.unpack(data, path)[0]
    except files.TensorFileError as error:
        raise ModelFolderError(str(error)) from error


def _parsed(folder: Path, text: bytes) -> dict[str, Any]:
    """Return the content of `model.json`; raise an error if it is damaged or of another format."""
    try:
        about = json.loads(text.decode("utf-8"), parse_constant=_no_constant)
        digest = digest_json(_unsealed(about))
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{folder / ABOUT} is damaged: {error}. Save the model again.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ModelFolderError(f"{folder / ABOUT} was not written by stopwise.")
    if about.get("format_version") != FORMAT_VERSION:
        raise ModelFolderError(
            f"{folder / ABOUT} has format version {about.get('format_version')!r:.50}; this stopwise reads "
            f"version {FORMAT_VERSION}. Train the model again, or use the stopwise that wrote it "
            f"({about.get('versions')!r:.200})."
        )
    if about.get(DIGEST) != digest:
        raise ModelFolderError(
            f"{folder / ABOUT} is damaged or was edited: its checksum differs. Save the model again; to "
            "change a model, load it, change it in Python and save it."
        )
    return about


def _unsealed(about: Any) -> Any:
    """Return what the hash in `model.json` covers: everything else."""
    return {k: v for k, v in about.items() if k != DIGEST} if isinstance(about, dict) else about


def _part(folder: Path, kind: str, entry: Any) -> bytes:
    """Return the content of a file that `model.json` refers to; check its hash."""
    name, digest = (entry.get("file"), entry.get(DIGEST)) if isinstance(entry, dict) else (None, None)
    if not isinstance(digest, str) or name != f"{kind}-{digest[:16]}{SUFFIXES[kind]}" or not _named(name):
        raise ModelFolderError(f"{folder / ABOUT} is damaged: it does not name the {kind} file.")
    if not (folder / name).is_file():
        raise _MissingPartError(f"{folder} is incomplete: {name} is missing. Save the model again.")
    data = _content(folder / name, MOST_BYTES.get(kind))
    if hashlib.sha256(data).hexdigest() != digest:
        raise ModelFolderError(
            f"{folder / name} is damaged: its checksum differs from {ABOUT}. Save the model again."
        )
    return data


def _about_bytes(folder: Path) -> bytes:
    try:
        there = (folder / ABOUT).is_file()
    except (OSError, ValueError) as error:  # such as a name that is too long
        raise ModelFolderError(f"`path` must be a folder; got {str(folder)!r:.100} ({error}).") from error
    if not there:
        raise FileNotFoundError(f"No stopwise model at {folder}: {ABOUT} is missing.")
    return _content(folder / ABOUT, MOST_BYTES[ABOUT])


def _content(path: Path, most: int | None) -> bytes:
    """Return the content of a file, at most `most` bytes."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if most is not None and size > most:
                raise ModelFolderError(f"{path} must have at most {most} bytes; it has {size}.")
            return file.read()
    except FileNotFoundError as error:
        raise _MissingPartError(f"{path} is missing. Save the model again.") from error
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or "not enough memory"
        raise ModelFolderError(f"{path} cannot be read: {reason}.") from error


def _check_target(folder: Path) -> None:
    """Raise an error if `folder` is a file or holds files of others and no model."""
    if folder.exists() and not folder.is_dir():
        raise ModelFolderError(f"`path` must be a folder; {folder} is a file. Choose another path.")
    ours = re.compile(f"{re.escape(LOCK)}|{PART_NAMES}|{leftover_pattern(_ALL_NAMES)}")
    foreign = folder.is_dir() and any(not ours.fullmatch(file.name) for file in folder.iterdir())
    if foreign and not (folder / ABOUT).exists():
        raise ModelFolderError(
            f"`path` must be a new or empty folder or hold a stopwise model; {folder} holds other files."
        )


_ALL_NAMES = f"{re.escape(ABOUT)}|{PART_NAMES}"


def _named(name: str) -> bool:
    return re.fullmatch(PART_NAMES, name) is not None


def _sealed(about: dict[str, Any], parts: dict[str, Any]) -> bytes:
    """Return the content of `model.json`, with its hash."""
    head = {"format": FORMAT, "format_version": FORMAT_VERSION}
    values = {**head, "versions": versions(), "files": parts, **about}
    # As it will be read: numpy numbers and tuples become JSON values.
    plain = json.loads(json.dumps(values, allow_nan=False, default=_plain))
    text = json.dumps({**head, DIGEST: digest_json(plain), **plain}, indent=2) + "\n"
    if len(text) > MOST_BYTES[ABOUT]:
        raise ModelFolderError(
            f"the description of the model must have at most {MOST_BYTES[ABOUT]} bytes; it has {len(text)}. "
            "Use a smaller stopping rule."
        )
    return text.encode()


def _sweep(folder: Path) -> None:
    """Delete files of earlier or failed saves: those that `model.json` does not refer to.

    Only files that this module wrote: their names contain the hash of their content.
    """
    named = set()
    if (folder / ABOUT).exists():
        try:
            stored = json.loads((folder / ABOUT).read_text(encoding="utf-8"))["files"]
            named = {entry["file"] for entry in stored.values()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return  # model.json is damaged: delete nothing
    remove_leftovers(folder, _ALL_NAMES)
    for file in [file for file in folder.iterdir() if _named(file.name) and file.name not in named]:
        with suppress(OSError):  # a leftover file must not fail the save
            if file.is_file() and digest_file(file)[:16] == file.stem.rpartition("-")[2]:
                file.unlink()


def _flush(folder: Path) -> None:
    """Flush the names of files to disk, so that they survive a power failure in the order of the writes."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot flush a folder
            raise
    finally:
        os.close(descriptor)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _plain(value: Any) -> Any:
    """Convert a numpy scalar to a Python number, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} ({type(value).__name__}) cannot be written as JSON.")
