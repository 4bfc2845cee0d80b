"""One plain training loop: batches, optimiser, validation, best weights, resume, progress.

All randomness of an epoch comes from (seed, epoch), so a run that is killed and resumed at its last epoch
goes on exactly as one left alone.
"""

from __future__ import annotations

import atexit
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import ProcessRaisedException

from stopwise.data.examples import Examples
from stopwise.llr import LOSSES, multiplet_cross_entropy
from stopwise.models.networks.modules import Integrator
from stopwise.models.networks.training import checkpoint as snapshot
from stopwise.models.networks.training.config import Recipe
from stopwise.persistence.tensors import StorageError
from stopwise.progress import Reporter


def train(
    net: Integrator,
    train_set: Examples,
    validation_set: Examples | None,
    recipe: Recipe,
    *,
    checkpoint: Path | None = None,
    progress: bool | str = False,
    title: str = "training",
    on_epoch: Callable[[dict[str, float]], None] | None = None,
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
    progress, title
        As for `Reporter`.
    on_epoch
        Called with the record of each epoch when it is done, the network being ready to score. What it
        raises ends the training. On one device only.

    Returns
    -------
    history
        For each epoch: epoch, train_loss, validation_loss (if there is a set), learning_rate.
    """
    if on_epoch is not None and recipe.devices > 1:
        raise ValueError(f"`on_epoch` needs devices=1; got devices={recipe.devices}.")
    run = _Run(train_set, validation_set, recipe, checkpoint, progress, title, on_epoch)
    if recipe.devices == 1:
        history = run.execute(net.to(recipe.device), None)
    else:
        weights, history = _launch(run, net)
        net.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
        net.to(recipe.device)
    net.eval()
    return history


def _launch(run: _Run, net: Integrator) -> tuple[dict[str, np.ndarray], list[dict[str, float]]]:
    """Execute a run on several devices, a process each."""
    recipe = run.recipe
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        raise ImportError(
            f"devices={recipe.devices} needs Lightning Fabric: pip install 'stopwise[distributed]'."
        ) from error
    accelerator = torch.device(recipe.device).type
    fabric: Any = Fabric(accelerator=accelerator, devices=recipe.devices, strategy="ddp_spawn")
    try:
        return fabric.launch(_execute_on_fabric, run, net)
    except ProcessRaisedException as error:
        # Its last line is what was raised in the process: "ValueError: `checkpoint`: ..."
        kind, _, message = str(error).strip().splitlines()[-1].partition(": ")
        known = {"FloatingPointError": FloatingPointError, "ValueError": ValueError}
        known["stopwise.persistence.tensors.StorageError"] = StorageError
        if kind in known:
            raise known[kind](message) from error
        raise


def _execute_on_fabric(
    fabric: Any, run: _Run, net: Integrator
) -> tuple[dict[str, np.ndarray], list[dict[str, float]]]:
    history = run.execute(net, fabric)
    fabric.barrier()
    # All is done but handing over the result. Threads of the process group are still there, and taking the
    # interpreter down around them now and then aborts the process: leave without.
    atexit.register(os._exit, 0)
    # numpy, because tensors would travel through shared memory of a process that is about to end
    return {name: value.cpu().numpy() for name, value in net.state_dict().items()}, history


class _Run:
    """One training run; `execute` is the same on one device and, under Fabric, on each of several.

    It holds no network: Fabric must see that beside it, to give every process a copy of its own.
    """

    def __init__(
        self,
        train_set: Examples,
        validation_set: Examples | None,
        recipe: Recipe,
        checkpoint: Path | None,
        progress: bool | str,
        title: str,
        on_epoch: Callable[[dict[str, float]], None] | None,
    ) -> None:
        self.train_set, self.validation_set, self.recipe = train_set, validation_set, recipe
        self.checkpoint, self.progress, self.title = checkpoint, progress, title
        self.on_epoch = on_epoch
        self.best: dict[str, Tensor] | None = None
        self.history: list[dict[str, float]] = []

    def execute(self, net: Integrator, fabric: Any) -> list[dict[str, float]]:
        recipe = self.recipe
        self.net, self.fabric = net, fabric
        self.device = fabric.device if fabric else torch.device(recipe.device)
        self.rank: int = fabric.global_rank if fabric else 0
        self.world: int = fabric.world_size if fabric else 1
        self.model: nn.Module = net
        self.optimizer = _optimizer(net, recipe)
        if self.checkpoint:
            self.settings = snapshot.settings(self.net, self.train_set, self.validation_set, recipe)
            if self.checkpoint.exists():
                state = snapshot.load(self.checkpoint, self.net, self.optimizer, self.settings)
                self.best, self.history = state
        if fabric:
            self.model, self.optimizer = fabric.setup(self.net, self.optimizer)
        with (
            torch.random.fork_rng([self.device] if self.device.type == "cuda" else []),
            Reporter(self.title, recipe.max_epochs, self.progress if self.rank == 0 else False) as reporter,
        ):
            reporter.skip(len(self.history))
            while len(self.history) < recipe.max_epochs and not self._is_over():
                self._epoch(len(self.history) + 1)
                reporter.advance(_note(self.history[-1]))
                if self.on_epoch is not None:
                    self.net.eval()
                    self.on_epoch(self.history[-1])
        if self.best is not None:
            self.net.load_state_dict(self.best)
        return self.history

    def _is_over(self) -> bool:
        """Whether the validation loss has not improved for `patience` epochs."""
        losses, patience = self._validation_losses(), self.recipe.patience
        return (
            patience is not None
            and len(losses) > patience
            and int(np.argmin(losses)) < len(losses) - patience
        )

    def _validation_losses(self) -> list[float]:
        return [record["validation_loss"] for record in self.history if "validation_loss" in record]

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
            self._check(loss, f"in epoch {epoch}, step {number + 1}")
            total += loss * len(rows)
        record = {"epoch": epoch, "train_loss": self._sum(total) / len(order), "learning_rate": rate}
        if self.validation_set is not None:
            loss = self._validate(self.validation_set)
            self._check(loss, f"on the validation data after epoch {epoch}")
            record["validation_loss"] = loss
            if loss < min(self._validation_losses(), default=math.inf):
                self.best = {name: value.detach().clone() for name, value in self.net.state_dict().items()}
        self.history.append(record)
        if self.checkpoint and self.rank == 0:
            state = snapshot.Snapshot(self.best, self.history)
            snapshot.save(self.checkpoint, self.net, self.optimizer, state, self.settings)

    def _check(self, loss: float, where: str) -> None:
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"Training diverged: the loss is {loss} {where}. Lower `learning_rate` (now "
                f"{self.recipe.learning_rate:g}) or set `gradient_clip` (now {self.recipe.gradient_clip})."
            )

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
        loss = self._loss(self.model, self.train_set, own, share)
        # Data-parallel gradients are averaged over processes, whose shares add up to the loss.
        (self.fabric.backward if self.fabric else torch.Tensor.backward)(loss * self.world)
        if self.recipe.gradient_clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.gradient_clip)
        self.optimizer.step()
        return loss.item()

    def _loss(self, model: nn.Module, data: Examples, rows: np.ndarray, weights: np.ndarray) -> Tensor:
        """Return the sum of weighted losses of some rows."""
        device, ratio = self.device, self.recipe.llre_ratio
        x, lengths = data.read(rows)
        inside = None if (lengths == x.shape[1]).all() else torch.from_numpy(lengths).to(device)
        y = torch.from_numpy(data.y[rows]).to(device)
        weight = torch.from_numpy(weights.astype(np.float32)).to(device)
        evidence = model(torch.from_numpy(x).to(device), multiplets=ratio < 1)
        loss = ratio * LOSSES[self.recipe.loss](evidence.scores, y, inside, weight)
        if ratio < 1:
            if evidence.multiplets is None:
                raise TypeError(
                    f"`llre_ratio`={ratio:g} needs the multiplets' logits, and {type(self.net).__name__} "
                    "gives none: set llre_ratio=1.0."
                )
            loss = loss + (1 - ratio) * multiplet_cross_entropy(evidence.multiplets, y, inside, weight)
        return loss

    @torch.no_grad()
    def _validate(self, data: Examples) -> float:
        self.model.eval()
        weights = data.weights() / len(data)
        rows = np.arange(len(data))
        parts = np.array_split(rows, math.ceil(len(rows) / self.recipe.batch_size))
        # The bare network: the data-parallel one waits for the other processes, which may have no part.
        own = parts[self.rank :: self.world]
        return self._sum(sum(self._loss(self.net, data, part, weights[part]).item() for part in own))

    def _sum(self, value: float) -> float:
        """Add a number up over the processes."""
        if not self.fabric:
            return value
        total = self.fabric.all_reduce(torch.tensor(value, dtype=torch.float64), reduce_op="sum")
        return float(total)


def _optimizer(net: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    learned = {name: p for name, p in net.named_parameters() if p.requires_grad}
    free = [name for name, p in learned.items() if p.ndim <= 1 or name.endswith("bias")]
    groups: list[dict[str, Any]] = [
        {
            "params": [p for name, p in learned.items() if name not in free],
            "weight_decay": recipe.weight_decay,
        },
        {"params": [learned[name] for name in free]},
    ]
    if recipe.optimizer == "adam":
        return torch.optim.Adam(groups, lr=recipe.learning_rate, fused=True)
    return torch.optim.RMSprop(groups, lr=recipe.learning_rate)


def _note(record: dict[str, float]) -> str:
    told = f"loss {record['train_loss']:.4g}"
    return told + (f" · validation {record['validation_loss']:.4g}" if "validation_loss" in record else "")
