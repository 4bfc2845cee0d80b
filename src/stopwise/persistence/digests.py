"""Digests: short texts that change when what they stand for changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import Tensor


def digest_tensors(tensors: dict[str, Tensor], text: str = "") -> str:
    """Return the SHA-256 of named tensors and a text.

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
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
