"""Files of tensors with a JSON description, written atomically.

The format is safetensors: reading it cannot run code. A checksum of the tensors and the description detects
damaged files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from stopwise.atomic import write_durably
from stopwise.persistence.digests import digest_tensors


class TensorFileError(ValueError):
    """A tensor file is damaged, truncated or not written by stopwise."""


def write(path: Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write tensors and a JSON description to `path`.

    An existing file is replaced atomically. Only one process at a time may write to a path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # safetensors does not accept tensors that share memory, such as tied weights, so each is copied.
    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    text = json.dumps(about)
    # Serialize in memory: if the file writer of safetensors is killed, it leaves a partial file.
    data = save(copies, {"stopwise": text, "sha256": digest_tensors(copies, text)})
    write_durably(path, data)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the description that `write` wrote."""
    if path.is_dir():
        raise TensorFileError(f"{path} is a folder, not a file. Choose another path.")
    if not path.is_file():
        raise FileNotFoundError(f"No file at {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise TensorFileError(
            f"{path} is damaged or not a safetensors file ({error}). Save it again."
        ) from error
    if "stopwise" not in metadata:
        raise TensorFileError(f"{path} was not written by stopwise: its description is missing.")
    if metadata.get("sha256") != digest_tensors(tensors, metadata["stopwise"]):
        raise TensorFileError(f"{path} is damaged: its checksum differs. Save it again.")
    try:
        about = json.loads(metadata["stopwise"])
    except json.JSONDecodeError as error:
        raise TensorFileError(f"{path} is damaged: its description is not JSON ({error}).") from error
    if not isinstance(about, dict):
        raise TensorFileError(f"{path} is damaged: its description must be an object; got {about!r:.50}.")
    return tensors, about
