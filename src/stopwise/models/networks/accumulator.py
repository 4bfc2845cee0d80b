"""Accumulator model."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, ClassVar

from stopwise.models.networks.base import NetworkModel
from stopwise.models.networks.modules import AccumulatorModule
from stopwise.models.networks.training import checkpoint as checkpoints
from stopwise.models.networks.training.config import Training
from stopwise.models.networks.training.loop import Task
from stopwise.models.networks.training.order_search import CANDIDATES, best_finite_order
from stopwise.models.networks.training.threads import step_work, threads_for
from stopwise.models.networks.training.trials import Losses, compare
from stopwise.progress import Stages
from stopwise.validation import check_choice

BODIES = ("auto", "window", "lstm")
# Bodies of no finite order, which order="auto" compares with a window if no finite order seems enough.
UNLIMITED_BODIES = ("lstm",)
TRIAL_SHARE = 0.2  # approximate share of a trial in the time of the training


class Accumulator(NetworkModel):
    """Network that computes an increment of evidence per sample and adds the increments up over time.

    The increments are moderate even where their sum is in the hundreds, so the log-likelihood ratios (LLRs)
    do not saturate. This is the most precise model where evidence adds up sample by sample.

    Parameters
    ----------
    order
        N, the Markov order: the increment of a sample depends on this sample and on the N samples before it.
        None means no finite order and implies body="lstm". "auto" compares several small orders on held-out
        series by linear fits, without training a network, and takes the smallest order that is not clearly
        worse than the best. With body="lstm", there is no search.
    body
        Network that computes the increments. "window": a map of the last N+1 samples, the same at every
        step. "lstm": an LSTM over all samples so far, which has no finite order. "auto": "window" if `order`
        is an integer, "lstm" if it is None. If it is "auto": "window", unless no finite order seems enough;
        then both are trained for a short time, and the LSTM is taken if it is clearly better.
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

    def __init__(
        self,
        order: int | str | None = "auto",
        body: str = "auto",
        hidden: int = 64,
        skip: bool = True,
        products: int | None = None,
        activation: str = "tanh",
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
        self.layer_norm = layer_norm
        self.dropout = dropout
        self.loss = loss
        self.llre_ratio = llre_ratio
        self.polish = polish
        self.training = training

    @property
    def body_(self) -> str:
        """Body of the fitted network: "window" or "lstm"."""
        return "lstm" if self.order_ is None else "window"

    def build(self, channels: int, classes: int, order: int | None, steps: int) -> AccumulatorModule:
        """Build an untrained network; see `NetworkModel.build`."""
        return AccumulatorModule(
            channels,
            classes,
            order,
            hidden=self.hidden,
            skip=self.skip,
            products=self.products,
            activation=self.activation,
            layer_norm=self.layer_norm,
            dropout=self.dropout,
        )

    def _check_order(self, steps: int) -> None:
        super()._check_order(steps)
        check_choice("body", self.body, BODIES)
        if self.body == "lstm" and self.order not in (None, "auto"):
            raise ValueError(
                f"`order` must be None or 'auto' with body='lstm', which reads all samples so far; got "
                f"order={self.order}. Use body='window' for a finite order."
            )
        if self.body == "window" and self.order is None:
            raise ValueError(
                "`order` must be an integer or 'auto' with body='window'; got None, which means no finite "
                "order. Set `order`, or use body='lstm'."
            )

    def _choose(self, task: Task, stages: Stages, path: Path | None) -> dict[str, Any]:
        return {"order": None} if self.body == "lstm" else super()._choose(task, stages, path)

    def _choose_body(
        self, choice: dict[str, Any], task: Task, stages: Stages, path: Path | None
    ) -> dict[str, Any]:
        """Compare a window with the bodies of no finite order, if a window of linear features is not enough.

        A window of learned features may still be better than these bodies.
        """
        if choice["order_search"][-1]["order"] is not None or choice["order"] is not None:
            return choice
        orders: dict[str, int | None] = {"window": best_finite_order(choice["order_search"])}
        orders |= dict.fromkeys(UNLIMITED_BODIES)

        def save(losses: Losses) -> None:
            choice["trials"] = losses
            if path:
                checkpoints.save_choice(path, choice)

        if "body_search" not in choice:
            for name in orders:
                stages.plan(f"trying {name}", TRIAL_SHARE * task.training.max_epochs)
            networks = {
                name: functools.partial(self._fresh, order, task.seed) for name, order in orders.items()
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
            choice |= {"order": orders[body], "body_search": seen}
            choice.pop("trials", None)
            if path:
                checkpoints.save_choice(path, choice)
        return choice

    def _candidates(self) -> list[int | None]:
        orders = super()._candidates()
        if self.body == "auto":
            return orders
        # Without a body of no finite order, the longest window replaces it.
        finite = [order for order in orders if order is not None]
        longest = min(self._steps - 1, max(CANDIDATES))
        return [*finite, *({longest} - set(finite))]
