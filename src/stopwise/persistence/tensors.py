"""Tensors and a readable description in one file, written aside and moved into place.

The format is safetensors: reading it cannot run code. A checksum over the tensors and the description tells
a damaged file from a whole one.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from stopwise.atomic import write_durably


class StorageError(ValueError):
    """A file that is damaged, truncated, or not one of ours."""


def write(path: Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write tensors and a JSON description to `path`.

    A file already there is replaced at once or not at all. One process at a time may write to a path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Copies, because the format refuses tensors that share memory, as tied weights do.
    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    text = json.dumps(about)
    # In memory, because safetensors' own writer would leave a file of its own making when killed.
    data = save(copies, {"stopwise": text, "sha256": _digest(copies, text)})
    write_durably(path, data)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write` wrote."""
    if path.is_dir():
        raise StorageError(f"{path} is a folder, not a file. Choose another path.")
    if not path.is_file():
        raise FileNotFoundError(f"No file at {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise StorageError(
            f"{path} is damaged or not a safetensors file ({error}). Save it again."
        ) from error
    if "stopwise" not in metadata:
        raise StorageError(f"{path} was not written by stopwise: its description is missing.")
    if metadata.get("sha256") != _digest(tensors, metadata["stopwise"]):
        raise StorageError(f"{path} is damaged: its checksum differs. Save it again.")
    try:
        about = json.loads(metadata["stopwise"])
    except json.JSONDecodeError as error:
        raise StorageError(f"{path} is damaged: its description is not JSON ({error}).") from error
    if not isinstance(about, dict):
        raise StorageError(f"{path} is damaged: its description must be an object; got {about!r:.50}.")
    return tensors, about


def _digest(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
