"""Files of tensors with a JSON description, written atomically.

The format is safetensors: reading it cannot run code. A checksum of the tensors and the description detects
damaged files. Equal tensors and descriptions give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from stopwise.atomic import write_durably
from stopwise.persistence.digests import digest_tensors

KEY = "stopwise"
# A small header can declare many empty tensors, which take much memory as objects.
MOST_TENSORS = 20_000


class TensorFileError(ValueError):
    """A tensor file is damaged, truncated or not written by stopwise."""


def write(path: Path, tensors: Mapping[str, Tensor | np.ndarray], about: dict[str, Any]) -> None:
    """Write tensors and a JSON description to `path`. An existing file is replaced atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, pack(tensors, about))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the description that `write` wrote."""
    if path.is_dir():
        raise TensorFileError(f"{path} is a folder, not a file. Choose another path.")
    if not path.is_file():
        raise FileNotFoundError(f"No file at {path}.")
    return unpack(path.read_bytes(), path)


def pack(tensors: Mapping[str, Tensor | np.ndarray], about: dict[str, Any]) -> bytes:
    """Return tensors and a JSON description as the content of a file.

    Examples
    --------
    >>> tensors, about = unpack(pack({"a": np.arange(3)}, {"kind": "example"}), "memory")
    >>> tensors["a"].tolist(), about
    ([0, 1, 2], {'kind': 'example'})
    """
    # safetensors does not accept tensors that share memory, such as tied weights, so each is copied.
    copies = {
        name: torch.as_tensor(tensor).detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    text = json.dumps(about)
    # One entry only: safetensors writes several in random order.
    return save(copies, {KEY: f"{digest_tensors(copies, text)} {text}"})


def unpack(data: bytes, path: Path | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the description in the content of a file; errors name `path`."""
    try:
        digest, _, text = _metadata(data).partition(" ")
        tensors = load(data)
    except _ForeignError:
        raise TensorFileError(f"{path} was not written by stopwise: its description is missing.") from None
    except (SafetensorError, ValueError, LookupError, TypeError, RecursionError, OverflowError) as error:
        raise TensorFileError(
            f"{path} is damaged or not a safetensors file ({error}). Save it again."
        ) from error
    if digest != digest_tensors(tensors, text):
        raise TensorFileError(f"{path} is damaged: its checksum differs. Save it again.")
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TensorFileError(f"{path} is damaged: its description is not JSON ({error}).") from error
    if not isinstance(about, dict):
        raise TensorFileError(f"{path} is damaged: its description must be an object; got {about!r:.50}.")
    return tensors, about


class _ForeignError(Exception):
    """A safetensors file has no description by stopwise."""


def _metadata(data: bytes) -> str:
    """Return the description in the header of a safetensors file, before any tensor is created."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise ValueError("it is truncated")
    header = data[8 : 8 + size]
    if header.count(b"data_offsets") > MOST_TENSORS:
        raise ValueError(f"it declares more than {MOST_TENSORS} tensors")
    parsed = json.loads(header)
    if not isinstance(parsed, dict):
        raise ValueError("its header is not an object")
    text = (parsed.get("__metadata__") or {}).get(KEY)
    if not isinstance(text, str):
        raise _ForeignError
    return text
