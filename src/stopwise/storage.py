"""Tensors and a readable description in one file, written aside and moved into place.

The format is safetensors: reading it cannot run code.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor


class StorageError(ValueError):
    """A file that is damaged, truncated, or not one of ours."""


def write(path: Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write tensors and a JSON description to `path`; a file already there is replaced at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
            aside,
            {"stopwise": json.dumps(about)},
        )
        with open(aside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write` wrote."""
    if not path.is_file():
        raise FileNotFoundError(f"No file at {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise StorageError(f"{path} is damaged or not a safetensors file ({error}). Save it again.") from error
    if "stopwise" not in metadata:
        raise StorageError(f"{path} was not written by stopwise: its description is missing.")
    try:
        return tensors, json.loads(metadata["stopwise"])
    except json.JSONDecodeError as error:
        raise StorageError(f"{path} is damaged: its description is not JSON ({error}).") from error
