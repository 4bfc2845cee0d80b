"""How networks are trained: options, declared once."""

from __future__ import annotations

from typing import Any, Self

import torch
from sklearn.base import BaseEstimator

from stopwise.validation import check_choice, check_integer, check_real

OPTIMIZERS = ("adam", "rmsprop")
SCHEDULES = ("constant", "cosine")


class Training(BaseEstimator):
    """Options of training a network.

    Parameters
    ----------
    max_epochs
        Most passes over the training series.
    batch_size
        Series in a training step.
    learning_rate
        Step size at the start.
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
    validation_fraction
        Share of each class held out, at least one series, to choose the best epoch, the order and the ridge
        of the polish; 0 for none. Where `fit` is given groups, whole groups are held out.
    device, devices
        A torch device, and how many: more than one trains data-parallel on Lightning Fabric.

    Examples
    --------
    >>> import stopwise as sw
    >>> sw.models.Accumulator(order=0, training=sw.models.Training(max_epochs=5))
    Accumulator(order=0, training=Training(max_epochs=5))
    """

    def __init__(
        self,
        max_epochs: int = 50,
        batch_size: int = 100,
        learning_rate: float = 1e-2,
        optimizer: str = "adam",
        schedule: str = "cosine",
        weight_decay: float = 0.0,
        gradient_clip: float | None = None,
        patience: int | None = 10,
        validation_fraction: float = 0.1,
        device: str = "cpu",
        devices: int = 1,
    ) -> None:
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.gradient_clip = gradient_clip
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.device = device
        self.devices = devices

    def checked(self, **changes: Any) -> Self:
        """Return a copy with some options changed, all of them checked, numpy numbers as Python's.

        Examples
        --------
        >>> Training().checked(optimizer="adm")
        Traceback (most recent call last):
        ...
        ValueError: `optimizer` must be one of 'adam', 'rmsprop'; got 'adm'. Did you mean 'adam'?
        """
        given = self.get_params(deep=False) | changes
        for name in ("max_epochs", "batch_size", "devices"):
            given[name] = check_integer(name, given[name], 1)
        rate = check_real("learning_rate", given["learning_rate"], 0, open_low=True, open_high=True)
        given["learning_rate"] = rate
        check_choice("optimizer", given["optimizer"], OPTIMIZERS)
        check_choice("schedule", given["schedule"], SCHEDULES)
        given["weight_decay"] = check_real("weight_decay", given["weight_decay"], 0, open_high=True)
        if given["gradient_clip"] is not None:
            clip = check_real("gradient_clip", given["gradient_clip"], 0, open_low=True, open_high=True)
            given["gradient_clip"] = clip
        if given["patience"] is not None:
            given["patience"] = check_integer("patience", given["patience"], 1)
        share = check_real("validation_fraction", given["validation_fraction"], 0, 1, open_high=True)
        return type(self)(**given | {"validation_fraction": share, "device": check_device(given["device"])})


def check_device(device: Any) -> str:
    """Return the name of a torch device if this machine has it."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"`device` must be a torch device of this machine, such as 'cpu' or 'cuda'; got {device!r} "
            f"({reason})."
        ) from error
    return str(device)
