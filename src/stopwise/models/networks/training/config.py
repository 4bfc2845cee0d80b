"""How to train: what a training run is made of beside its data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch

from stopwise.llr import LOSSES
from stopwise.validation import check_choice, check_integer, check_real

OPTIMIZERS = ("adam", "rmsprop")
SCHEDULES = ("constant", "cosine")


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Parameters
    ----------
    loss
        "lsel" or "lllr".
    llre_ratio
        r in r · loss + (1−r) · multiplet cross-entropy.
    max_epochs, batch_size, learning_rate
        As usual.
    optimizer
        "adam" or "rmsprop".
    schedule
        "constant", or "cosine": the learning rate falls to 0 over `max_epochs`.
    weight_decay
        L2 penalty on the weight matrices; biases are free.
    gradient_clip
        Largest norm of the gradient; None for no limit.
    patience
        Epochs without a better validation loss before training stops; None: train to `max_epochs`.
    seed
        Seed of shuffling and dropout.
    device, devices
        A torch device, and how many of them: more than one trains data-parallel on Lightning Fabric.

    Examples
    --------
    >>> Recipe(max_epochs=5).batch_size
    100
    >>> Recipe(loss="lsell")
    Traceback (most recent call last):
    ...
    ValueError: `loss` must be one of 'lsel', 'lllr'; got 'lsell'. Did you mean 'lsel'?
    """

    loss: str = "lsel"
    llre_ratio: float = 1.0
    max_epochs: int = 50
    batch_size: int = 100
    learning_rate: float = 1e-3
    optimizer: str = "adam"
    schedule: str = "constant"
    weight_decay: float = 0.0
    gradient_clip: float | None = None
    patience: int | None = 10
    seed: int = 0
    device: str = "cpu"
    devices: int = 1

    def __post_init__(self) -> None:
        def keep(name: str, value: Any) -> None:
            # Numbers of numpy become Python's, so that a recipe can be written as JSON.
            object.__setattr__(self, name, value)

        check_choice("loss", self.loss, LOSSES)
        keep("llre_ratio", check_real("llre_ratio", self.llre_ratio, 0, 1))
        keep("max_epochs", check_integer("max_epochs", self.max_epochs, 1))
        keep("batch_size", check_integer("batch_size", self.batch_size, 1))
        rate = check_real("learning_rate", self.learning_rate, 0, open_low=True, open_high=True)
        keep("learning_rate", rate)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("schedule", self.schedule, SCHEDULES)
        keep("weight_decay", check_real("weight_decay", self.weight_decay, 0, open_high=True))
        if self.gradient_clip is not None:
            clip = check_real("gradient_clip", self.gradient_clip, 0, open_low=True, open_high=True)
            keep("gradient_clip", clip)
        if self.patience is not None:
            keep("patience", check_integer("patience", self.patience, 1))
        keep("seed", check_integer("seed", self.seed, 0))
        keep("device", _check_device(self.device))
        keep("devices", check_integer("devices", self.devices, 1))


def _check_device(device: Any) -> str:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"`device` must be a torch device of this machine, such as 'cpu' or 'cuda'; got {device!r} "
            f"({reason})."
        ) from error
    return str(device)


RECIPE_FIELDS = tuple(field.name for field in fields(Recipe))
