"""Accumulator model."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import Tensor

from stopwise.data.examples import Examples
from stopwise.models.base import Model, OnEpoch
from stopwise.models.networks.base import NetworkModel
from stopwise.models.networks.modules import AccumulatorModule
from stopwise.models.networks.training import checkpoint as checkpoints
from stopwise.models.networks.training.config import Training
from stopwise.models.networks.training.filter_fit import choose_stage, start_filter
from stopwise.models.networks.training.loop import Task
from stopwise.models.networks.training.objective import Objective
from stopwise.models.networks.training.order_search import CANDIDATES, best_finite_order
from stopwise.models.networks.training.polish import polish
from stopwise.models.networks.training.threads import step_work, threads_for
from stopwise.models.networks.training.trials import Losses, compare
from stopwise.progress import Stages
from stopwise.validation import check_choice

BODIES = ("auto", "window", "lstm", "filter")
# Bodies without a finite order, which order="auto" compares with a window if no finite order seems enough.
ENDLESS = ("lstm", "filter")
TRIAL_SHARE = 0.2  # approximate share of a trial in the time of the training


class Accumulator(NetworkModel):
    """Network that computes an increment of evidence per sample and adds the increments up over time.

    The increments are moderate even where their sum is in the hundreds, so the log-likelihood ratios (LLRs)
    do not saturate. This is the most precise model where evidence adds up sample by sample.

    Parameters
    ----------
    order
        N, the Markov order: the increment of a sample depends on this sample and on the N samples before it.
        None means no finite order; the body is then "lstm", unless body="filter". "auto" finds the smallest
        order that is not clearly worse than the best on the validation series, by convex fits without
        training. If no finite order is enough, networks with each body are trained for a short time and
        compared. With body="window", the longest order is tried instead; with body="lstm" or "filter", there
        is no search.
    body
        Network that computes the increments. "window": a map of the last N+1 samples, the same at every
        step. "lstm": an LSTM over all samples so far, which has no finite order. "filter": a map of the
        sample, plus a Bayesian filter over hidden states, for series driven by states that the samples do not
        show. It has no finite order either. "auto": "window" if `order` is an integer, "lstm" if it is None,
        and the best of "window", "lstm" and "filter" if it is "auto".
    hidden
        H, the number of features.
    skip
        Pass the sample itself to the last layer in addition to the features. Evidence that is linear in the
        sample then requires no learned features.
    products
        Number of features of the window body that are products of two linear maps. Products represent the
        evidence between Gaussian processes exactly. The other features are linear maps followed by a ReLU.
        None means half of the features.
    activation
        Activation of the LSTM body: "tanh" or "b2bsqrt".
    states
        M, the number of hidden states of the filter body. Too many cost time and a little precision; too few
        cannot represent the series.
    layer_norm
        Apply layer normalization to the features.
    dropout
        Dropout rate of the features.
    loss
        Loss of the scores: "lsel" or "lllr".
    llre_ratio
        Weight r in the training objective r · loss + (1−r) · multiplet cross-entropy.
    polish
        After training, optimize the last layer alone on the training series. Its loss is convex for
        loss="lsel". This corrects the scale of large LLRs and takes a few dozen passes over features that are
        computed once.
    training
        Training options. None means the defaults of `Training`.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=200, channels=3, length=10, seed=0)
    >>> model = sw.models.Accumulator(order=0, training=sw.models.Training(max_epochs=5))
    >>> clf = sw.EarlyClassifier(model).fit(X, y)
    >>> clf.model_.order_, clf.model_.body_
    (0, 'window')
    """

    name: ClassVar[str | None] = "accumulator"

    # Body of a fitted network without a finite order; None before the fit: as the parameter `body` says.
    _chosen_body: str | None = None
    # Weights and report of the start of the filter, during a fit.
    _start: dict[str, Tensor] | None = None
    _start_report: dict[str, Any]

    def __init__(
        self,
        order: int | str | None = "auto",
        body: str = "auto",
        hidden: int = 64,
        skip: bool = True,
        products: int | None = None,
        activation: str = "tanh",
        states: int = 8,
        layer_norm: bool = False,
        dropout: float = 0.0,
        loss: str = "lsel",
        llre_ratio: float = 0.5,
        polish: bool = True,
        training: Training | None = None,
    ) -> None:
        self.order = order
        self.body = body
        self.hidden = hidden
        self.skip = skip
        self.products = products
        self.activation = activation
        self.states = states
        self.layer_norm = layer_norm
        self.dropout = dropout
        self.loss = loss
        self.llre_ratio = llre_ratio
        self.polish = polish
        self.training = training

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
        if validation is None:
            examples, validation = examples.split(training.validation_fraction, random_state)
        self._start = self._chosen_body = None
        super().fit(
            examples,
            validation,
            random_state=random_state,
            progress=progress,
            checkpoint=checkpoint,
            on_epoch=on_epoch,
        )
        if self._start is not None:
            task = Task(examples, validation, Objective(self.loss, self.llre_ratio), training, random_state)
            self._keep_better(task)
        return self

    def shorts(self) -> list[Model]:
        """Return unfitted copies that train for few epochs: with a window, and with a filter."""
        if self.body != "auto" or self.order != "auto":
            return super().shorts()
        (window,), (endless,) = super().shorts(), super().shorts()
        return [window.set_params(body="window"), endless.set_params(body="filter", order=None)]

    def settled(self, fitted: Model) -> Accumulator:
        """Return an unfitted copy with the order and body that the fit of another copy chose."""
        copy = super().settled(fitted)
        assert isinstance(copy, Accumulator)
        assert isinstance(fitted, Accumulator)
        return copy.set_params(body=fitted.body_)

    @property
    def body_(self) -> str:
        """Body of the fitted network: "window", "lstm" or "filter"."""
        return "window" if self.order_ is not None else self._endless_body

    def fitted(self) -> dict[str, Any]:
        """Return the values that `restore` needs in addition to the tensors."""
        return super().fitted() | {"body": self.body_}

    def restore(self, fitted: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
        """Restore the trained network. If this fails, the model is not changed."""
        before, body = self._chosen_body, check_choice("body", fitted["body"], BODIES[1:])
        self._chosen_body = body if body in ENDLESS else None
        try:
            super().restore(fitted, tensors)
        except Exception:
            self._chosen_body = before
            raise

    def build(self, channels: int, classes: int, order: int | None, steps: int) -> AccumulatorModule:
        """Build an untrained network; see `NetworkModel.build`."""
        return AccumulatorModule(
            channels,
            classes,
            order,
            body=self._endless_body,
            hidden=self.hidden,
            skip=self.skip,
            products=self.products,
            activation=self.activation,
            states=self.states,
            layer_norm=self.layer_norm,
            dropout=self.dropout,
        )

    @property
    def _endless_body(self) -> str:
        """Body of a network without a finite order."""
        return self._chosen_body or ("filter" if self.body == "filter" else "lstm")

    def _check_order(self, steps: int) -> None:
        super()._check_order(steps)
        check_choice("body", self.body, BODIES)
        if self.body in ENDLESS and self.order not in (None, "auto"):
            raise ValueError(
                f"`order` must be None or 'auto' with body={self.body!r}, which reads all samples so far; "
                f"got order={self.order}. Use body='window' for a finite order."
            )
        if self.body == "window" and self.order is None:
            raise ValueError(
                "`order` must be an integer or 'auto' with body='window'; got None, which means no finite "
                "order. Set `order`, or use body='lstm'."
            )

    def _choose(self, task: Task, stages: Stages, path: Path | None) -> dict[str, Any]:
        if self.body == "filter":
            self._with_body("filter", None, task)
        return {"order": None} if self.body in ENDLESS else super()._choose(task, stages, path)

    def _choose_body(
        self, choice: dict[str, Any], task: Task, stages: Stages, path: Path | None
    ) -> dict[str, Any]:
        """Compare a window with the bodies of no finite order, if a window of linear features is not enough.

        A window of learned features may still be better than these bodies.
        """
        if choice["order_search"][-1]["order"] is not None or choice["order"] is not None:
            return choice
        orders: dict[str, int | None] = {"window": best_finite_order(choice["order_search"])}
        orders |= dict.fromkeys(ENDLESS)

        def save(losses: Losses) -> None:
            choice["trials"] = losses
            if path:
                checkpoints.save_choice(path, choice)

        if "body_search" not in choice:
            for name in orders:
                stages.plan(f"trying {name}", TRIAL_SHARE * task.training.max_epochs)
            networks = {
                name: functools.partial(self._with_body, name, order, task) for name, order in orders.items()
            }
            with threads_for(step_work(networks["window"](), task.training.batch_size, self._steps)):
                body, seen = compare(
                    networks,
                    task,
                    polished=self.polish,
                    progress=stages,
                    known=choice.get("trials"),
                    on_trial=save,
                    path=path,
                )
            choice |= {"order": orders[body], "body_search": seen, "body": body}
            choice.pop("trials", None)
            if path:
                checkpoints.save_choice(path, choice)
        self._with_body(choice["body"], choice["order"], task)
        return choice

    def _with_body(self, body: str, order: int | None, task: Task) -> AccumulatorModule:
        """Set the body to use, and return a network with it; a filter is fitted to the data to begin with."""
        self._chosen_body, self._start = body if body in ENDLESS else None, None
        net = self._fresh(order, task.seed)
        if body == "filter":
            self._start_report = start_filter(net, task, brief=self._brief)
            self._start = {name: value.clone() for name, value in net.state_dict().items()}
        return net

    def _candidates(self) -> list[int | None]:
        orders = super()._candidates()
        if self.body == "auto":
            return orders
        # Without a body of no finite order, the longest window replaces it.
        finite = [order for order in orders if order is not None]
        longest = min(self._steps - 1, max(CANDIDATES))
        return [*finite, *({longest} - set(finite))]

    def _fresh(self, order: int | None, seed: int) -> AccumulatorModule:
        net = super()._fresh(order, seed)
        assert isinstance(net, AccumulatorModule)
        if self._start is not None:
            net.load_state_dict(self._start)
        return net

    def _keep_better(self, task: Task) -> None:
        """Return to the start of the filter if neither polishing it nor training it helped clearly."""
        device = task.training.device
        stages = {"start": self._fresh(None, task.seed).to(device).eval()}
        polished = {"trained": self.report_["polish"]}
        if self.polish:
            stages["polished"] = self._fresh(None, task.seed).to(device)
            polished["polished"] = polish(stages["polished"], task, brief=self._brief)
        assert isinstance(self.net_, AccumulatorModule)
        stages["trained"] = self.net_
        kept, seen = choose_stage(stages, task)
        self.net_ = stages[kept]
        self.report_["polish"] = polished.get(kept)
        self.report_["filter"] = self._start_report | {"kept": kept, "stages": seen}
        del self._start, self._start_report
