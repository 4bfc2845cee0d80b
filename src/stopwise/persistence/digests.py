"""SHA-256 hashes of tensors and files."""

from __future__ import annotations

import hashlib
from pathlib import Path

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
        digest.update(contiguous.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def digest_file(path: Path) -> str:
    """Return the SHA-256 hash of a file as a hexadecimal string."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
