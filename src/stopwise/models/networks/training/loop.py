"""Training loop: batches, optimizer, validation, early stopping, checkpoints and progress.

The random numbers of an epoch depend only on the seed, the epoch and, with several processes, the rank. A run
that is killed and resumed after its last complete epoch therefore gives the same result as an uninterrupted
run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stopwise.data.examples import Examples
from stopwise.models.networks.modules import Integrator
from stopwise.models.networks.training import checkpoint, devices
from stopwise.models.networks.training.averaging import WeightAverage
from stopwise.models.networks.training.config import Training
from stopwise.models.networks.training.objective import Objective
from stopwise.progress import Reporter, Stage, Stages

History = list[dict[str, float]]


@dataclass(frozen=True)
class Task:
    """Data, objective and options of a training run.

    Parameters
    ----------
    train_set
        Training series.
    validation_set
        Validation series. If None, the weights of the last epoch are kept.
    objective
        Training objective.
    training
        Validated training options.
    seed
        Random seed of shuffling and dropout.
    """

    train_set: Examples
    validation_set: Examples | None
    objective: Objective
    training: Training
    seed: int = 0


def train(
    net: Integrator,
    task: Task,
    *,
    path: Path | None = None,
    choice: dict[str, Any] | None = None,
    progress: bool | str | Stages = False,
    title: str = "training",
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> History:
    """Train a network in place and keep the weights with the best validation loss.

    Parameters
    ----------
    net
        The network.
    task
        Data, objective and options.
    path
        File of the training checkpoint, written after each epoch. If it exists, training resumes from it.
    choice
        What the fit chose before this training; it is kept in the checkpoint.
    progress, title
        As for `Reporter`; or `Stages` with a stage of this title, to which the epochs are reported.
    on_epoch
        Callback that receives the record of each epoch at its end, when the network is in evaluation mode. An
        exception from it stops the training. Can only be used with one device.

    Returns
    -------
    history
        One record per epoch: `epoch`, `train_loss`, `learning_rate` and, with a validation set,
        `validation_loss`.
    """
    training = task.training
    if on_epoch is not None and training.devices > 1:
        raise ValueError(f"`on_epoch` can only be used with devices=1; got devices={training.devices}.")
    if training.devices > 1 and isinstance(progress, Stages):
        progress = progress.show  # a bar cannot be passed to other processes
    run = TrainingRun(task, path, progress, title, on_epoch, choice)
    if training.devices == 1:
        history = run.execute(net.to(training.device), None)
    else:
        weights, history = devices.launch(run, net, training)
        net.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
        net.to(training.device)
    net.eval()
    return history


class TrainingRun:
    """Training run, executed on one device or, with Fabric, on each of several devices.

    The network is not an attribute before `execute`. Fabric must receive it as a separate argument to create
    a copy per process.
    """

    def __init__(
        self,
        task: Task,
        path: Path | None,
        progress: bool | str | Stages,
        title: str,
        on_epoch: Callable[[dict[str, float]], None] | None,
        choice: dict[str, Any] | None = None,
    ) -> None:
        self.task, self.training = task, task.training
        self.train_set, self.validation_set = task.train_set, task.validation_set
        self.path, self.progress, self.title, self.on_epoch = path, progress, title, on_epoch
        self.choice = choice
        self.best: dict[str, Tensor] | None = None
        self.history: History = []

    def execute(self, net: Integrator, fabric: Any) -> History:
        """Train to the end, starting from the checkpoint if it exists."""
        training = self.training
        self.net, self.fabric = net, fabric
        self.device = fabric.device if fabric else torch.device(training.device)
        self.rank: int = fabric.global_rank if fabric else 0
        self.world: int = fabric.world_size if fabric else 1
        self.model: nn.Module = net
        self.optimizer = _optimizer(net, training)
        decay = training.weight_average
        self.average = None if decay is None else WeightAverage(net, decay)
        if self.path:
            self.settings = checkpoint.settings(self.net, self.task)
            if self.path.exists() and (self.choice is None or checkpoint.has_training(self.path)):
                state = checkpoint.load(self.path, self.net, self.optimizer, self.settings)
                self.best, self.history = state.best, state.history
                if self.average is not None:
                    self.average.load(state.average)
        if fabric:
            self.model, self.optimizer = fabric.setup(self.net, self.optimizer)
        with (
            torch.random.fork_rng([self.device] if self.device.type == "cuda" else []),
            self._reporter() as reporter,
        ):
            reporter.skip(len(self.history))
            while len(self.history) < training.max_epochs and not self._is_over():
                self._epoch(len(self.history) + 1)
                reporter.advance(_note(self.history[-1]))
                if self.on_epoch is not None:
                    self.net.eval()
                    with self._averaged():
                        self.on_epoch(self.history[-1])
        if self.best is not None:
            self.net.load_state_dict(self.best)
        elif self.average is not None:
            self.average.swap()
        return self.history

    def _reporter(self) -> Stage:
        if isinstance(self.progress, Stages):
            return self.progress.stage(self.title, self.training.max_epochs)
        return Reporter(self.title, self.training.max_epochs, self.progress if self.rank == 0 else False)

    def _is_over(self) -> bool:
        """Whether the validation loss has not improved for `patience` epochs."""
        losses, patience = self._validation_losses(), self.training.patience
        return (
            patience is not None
            and len(losses) > patience
            and int(np.argmin(losses)) < len(losses) - patience
        )

    def _validation_losses(self) -> list[float]:
        return [record["validation_loss"] for record in self.history if "validation_loss" in record]

    def _epoch(self, epoch: int) -> None:
        seed, size = self.task.seed, self.training.batch_size
        torch.manual_seed(np.random.SeedSequence([seed, epoch, self.rank]).generate_state(1)[0].item())
        shuffled = self._rows(epoch)
        weights = self.train_set.weights
        starts = range(0, len(shuffled), size)
        self.model.train()
        total = 0.0
        for number, start in enumerate(starts):
            rate = self._rate((epoch - 1) + number / len(starts))
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            rows = np.sort(shuffled[start : start + size])
            loss = self._step(rows, weights)
            self._check(loss, f"in epoch {epoch}, step {number + 1}")
            total += loss * len(rows)
        record = {"epoch": epoch, "train_loss": self._sum(total) / len(shuffled), "learning_rate": rate}
        if self.validation_set is not None:
            with self._averaged():
                loss = self._validate(self.validation_set)
                self._check(loss, f"on the validation data after epoch {epoch}")
                record["validation_loss"] = loss
                if loss < min(self._validation_losses(), default=math.inf):
                    weights_now = self.net.state_dict()
                    self.best = {name: value.detach().clone() for name, value in weights_now.items()}
        self.history.append(record)
        if self.path and self.rank == 0:
            average = {} if self.average is None else self.average.state()
            state = checkpoint.Progress(self.best, self.history, average)
            checkpoint.save(self.path, self.net, self.optimizer, state, self.settings, self.choice)

    def _rows(self, epoch: int) -> np.ndarray:
        """Return the training series of an epoch in random order."""
        number, size = len(self.train_set), self.training.epoch_series
        parts = 1 if size is None else max(1, round(number / size))
        shuffle, part = divmod(epoch - 1, parts)
        shuffled = np.random.default_rng([self.task.seed, shuffle + 1]).permutation(number)
        return np.array_split(shuffled, parts)[part]

    def _averaged(self) -> AbstractContextManager[None]:
        """Give the network the average weights inside the context, if there is an average."""
        return nullcontext() if self.average is None else self.average.in_use()

    def _check(self, loss: float, where: str) -> None:
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"Training diverged: the loss is {loss} {where}. Lower `training.learning_rate` (now "
                f"{self.training.learning_rate:g}) or set `training.gradient_clip` (now "
                f"{self.training.gradient_clip})."
            )

    def _rate(self, epochs_done: float) -> float:
        training = self.training
        if training.schedule == "constant":
            return training.learning_rate
        return training.learning_rate * 0.5 * (1 + math.cos(math.pi * epochs_done / training.max_epochs))

    def _step(self, rows: np.ndarray, weights: np.ndarray) -> float:
        """Take one optimizer step on a batch; return the part of the loss that belongs to this process."""
        own = rows[self.rank :: self.world]
        share = weights[own] / len(rows)
        if not len(own):  # a batch smaller than the number of processes: every process must take part
            own, share = rows[:1], np.zeros(1)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._loss(self.model, self.train_set, own, share)
        # Fabric averages the gradients over the processes, but the loss is the sum of their parts.
        (self.fabric.backward if self.fabric else torch.Tensor.backward)(loss * self.world)
        if self.training.gradient_clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.training.gradient_clip)
        self.optimizer.step()
        if self.average is not None:
            self.average.update()
        return loss.item()

    def _loss(self, model: nn.Module, data: Examples, rows: np.ndarray, weights: np.ndarray) -> Tensor:
        """Return the weighted sum of the losses of some rows."""
        device = self.device
        x, lengths = data.read(rows)
        inside = None if (lengths == x.shape[1]).all() else torch.from_numpy(lengths).to(device)
        y = torch.from_numpy(data.y[rows]).to(device)
        weight = torch.from_numpy(weights.astype(np.float32)).to(device)
        evidence = model(torch.from_numpy(x).to(device), multiplets=self.task.objective.needs_multiplets)
        return self.task.objective(evidence, y, inside, weight)

    @torch.no_grad()
    def _validate(self, data: Examples) -> float:
        self.model.eval()
        weights = data.weights / len(data)
        rows = np.arange(len(data))
        parts = np.array_split(rows, math.ceil(len(rows) / self.training.batch_size))
        # Use the plain network. The data-parallel one would wait for processes that may have no part.
        own = parts[self.rank :: self.world]
        return self._sum(sum(self._loss(self.net, data, part, weights[part]).item() for part in own))

    def _sum(self, value: float) -> float:
        """Return the sum of a number over all processes."""
        if not self.fabric:
            return value
        total = self.fabric.all_reduce(torch.tensor(value, dtype=torch.float64), reduce_op="sum")
        return float(total)


def _optimizer(net: nn.Module, training: Training) -> torch.optim.Optimizer:
    learned = {name: p for name, p in net.named_parameters() if p.requires_grad}
    free = [name for name, p in learned.items() if p.ndim <= 1 or name.endswith("bias")]
    groups: list[dict[str, Any]] = [
        {
            "params": [p for name, p in learned.items() if name not in free],
            "weight_decay": training.weight_decay,
        },
        {"params": [learned[name] for name in free]},
    ]
    if training.optimizer == "adam":
        return torch.optim.Adam(groups, lr=training.learning_rate, eps=training.epsilon, fused=True)
    return torch.optim.RMSprop(groups, lr=training.learning_rate, eps=training.epsilon)


def _note(record: dict[str, float]) -> str:
    note = f"loss {record['train_loss']:.4g}"
    return note + (f" · validation {record['validation_loss']:.4g}" if "validation_loss" in record else "")
