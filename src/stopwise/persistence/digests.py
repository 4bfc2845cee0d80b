"""SHA-256 hashes of tensors, files and JSON values."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def digest_tensors(tensors: dict[str, Tensor], text: str = "") -> str:
    """Return the SHA-256 hash of named tensors and a text as a hexadecimal string.

    Examples
    --------
    >>> digest_tensors({"a": torch.zeros(2)})[:8] == digest_tensors({"a": torch.ones(2)})[:8]
    False
    """
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        contiguous = tensor.detach().cpu().contiguous()
        digest.update(contiguous.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def digest_file(path: Path) -> str:
    """Return the SHA-256 hash of a file as a hexadecimal string."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_json(values: Any) -> str:
    """Return the SHA-256 hash of JSON values, which does not depend on spaces or on the order of keys.

    Examples
    --------
    >>> digest_json({"a": 1, "b": [0.5]}) == digest_json({"b": [0.5], "a": 1})
    True
    >>> digest_json({"a": 1}) == digest_json({"a": 1.0})
    False
    """
    return hashlib.sha256(canonical(values).encode()).hexdigest()


def canonical(values: Any) -> str:
    """Return JSON values as text with sorted keys; values of other types are written as their `repr`."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), default=repr)
