"""The accumulator as a model."""

from __future__ import annotations

from typing import Any, ClassVar

from stopwise.models.networks.base import NetworkModel
from stopwise.models.networks.modules import AccumulatorModule
from stopwise.models.networks.training.config import Training
from stopwise.models.networks.training.loop import Task
from stopwise.validation import check_choice

BODIES = ("auto", "window", "lstm")


class Accumulator(NetworkModel):
    """A network that emits increments of evidence, which are added up over time.

    The increments are moderate even where their sum is in the hundreds, so the log-likelihood ratios do not
    saturate. The most precise model where evidence adds up sample by sample.

    Parameters
    ----------
    order
        N, the Markov order: the increment of a sample depends on it and on the N samples before it. "auto":
        short trainings of small orders and of `body="lstm"`, of which the first is taken that is not clearly
        worse on validation series. None: no finite order, which means `body="lstm"`.
    body
        What the increments are computed from. "window": the last N+1 samples, the same map at every step.
        "lstm": all samples so far, by an LSTM; takes no finite order. "auto": "window" if an order is given,
        "lstm" with order=None, and whichever order="auto" finds better.
    hidden
        H, the number of features.
    skip
        Give the last layer the sample itself beside the features: evidence that is linear in the sample
        needs no learning then.
    products
        How many of the features of body="window" are products of two linear maps, which are exact for
        Gaussian processes; the others are rectified linear maps. None: half of them.
    activation
        "tanh" or "b2bsqrt", of the LSTM.
    layer_norm
        Normalize the features.
    dropout
        On the features.
    loss
        "lsel" or "lllr".
    llre_ratio
        r in r · loss + (1−r) · multiplet cross-entropy.
    polish
        After training, take the last layer to the optimum of its convex loss on the training series. It
        corrects the scale of large LLRs, in a few dozen passes over the data.
    training
        Options of training; None: `Training()`.

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
        """The body in use: "window" or "lstm"."""
        return "lstm" if self.order_ is None else "window"

    def build(self, channels: int, classes: int, order: int | None, steps: int) -> AccumulatorModule:
        """Return an untrained network."""
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
                "`order`=None means no finite order, and body='window' needs one: give an integer, 'auto', "
                "or body='lstm'."
            )

    def _choose_order(
        self, task: Task, progress: bool | str
    ) -> tuple[int | None, list[dict[str, Any]] | None]:
        return (None, None) if self.body == "lstm" else super()._choose_order(task, progress)

    def _candidates(self) -> list[int | None]:
        orders = super()._candidates()
        if self.body == "auto":
            return orders
        return [self._steps - 1 if order is None else order for order in orders]
