"""The state of a training run on disk, from which a run that was killed goes on."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from stopwise.data.examples import Examples
from stopwise.models.networks.training.config import Recipe
from stopwise.persistence import tensors as storage


class Snapshot(NamedTuple):
    """What a run knows after an epoch, beside the network's and the optimiser's own state."""

    best: dict[str, Tensor] | None
    history: list[dict[str, float]]


def save(
    path: Path, net: nn.Module, optimizer: torch.optim.Optimizer, state: Snapshot, settings: dict[str, Any]
) -> None:
    """Write the state of a run."""
    tensors = {f"net.{name}": value for name, value in net.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in (state.best or {}).items()}
    for i, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{i}.{name}": torch.as_tensor(value) for name, value in values.items()}
    storage.write(path, tensors, {"kind": "training", "settings": settings, "history": state.history})


def load(path: Path, net: nn.Module, optimizer: torch.optim.Optimizer, settings: dict[str, Any]) -> Snapshot:
    """Read the state of a run into its network and optimiser; refuse the state of another run."""
    tensors, about = storage.read(path)
    if about.get("kind") != "training":
        raise storage.StorageError(f"{path} is not a training checkpoint. Choose another path.")
    try:
        _check_same(path, settings, about["settings"])
        net.load_state_dict(_under("net.", tensors))
        packed = optimizer.state_dict()
        for name, value in _under("optimizer.", tensors).items():
            i, key = name.split(".", 1)
            packed["state"].setdefault(int(i), {})[key] = value
        optimizer.load_state_dict(packed)
        return Snapshot(_under("best.", tensors) or None, about["history"])
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise storage.StorageError(
            f"{path} is no whole training checkpoint ({error}). Delete it to start anew."
        ) from error


def settings(
    net: nn.Module, train_set: Examples, validation_set: Examples | None, recipe: Recipe
) -> dict[str, Any]:
    """Return what must be the same for a run to be resumed, as plain JSON: recipe, network and data."""
    told = asdict(recipe)
    for path, module in net.named_modules():
        for name, value in vars(module).items():
            values = list(value) if isinstance(value, tuple) else [value]
            plain = all(isinstance(one, bool | int | float | str) for one in values)
            if plain and name != "training" and name[0] != "_":
                told[".".join(filter(None, ["network", path, name]))] = (
                    values if isinstance(value, tuple) else value
                )
    told["network weights"] = {name: list(value.shape) for name, value in net.state_dict().items()}
    told["training data"] = _fingerprint(train_set)
    told["validation data"] = _fingerprint(validation_set) if validation_set else "none"
    return told


def _fingerprint(data: Examples) -> str:
    """Tell data apart by its labels and by a few series, read whole."""
    rows = np.unique(np.linspace(0, len(data) - 1, 8).astype(int))
    digest = hashlib.sha256(data.y.astype(np.int64).tobytes())
    for part in data.read(rows):
        digest.update(part.tobytes())
    return f"{len(data)} series, {digest.hexdigest()[:16]}"


def _check_same(path: Path, mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    different = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    if different:
        told = ", ".join(
            f"{name} (there {theirs.get(name)!r}, here {mine.get(name)!r})" for name in different
        )
        raise ValueError(
            f"`checkpoint`: {path} belongs to another run, which differs in {told}. "
            "Give this run another path, or delete the file to start anew."
        )


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
