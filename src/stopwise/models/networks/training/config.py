"""Training options of networks."""

from __future__ import annotations

import warnings
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator

from stopwise.validation import check_choice, check_integer, check_real

OPTIMIZERS = ("adam", "rmsprop")
SCHEDULES = ("constant", "cosine")
MOST_DEVICES = 4096


class Training(BaseEstimator):
    """Training options of a network.

    Parameters
    ----------
    max_epochs
        Maximum number of epochs. An epoch is a pass over the training series unless `epoch_series` is set.
    batch_size
        Number of series per training step.
    learning_rate
        Initial learning rate.
    optimizer
        "adam" or "rmsprop".
    schedule
        Learning rate schedule: "constant", or "cosine", which decreases to 0 over `max_epochs`.
    weight_decay
        L2 penalty on the weight matrices. Biases are not penalized.
    gradient_clip
        Maximum norm of the gradient; None for no limit.
    patience
        Number of epochs without a better validation loss after which training stops. None: train for
        `max_epochs`.
    validation_fraction
        Fraction of each class, at least one series, that is held out to choose the best epoch, the order and
        the ridge penalty of the polishing; 0 for none. If `fit` receives groups, whole groups are held out.
    device
        Torch device, such as "cpu" or "cuda".
    devices
        Number of devices. More than one uses data-parallel training on Lightning Fabric.
    weight_average
        Decay per step of a running average of the weights, in (0, 1], such as 0.999; 1 is the average of all
        steps. If not None, validation, and the trained network, use the average.
    epsilon
        Number that the optimizer adds to the root mean square of each gradient before it divides by it, ε. A
        weight whose gradients are much smaller hardly moves. With a tiny ε it moves as fast as all others,
        in directions that noise decides.
    epoch_series
        Number of series per epoch. If not None and smaller than the number of training series, a pass over
        the training series has several epochs, so that the network is validated more often.

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
        weight_average: float | None = None,
        epsilon: float = 1e-8,
        epoch_series: int | None = None,
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
        self.weight_average = weight_average
        self.epsilon = epsilon
        self.epoch_series = epoch_series

    def checked(self, **changes: Any) -> Self:
        """Return a validated copy, with numpy numbers converted to Python numbers.

        Parameters
        ----------
        changes
            Options to change in the copy.

        Raises
        ------
        ValueError, TypeError
            If an option is invalid.

        Examples
        --------
        >>> Training().checked(optimizer="adm")
        Traceback (most recent call last):
        ...
        ValueError: `optimizer` must be one of 'adam', 'rmsprop'; got 'adm'. Did you mean 'adam'?
        """
        given = self.get_params(deep=False) | changes
        for name in ("max_epochs", "batch_size"):
            given[name] = check_integer(name, given[name], 1)
        given["devices"] = check_integer("devices", given["devices"], 1, MOST_DEVICES)
        for name in ("learning_rate", "epsilon"):
            given[name] = check_real(name, given[name], 0, open_low=True, open_high=True)
        check_choice("optimizer", given["optimizer"], OPTIMIZERS)
        check_choice("schedule", given["schedule"], SCHEDULES)
        given["weight_decay"] = check_real("weight_decay", given["weight_decay"], 0, open_high=True)
        if given["gradient_clip"] is not None:
            clip = check_real("gradient_clip", given["gradient_clip"], 0, open_low=True, open_high=True)
            given["gradient_clip"] = clip
        for name in ("patience", "epoch_series"):
            if given[name] is not None:
                given[name] = check_integer(name, given[name], 1)
        if given["weight_average"] is not None:
            given["weight_average"] = check_real(
                "weight_average", given["weight_average"], 0, 1, open_low=True
            )
        share = check_real("validation_fraction", given["validation_fraction"], 0, 1, open_high=True)
        return type(self)(**given | {"validation_fraction": share, "device": check_device(given["device"])})


def check_device(device: Any) -> str:
    """Return the name of a torch device; raise an error if it is not available."""
    try:
        if not isinstance(device, str | torch.device):
            raise TypeError("it is not a name")
        if torch.empty(0, device=device).is_meta:
            raise TypeError("it holds no numbers")
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            "`device` must be a torch device that is available on this machine, such as 'cpu' or 'cuda'; "
            f"got {device!r} ({reason})."
        ) from error
    return str(device)


def available_device(device: Any) -> str:
    """Return the device of a trained network, or "cpu" with a warning if this machine does not have it."""
    try:
        return check_device(device)
    except ValueError:
        if not _is_device_name(device):
            raise
    warnings.warn(
        f"the network was trained on {device!r}, which is not available on this machine: it is loaded on the "
        "CPU.",
        stacklevel=2,
    )
    return "cpu"


def _is_device_name(device: Any) -> bool:
    try:
        return isinstance(device, str) and bool(torch.device(device).type)
    except RuntimeError:
        return False
