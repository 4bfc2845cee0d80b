"""Model folders: a readable `model.json` and the weights as a safetensors file.

The name of the weights file contains a hash of its content. A save writes the weights first and then replaces
`model.json`, which refers to them, atomically. So the folder holds a complete model at any time, even if a
save is killed. Loading only reads numbers and text and cannot run code.
"""

from __future__ import annotations

import json
import os
import platform
import re
from contextlib import suppress
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stopwise.atomic import write_durably
from stopwise.persistence import tensors as files
from stopwise.persistence.digests import digest_file

FORMAT = "stopwise-model"
FORMAT_VERSION = 2
ABOUT = "model.json"


class ModelFolderError(ValueError):
    """A model folder is damaged, incomplete or not written by stopwise."""


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


def save_model(folder: str | Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write a model to `folder`, and replace the model that is there, if any.

    If the save fails, the previous model stays. Only one process at a time may write to a folder.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ModelFolderError(f"`path` must be a folder; {folder} is a file. Choose another path.")
    foreign = folder.is_dir() and any(not _is_ours(file.name) for file in folder.iterdir())
    if foreign and not (folder / ABOUT).exists():
        raise ModelFolderError(
            f"`path` must be a new or empty folder or hold a stopwise model; {folder} holds other files."
        )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        part = folder / f".weights.{os.getpid()}.part"
        files.write(part, tensors, {"kind": "weights"})
        digest = digest_file(part)
        name = f"weights-{digest[:16]}.safetensors"
        os.replace(part, folder / name)
        about = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "versions": versions(),
            "weights": {"file": name, "sha256": digest},
            **about,
        }
        text = json.dumps(about, indent=2, allow_nan=False, default=_plain) + "\n"
        write_durably(folder / ABOUT, text.encode())
    finally:
        _sweep(folder)


def load_model(folder: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the description that `save_model` wrote."""
    folder = Path(folder)
    if not (folder / ABOUT).is_file():
        raise FileNotFoundError(f"No stopwise model at {folder}: {ABOUT} is missing.")
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{folder / ABOUT} is damaged: {error}. Save the model again.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ModelFolderError(f"{folder / ABOUT} was not written by stopwise.")
    if about.get("format_version") != FORMAT_VERSION:
        raise ModelFolderError(
            f"{folder / ABOUT} has format version {about.get('format_version')!r}; this stopwise reads "
            f"version {FORMAT_VERSION}. Train the model again, or use the stopwise that wrote it "
            f"({about.get('versions')})."
        )
    weights = folder / _weights_name(folder, about)
    if not weights.is_file():
        raise ModelFolderError(f"{folder} is incomplete: {weights.name} is missing. Save the model again.")
    if digest_file(weights) != about["weights"].get("sha256"):
        raise ModelFolderError(
            f"{weights} is damaged: its checksum differs from {ABOUT}. Save the model again."
        )
    try:
        return files.read(weights)[0], about
    except files.TensorFileError as error:
        raise ModelFolderError(str(error)) from error


def _is_ours(name: str) -> bool:
    """Return whether a file was written by a save, including one that was killed."""
    return fnmatch(name, "weights-*.safetensors") or fnmatch(name, ".*.part")


def _sweep(folder: Path) -> None:
    """Delete files of earlier or failed saves: those that `model.json` does not refer to."""
    named = None
    if (folder / ABOUT).exists():
        try:
            named = json.loads((folder / ABOUT).read_text(encoding="utf-8"))["weights"]["file"]
        except (ValueError, KeyError, TypeError):
            return  # model.json is damaged: delete nothing
    for file in folder.iterdir():
        if _is_ours(file.name) and file.name != named:
            with suppress(OSError):  # a leftover file must not fail the save
                file.unlink()


def _plain(value: Any) -> Any:
    """Convert a numpy scalar to a Python number, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} ({type(value).__name__}) cannot be written as JSON.")


def _weights_name(folder: Path, about: dict[str, Any]) -> str:
    try:
        name = about["weights"]["file"]
    except (KeyError, TypeError):
        name = None
    if not isinstance(name, str) or not re.fullmatch(r"weights-\w+\.safetensors", name):
        raise ModelFolderError(f"{folder / ABOUT} is damaged: it does not name the weights file.")
    return name
