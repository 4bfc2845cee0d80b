"""One plain training loop: batches, optimiser, validation, best weights, resume, progress.

All randomness of an epoch comes from (seed, epoch), so a run that is killed and resumed at its last epoch
goes on exactly as one left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stopwise import storage
from stopwise.llr import LOSSES, multiplet_cross_entropy
from stopwise.nets import Integrator
from stopwise.progress import Reporter
from stopwise.validation import check_choice, check_integer, check_real

OPTIMIZERS = ("adam", "rmsprop")
SCHEDULES = ("constant", "cosine")

# rows → x (B, T, D) and lengths (B,)
Reader = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


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
        check_choice("loss", self.loss, LOSSES)
        check_real("llre_ratio", self.llre_ratio, 0, 1)
        check_integer("max_epochs", self.max_epochs, 1)
        check_integer("batch_size", self.batch_size, 1)
        check_real("learning_rate", self.learning_rate, 0, open_low=True, open_high=True)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_real("weight_decay", self.weight_decay, 0, open_high=True)
        if self.gradient_clip is not None:
            check_real("gradient_clip", self.gradient_clip, 0, open_low=True)
        if self.patience is not None:
            check_integer("patience", self.patience, 1)
        check_integer("devices", self.devices, 1)


@dataclass(frozen=True)
class Examples:
    """Labelled series, read in batches: `read(rows)` gives x (B, T, D) and lengths (B,) of rows (B,)."""

    read: Reader
    y: np.ndarray
    classes: int

    def __len__(self) -> int:
        return len(self.y)

    def weights(self) -> np.ndarray:
        """Return weights (n,) with mean 1 that give every class present the same share."""
        counts = np.bincount(self.y, minlength=self.classes)
        return len(self.y) / (np.count_nonzero(counts) * counts[self.y])


def train(
    net: Integrator,
    train_set: Examples,
    validation_set: Examples | None,
    recipe: Recipe,
    *,
    checkpoint: Path | None = None,
    progress: bool | str = False,
) -> list[dict[str, float]]:
    """Train a network in place; it ends with the weights of the best validation loss.

    Parameters
    ----------
    net
        The network.
    train_set, validation_set
        The data; without a validation set the last weights are kept.
    recipe
        How to train.
    checkpoint
        A file that holds the state after each epoch. If it is there, training goes on from it.
    progress
        As for `Reporter`.

    Returns
    -------
    history
        For each epoch: epoch, train_loss, validation_loss (if there is a set), learning_rate.
    """
    run = _Run(net, train_set, validation_set, recipe, checkpoint, progress)
    if recipe.devices == 1:
        net.to(recipe.device)
        return run.execute(None)
    fabric = _fabric(recipe)
    weights, history = fabric.launch(_execute_on_fabric, run)
    net.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return history  # type: ignore[no-any-return]


def _fabric(recipe: Recipe) -> Any:
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        raise ImportError(
            f"devices={recipe.devices} needs Lightning Fabric: pip install 'stopwise[distributed]'."
        ) from error
    accelerator = torch.device(recipe.device).type
    return Fabric(accelerator=accelerator, devices=recipe.devices, strategy="ddp_spawn")


def _execute_on_fabric(fabric: Any, run: _Run) -> tuple[dict[str, np.ndarray], list[dict[str, float]]]:
    history = run.execute(fabric)
    # numpy, because tensors would travel through shared memory of a process that is about to end
    return {name: value.cpu().numpy() for name, value in run.net.state_dict().items()}, history


@dataclass
class _Run:
    """One training run; `execute` is the same on one device and, under Fabric, on each of several."""

    net: Integrator
    train_set: Examples
    validation_set: Examples | None
    recipe: Recipe
    checkpoint: Path | None
    progress: bool | str

    def execute(self, fabric: Any) -> list[dict[str, float]]:
        recipe = self.recipe
        self.rank, self.world = (fabric.global_rank, fabric.world_size) if fabric else (0, 1)
        self.fabric = fabric
        self.optimizer = _optimizer(self.net, recipe)
        self.model: nn.Module = self.net
        self.best: dict[str, Tensor] | None = None
        self.best_loss = math.inf
        self.history: list[dict[str, float]] = []
        if self.checkpoint and self.checkpoint.exists():
            self._resume()
        if fabric:
            self.model, self.optimizer = fabric.setup(self.net, self.optimizer)
        epochs = range(len(self.history) + 1, recipe.max_epochs + 1)
        devices = [recipe.device] if torch.device(recipe.device).type == "cuda" else []
        with (
            torch.random.fork_rng(devices),
            Reporter("training", recipe.max_epochs, self.progress if self.rank == 0 else False) as reporter,
        ):
            reporter.advance(steps=len(self.history))
            for epoch in epochs:
                if self._is_over():
                    break
                self._epoch(epoch)
                reporter.advance(_note(self.history[-1]))
        if self.best is not None:
            self.net.load_state_dict(self.best)
        self.net.eval()
        return self.history

    def _is_over(self) -> bool:
        """Whether the validation loss has not improved for `patience` epochs."""
        losses = [record["validation_loss"] for record in self.history if "validation_loss" in record]
        patience = self.recipe.patience
        return patience is not None and len(losses) > patience and int(np.argmin(losses)) < len(losses) - patience

    def _epoch(self, epoch: int) -> None:
        recipe = self.recipe
        torch.manual_seed(np.random.SeedSequence([recipe.seed, epoch, self.rank]).generate_state(1)[0].item())
        order = np.random.default_rng([recipe.seed, epoch]).permutation(len(self.train_set))
        weights = self.train_set.weights()
        starts = range(0, len(order), recipe.batch_size)
        self.model.train()
        total = 0.0
        for number, start in enumerate(starts):
            rate = self._rate((epoch - 1) + number / len(starts))
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            rows = np.sort(order[start : start + recipe.batch_size])
            loss = self._step(rows, weights)
            if not math.isfinite(loss):
                raise FloatingPointError(
                    f"Training diverged: the loss is {loss} in epoch {epoch}, step {number + 1}. Lower "
                    f"`learning_rate` (now {recipe.learning_rate:g}) or set `gradient_clip` "
                    f"(now {recipe.gradient_clip})."
                )
            total += loss * len(rows)
        record = {"epoch": epoch, "train_loss": self._sum(total) / len(order), "learning_rate": rate}
        if self.validation_set is not None:
            record["validation_loss"] = self._validate(self.validation_set)
            if record["validation_loss"] < self.best_loss:
                self.best_loss = record["validation_loss"]
                self.best = {name: value.detach().clone() for name, value in self.net.state_dict().items()}
        self.history.append(record)
        if self.checkpoint and self.rank == 0:
            self._save()

    def _rate(self, epochs_done: float) -> float:
        recipe = self.recipe
        if recipe.schedule == "constant":
            return recipe.learning_rate
        return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * epochs_done / recipe.max_epochs))

    def _step(self, rows: np.ndarray, weights: np.ndarray) -> float:
        """Take one step on a batch; return this process's share of its loss."""
        own = rows[self.rank :: self.world]
        share = weights[own] / len(rows)
        if not len(own):  # a last batch smaller than the processes: every process must take part
            own, share = rows[:1], np.zeros(1)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._loss(self.train_set, own, share)
        # Data-parallel gradients are averaged over processes, whose shares add up to the loss.
        (self.fabric.backward if self.fabric else torch.Tensor.backward)(loss * self.world)
        if self.recipe.gradient_clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.gradient_clip)
        self.optimizer.step()
        return loss.item()

    def _loss(self, data: Examples, rows: np.ndarray, weights: np.ndarray) -> Tensor:
        """Return the sum of weighted losses of some rows."""
        device, ratio = self.recipe.device, self.recipe.llre_ratio
        x, lengths = data.read(rows)
        inside = None if (lengths == x.shape[1]).all() else torch.from_numpy(lengths).to(device)
        y = torch.from_numpy(data.y[rows]).to(device)
        weight = torch.from_numpy(weights).to(device)
        evidence = self.model(torch.from_numpy(x).to(device), multiplets=ratio < 1)
        loss = ratio * LOSSES[self.recipe.loss](evidence.scores, y, inside, weight)
        if ratio < 1:
            loss = loss + (1 - ratio) * multiplet_cross_entropy(evidence.multiplets, y, inside, weight)
        return loss

    @torch.no_grad()
    def _validate(self, data: Examples) -> float:
        self.model.eval()
        weights = data.weights() / len(data)
        rows = np.arange(len(data))
        parts = np.array_split(rows, math.ceil(len(rows) / self.recipe.batch_size))
        return self._sum(sum(self._loss(data, part, weights[part]).item() for part in parts[self.rank :: self.world]))

    def _sum(self, value: float) -> float:
        """Add a number up over the processes."""
        if not self.fabric:
            return value
        return self.fabric.all_reduce(torch.tensor(value, dtype=torch.float64), reduce_op="sum").item()  # type: ignore[no-any-return]

    def _save(self) -> None:
        tensors = {f"net.{name}": value for name, value in self.net.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in (self.best or {}).items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{name}": torch.as_tensor(value) for name, value in state.items()}
        about = {"kind": "training", "settings": self._settings(), "history": self.history}
        assert self.checkpoint is not None
        storage.write(self.checkpoint, tensors, about)

    def _resume(self) -> None:
        assert self.checkpoint is not None
        tensors, about = storage.read(self.checkpoint)
        if about.get("kind") != "training":
            raise storage.StorageError(f"{self.checkpoint} is not a training checkpoint. Choose another path.")
        mine, theirs = self._settings(), about["settings"]
        different = [name for name in mine if mine[name] != theirs.get(name)]
        if different:
            told = ", ".join(f"{name} (there {theirs.get(name)!r}, here {mine[name]!r})" for name in different)
            raise ValueError(
                f"`checkpoint`: {self.checkpoint} belongs to another run, which differs in {told}. "
                "Give this run another path, or delete the file to start anew."
            )
        self.net.load_state_dict(_under("net.", tensors))
        self.best = _under("best.", tensors) or None
        self.history = about["history"]
        self.best_loss = min((r["validation_loss"] for r in self.history if "validation_loss" in r), default=math.inf)
        packed = self.optimizer.state_dict()
        for name, value in _under("optimizer.", tensors).items():
            i, key = name.split(".", 1)
            packed["state"].setdefault(int(i), {})[key] = value
        self.optimizer.load_state_dict(packed)

    def _settings(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed."""
        settings = asdict(self.recipe)
        rows = np.unique(np.linspace(0, len(self.train_set) - 1, 8).astype(int))
        settings["network"] = {name: list(value.shape) for name, value in self.net.state_dict().items()}
        settings["train_size"] = len(self.train_set)
        settings["validation_size"] = len(self.validation_set) if self.validation_set else 0
        settings["data"] = float(np.abs(self.train_set.read(rows)[0].astype(np.float64)).sum())
        settings["labels"] = int(self.train_set.y @ (1 + np.arange(len(self.train_set)) % 1009))
        return settings


def _optimizer(net: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    weights = [p for p in net.parameters() if p.requires_grad and p.ndim > 1]
    others = [p for p in net.parameters() if p.requires_grad and p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": recipe.weight_decay}, {"params": others}]
    if recipe.optimizer == "adam":
        return torch.optim.Adam(groups, lr=recipe.learning_rate, fused=True)
    return torch.optim.RMSprop(groups, lr=recipe.learning_rate)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _note(record: dict[str, float]) -> str:
    told = f"loss {record['train_loss']:.4g}"
    return told + (f" · validation {record['validation_loss']:.4g}" if "validation_loss" in record else "")


RECIPE_FIELDS = tuple(field.name for field in fields(Recipe))
