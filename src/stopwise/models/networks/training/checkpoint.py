"""Training checkpoints, from which an interrupted run resumes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from stopwise.persistence import tensors as files

if TYPE_CHECKING:
    from stopwise.models.networks.training.loop import Task


class Progress(NamedTuple):
    """State of a run after an epoch, without the states of the network and the optimizer.

    Parameters
    ----------
    best
        Weights with the best validation loss so far; None without a validation set.
    history
        Records of the epochs so far.
    average
        State of the average of the weights; empty without an average.
    """

    best: dict[str, Tensor] | None
    history: list[dict[str, float]]
    average: dict[str, Tensor]


def save(
    path: Path,
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: Progress,
    settings: dict[str, Any],
    choice: dict[str, Any] | None = None,
) -> None:
    """Write the state of a run to a file, with the choice that preceded the training (see `save_choice`)."""
    tensors = {f"net.{name}": value for name, value in net.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in (state.best or {}).items()}
    tensors |= {f"average.{name}": value for name, value in state.average.items()}
    for i, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{i}.{name}": torch.as_tensor(value) for name, value in values.items()}
    about = {"kind": "training", "settings": settings, "history": state.history, "choice": choice}
    files.write(path, tensors, about)


def load(path: Path, net: nn.Module, optimizer: torch.optim.Optimizer, settings: dict[str, Any]) -> Progress:
    """Load the state of a run into its network and optimizer; raise an error if it is of another run."""
    tensors, about = files.read(path)
    if about.get("kind") != "training":
        raise files.TensorFileError(f"{path} is not a training checkpoint. Choose another path.")
    try:
        _check_same(path, settings, about["settings"])
        net.load_state_dict(_under("net.", tensors))
        packed = optimizer.state_dict()
        for name, value in _under("optimizer.", tensors).items():
            i, key = name.split(".", 1)
            packed["state"].setdefault(int(i), {})[key] = value
        optimizer.load_state_dict(packed)
        return Progress(_under("best.", tensors) or None, about["history"], _under("average.", tensors))
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise files.TensorFileError(
            f"{path} is not a complete training checkpoint ({error}). Delete it to start from scratch."
        ) from error


def save_choice(path: Path, choice: dict[str, Any]) -> None:
    """Write what a fit has chosen so far, before the training of the chosen network starts.

    Parameters
    ----------
    path
        File of the training checkpoint.
    choice
        JSON values. The key `settings` has the result of `task_settings`.
    """
    files.write(path, {}, {"kind": "training", "choice": choice})


def load_choice(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what an interrupted fit has chosen; raise an error if the checkpoint is of another run."""
    choice = read(path).get("choice")
    if not isinstance(choice, dict):
        raise ValueError(
            f"`checkpoint`: {path} belongs to another run, which had a fixed `order`. Use another path for "
            "this run, or delete the file to start from scratch."
        )
    _check_same(path, settings, choice["settings"])
    return choice


def has_training(path: Path) -> bool:
    """Whether a training checkpoint contains an epoch, and not only a choice that preceded it."""
    return path.exists() and "history" in read(path)


def read(path: Path) -> dict[str, Any]:
    """Return the description in a training checkpoint, without its tensors."""
    about = files.read(path)[1]
    if about.get("kind") != "training":
        raise files.TensorFileError(f"{path} is not a training checkpoint. Choose another path.")
    return about


def task_settings(task: Task) -> dict[str, Any]:
    """Return the options and data that must be equal to resume a fit, as JSON values."""
    settings = task.training.get_params(deep=False) | asdict(task.objective) | {"random_state": task.seed}
    settings["training data"] = task.train_set.digest()
    settings["validation data"] = task.validation_set.digest() if task.validation_set else "none"
    return settings


def settings(net: nn.Module, task: Task) -> dict[str, Any]:
    """Return the options, network and data that must be equal to resume a run, as JSON values."""
    settings = task_settings(task)
    for path, module in net.named_modules():
        for name, value in vars(module).items():
            values = list(value) if isinstance(value, tuple) else [value]
            plain = all(isinstance(one, bool | int | float | str) for one in values)
            if plain and name != "training" and name[0] != "_":
                key = ".".join(filter(None, ["network", path, name]))
                settings[key] = values if isinstance(value, tuple) else value
    settings["network weights"] = {name: list(value.shape) for name, value in net.state_dict().items()}
    return settings


def _check_same(path: Path, mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    different = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    if different:
        differences = ", ".join(
            f"{name} (checkpoint: {theirs.get(name)!r}, this run: {mine.get(name)!r})" for name in different
        )
        raise ValueError(
            f"`checkpoint`: {path} belongs to another run, which differs in {differences}. "
            "Use another path for this run, or delete the file to start from scratch."
        )


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
