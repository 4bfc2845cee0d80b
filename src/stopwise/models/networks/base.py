"""Base class of network models: choice of the order, training, polishing, and saving of the weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from stopwise.data.examples import Examples
from stopwise.models.base import Model, OnEpoch
from stopwise.models.networks.blank import blank, check_buildable, check_weights
from stopwise.models.networks.modules import Integrator
from stopwise.models.networks.steps import make_step
from stopwise.models.networks.training import checkpoint as checkpoints
from stopwise.models.networks.training.config import Training, available_device
from stopwise.models.networks.training.loop import Task, train
from stopwise.models.networks.training.objective import Objective
from stopwise.models.networks.training.order_search import candidates, search
from stopwise.models.networks.training.polish import POLISHING, polish, polish_work
from stopwise.models.networks.training.threads import one_blas_thread, step_work, threads_for
from stopwise.models.step import Step
from stopwise.progress import Stages
from stopwise.validation import check_integer

SEARCHING = "choosing the order"
SHORT_EPOCHS = 5  # of a fit that only shows whether a full one can pay


class NetworkModel(Model):
    """Base class of models that are torch networks trained by gradient descent.

    Attributes
    ----------
    net_
        Trained torch module.
    order_
        N, the Markov order of the trained network; None if it has no finite order.
    report_
        Dict with four keys. `history`: losses and learning rate of each epoch. `order_search`: held-out LSEL
        of linear fits of each candidate order, its excess over the best and the standard error of the excess;
        None unless order="auto". `body_search`: the same for networks that were trained for a short time,
        by body; None unless the order search found that no finite order is enough and the model has several
        bodies. `polish`: settings chosen by polishing, and the validation loss before and after it; None if
        polish=False.
    """

    order: int | str | None
    loss: str
    llre_ratio: float
    polish: bool
    training: Training | None

    net_: Integrator
    order_: int | None
    _brief: bool = False  # whether the polish is brief

    @abstractmethod
    def build(self, channels: int, classes: int, order: int | None, steps: int) -> Integrator:
        """Build an untrained network.

        Parameters
        ----------
        channels
            C, the number of input values per sample.
        classes
            K, the number of classes.
        order
            N, the Markov order. None means no finite order or, for networks that need a finite one, the
            longest order that `steps` allows.
        steps
            T, the length of the training series.
        """

    def fit(
        self,
        examples: Examples,
        validation: Examples | None = None,
        *,
        random_state: int = 0,
        progress: bool | str = False,
        checkpoint: Path | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Train the network; see `Model.fit`."""
        training = self._training.checked()
        objective = Objective(self.loss, self.llre_ratio)
        self._check_order(examples.steps)
        self.classes_count_, self.channels_, self._steps = examples.classes, examples.channels, examples.steps
        if validation is None:
            examples, validation = examples.split(training.validation_fraction, random_state)
        task = Task(examples, validation, objective, training, random_state)
        self._preflight(task)
        with one_blas_thread(), Stages(self._shares(task), progress) as stages:
            choice = self._choose(task, stages, checkpoint)
            net = self._fresh(choice["order"], random_state)
            self.net_, self.order_ = net, net.order
            with threads_for(step_work(net, training.batch_size, examples.steps)):
                history = train(
                    net,
                    task,
                    path=checkpoint,
                    choice=choice if "settings" in choice else None,
                    progress=stages,
                    on_epoch=on_epoch,
                )
            polished = self._polished(net, task, stages)
        self.report_ = {
            "order_search": choice.get("order_search"),
            "body_search": choice.get("body_search"),
            "history": history,
            "polish": polished,
        }
        return self

    def shorts(self) -> list[Model]:
        """Return an unfitted copy that trains for few epochs and polishes briefly."""
        copy = self._with_epochs(SHORT_EPOCHS)
        copy._brief = True
        return [copy]

    def limited(self, examples: Examples, samples: int) -> NetworkModel:
        """Return an unfitted copy that trains for as many epochs as the samples allow, but not very few.

        If `training` was given, its epochs are not changed.
        """
        if self.training is not None:
            return self
        return self._with_epochs(max(SHORT_EPOCHS, samples // int(examples.lengths.sum())))

    def _with_epochs(self, most: int) -> NetworkModel:
        return clone(self).set_params(training__max_epochs=min(most, self._training.max_epochs))

    def settled(self, fitted: Model) -> NetworkModel:
        """Return an unfitted copy with the order that the fit of another copy chose."""
        assert isinstance(fitted, NetworkModel)
        return clone(self).set_params(order=fitted.order_ if self.order == "auto" else self.order)

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return the scores (B, T, K) of series x (B, T, C)."""
        with threads_for(step_work(self.net_, len(x), x.shape[1])):
            return self.net_.score(x)

    def step(self, xp: Any = np) -> Step:
        """Return the streaming step; see `Model.step`."""
        step = make_step(self.net_, xp)
        return super().step(xp) if step is None else step

    @property
    def batch_size(self) -> int:
        """Number of series passed to `scores` at a time."""
        return self._training.batch_size

    def fitted(self) -> dict[str, Any]:
        """Return the values that `restore` needs in addition to the tensors."""
        return {"order": self.order_, "steps": self._steps}

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights of the network by name."""
        return self.net_.state_dict()

    def restore(self, fitted: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
        """Restore the trained network, which uses the tensors without a copy if the model is a built-in one.

        If this fails, the model is not changed.
        """
        classes = check_integer("classes", fitted["classes"], 2)
        channels = check_integer("channels", fitted["channels"], 1)
        steps = check_integer("steps", fitted["steps"], 1)
        order = None if fitted["order"] is None else check_integer("order", fitted["order"], 0, steps - 1)
        self._training.checked(device="cpu")  # the device is checked next
        device = available_device(self._training.device)
        net = self._rebuilt(lambda: self.build(channels, classes, order, steps), tensors)
        self.net_ = net.to(device).eval()
        self.classes_count_, self.channels_, self.order_, self._steps = classes, channels, order, steps

    def _rebuilt(self, build: Callable[[], Integrator], tensors: dict[str, Tensor]) -> Integrator:
        """Return the network with these weights; raise a ValueError if they are those of another network."""
        if vars(type(self)).get("name"):
            net = blank(build, most=len(tensors))
            check_weights(net, tensors)
            net.load_state_dict(tensors, assign=True)
            return net
        # A custom model: its module may need real tensors, so only the comparison is made without memory.
        try:
            planned = blank(build, most=len(tensors))
        except Exception:
            planned = None
        if planned is not None:
            check_weights(planned, tensors)
        with torch.random.fork_rng([]):
            net = build()
        check_weights(net, tensors)
        net.load_state_dict(tensors)
        return net

    def set_params(self, **params: Any) -> Self:
        """Set parameters. ``training__<name>`` sets a training option, also if `training` is None."""
        if self.training is None and any(name.startswith("training__") for name in params):
            self.training = Training()
        return super().set_params(**params)

    @property
    def _training(self) -> Training:
        if self.training is None:
            return Training()
        if not isinstance(self.training, Training):
            raise TypeError(f"`training` must be a stopwise.models.Training or None; got {self.training!r}.")
        return self.training

    def _check_order(self, steps: int) -> None:
        if self.order is None or (isinstance(self.order, str) and self.order == "auto"):
            return
        if isinstance(self.order, str):
            raise ValueError(f"`order` must be an integer, None or 'auto'; got {self.order!r}.")
        if check_integer("order", self.order, 0) > steps - 1:
            raise ValueError(
                f"`order` must be in [0, T−1]; got order={self.order} for series of length T={steps}. "
                "Use a smaller order, order=None or order='auto'."
            )

    def _preflight(self, task: Task) -> None:
        """Raise an error before training if a setting does not match the network or the data."""
        if not isinstance(self.polish, bool):
            raise TypeError(f"`polish` must be True or False; got {self.polish!r}.")
        if vars(type(self)).get("name"):
            order = 0 if self.order == "auto" else self.order
            check_buildable(
                lambda: self.build(self.channels_, self.classes_count_, order, self._steps)  # type: ignore[arg-type]
            )
        if self.order == "auto" and task.validation_set is None:
            raise ValueError(
                "`order`='auto' needs validation series to choose the order, but there are none. Pass "
                "`validation_data`, increase `validation_fraction`, or set `order` to an integer."
            )
        order = None if self.order is None or self.order == "auto" else int(self.order)
        self._fresh(order, task.seed)  # raises an error if an option of the network is invalid

    def _choose(self, task: Task, stages: Stages, path: Path | None) -> dict[str, Any]:
        """Return what is chosen before training: the `order` (None: no finite order) and reports about it.

        With a checkpoint, choices are written to it, and those of an interrupted fit are read from it.
        """
        if self.order != "auto":
            return {"order": None if self.order is None else int(self.order)}
        settings = checkpoints.task_settings(task) if path else {}
        if path and path.exists():
            choice = checkpoints.load_choice(path, settings)
        else:
            # Two threads are hardly faster than one, and took up to 17 times as long on a busy machine.
            with stages.stage(SEARCHING, len(self._candidates())) as stage, threads_for(0):
                order, seen = search(self._candidates(), task, advance=stage.advance)
            choice = {"order": order, "order_search": seen, "settings": settings}
            if path:
                checkpoints.save_choice(path, choice)
        return self._choose_body(choice, task, stages, path)

    def _choose_body(
        self, choice: dict[str, Any], task: Task, stages: Stages, path: Path | None
    ) -> dict[str, Any]:
        """Return the choice, completed by networks that are compared if no finite order is enough."""
        return choice

    def _polished(self, net: Integrator, task: Task, stages: Stages) -> dict[str, Any] | None:
        """Polish the network and return the report; None if polish=False."""
        if not self.polish:
            return None
        with threads_for(polish_work(net, task.training.batch_size, task.train_set.steps)):
            return polish(net, task, brief=self._brief, progress=stages)

    def _shares(self, task: Task) -> dict[str, float]:
        """Return the approximate shares of the stages in the time of a fit, in epochs."""
        epochs = task.training.max_epochs
        searching = {SEARCHING: 2.0} if self.order == "auto" else {}
        return searching | {"training": epochs} | ({POLISHING: 0.3 * epochs} if self.polish else {})

    def _candidates(self) -> list[int | None]:
        """Return the candidate orders for order="auto"."""
        return candidates(self._steps)

    def _fresh(self, order: int | None, seed: int) -> Integrator:
        """Return an untrained network whose initial weights depend only on the seed."""
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            return self.build(self.channels_, self.classes_count_, order, self._steps)
