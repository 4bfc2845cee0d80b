"""Loading weights from a local safetensors file or torch state_dict; a file cannot run code."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

HEAD_PREFIX = "fc."
PROJECTION_PREFIX = "projection."
COUNTER_SUFFIX = "num_batches_tracked"  # the step counter of batch normalization, which is not used


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a weight file by name.

    Parameters
    ----------
    path
        A .safetensors file, or a file saved with `torch.save(net.state_dict(), path)`. A file that holds
        anything but tensors is rejected, because it could run code.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "net.pth"
    >>> torch.save(nn.Linear(2, 1).state_dict(), path)
    >>> list(read_weights(path))
    ['weight', 'bias']
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"`weights` must be an existing file; got {path}.")
    try:
        if path.suffix == ".safetensors":
            content: Any = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} is damaged or holds objects other than tensors, which are not read because they could "
            "run code. Save the network's state_dict(), or a .safetensors file."
        ) from error
    except (SafetensorError, RuntimeError, EOFError, KeyError, OSError) as error:
        raise ValueError(
            f"{path} cannot be read: it is damaged, truncated or in another format "
            f"({type(error).__name__}). Copy or save it again."
        ) from error
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"{path} must hold a dict of tensors by name. Save the network's state_dict().")
    return {str(name).removeprefix("module."): tensor for name, tensor in content.items()}


def load_weights(net: nn.Module, path: str | Path) -> None:
    """Load weights into a network; every name and shape must match.

    The last layer `fc` may be missing or have another number of classes, because features do not depend on
    it. The counters of batch normalization may be missing, and so may the layer `projection`, which then
    keeps its weights.

    Parameters
    ----------
    net
        The network, which is changed in place.
    path
        As in `read_weights`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "net.pth"
    >>> net, same = nn.Linear(2, 1), nn.Linear(2, 1)
    >>> torch.save(net.state_dict(), path)
    >>> load_weights(same, path)
    >>> bool((same.weight == net.weight).all())
    True
    """
    own = net.state_dict()
    given = {
        name: tensor
        for name, tensor in read_weights(path).items()
        if not name.endswith(COUNTER_SUFFIX) and not _other_head(name, tensor, own)
    }
    needed = {name for name in own if not name.endswith(COUNTER_SUFFIX)}
    missing = sorted(
        name for name in needed - given.keys() if not name.startswith((HEAD_PREFIX, PROJECTION_PREFIX))
    )
    unexpected = sorted(given.keys() - needed)
    shapes = [
        f"{name} {tuple(given[name].shape)} instead of {tuple(own[name].shape)}"
        for name in sorted(needed & given.keys())
        if given[name].shape != own[name].shape
    ]
    wrong = [
        f"{len(names)} {what}: {', '.join(names[:3])}{', …' if len(names) > 3 else ''}"
        for what, names in (("missing", missing), ("unexpected", unexpected), ("with another shape", shapes))
        if names
    ]
    if wrong:
        raise ValueError(
            f"{path} does not match the network: {'; '.join(wrong)}. Choose the backbone that the weights "
            "belong to, or rename the weights."
        )
    net.load_state_dict(own | given)


def fingerprint(net: nn.Module) -> str:
    """Return a checksum of a network's weights.

    Examples
    --------
    >>> net = nn.Linear(2, 1)
    >>> before = fingerprint(net)
    >>> _ = nn.init.zeros_(net.weight)
    >>> before == fingerprint(net)
    False
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(net.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _other_head(name: str, tensor: Tensor, own: dict[str, Tensor]) -> bool:
    """Return whether a tensor belongs to a last layer with another number of classes."""
    if not name.startswith(HEAD_PREFIX) or name not in own:
        return False
    return tensor.shape != own[name].shape and tensor.shape[1:] == own[name].shape[1:]
