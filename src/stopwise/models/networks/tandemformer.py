"""TANDEMformer as a model."""

from __future__ import annotations

from typing import ClassVar

from stopwise.models.networks.base import NetworkModel
from stopwise.models.networks.modules import TandemformerModule
from stopwise.models.networks.training.config import Training


class Tandemformer(NetworkModel):
    """TANDEMformer: a transformer whose pooling lets evidence accumulate.

    Parameters
    ----------
    order
        N, the Markov order, as for `TanhTandem`.
    blocks, heads, head_size, feed_forward, mlp
        Sizes; every block has weights of its own.
    pooling
        "nsp": the sum of the tokens over the constant N+1, so that evidence grows with the samples. "gap":
        their mean. "one-token": the output of a learned token. The last two do not grow.
    positions
        "none", "sinusoidal" or "learned": the place of a sample in its window. With "none" the window is a
        set: right for samples that are independent in time, and blind to their order.
    formula
        "tandem" or "oblivion", as for `TanhTandem`.
    layer_norm
        Normalize before attention and feed-forward. It bounds what is summed.
    dropout
        In the blocks and the MLP.
    loss, llre_ratio, polish, training
        As for `Accumulator`.

    Examples
    --------
    >>> import stopwise as sw
    >>> sw.EarlyClassifier(sw.models.Tandemformer(order=10, positions="learned"))
    EarlyClassifier(model=Tandemformer(order=10, positions='learned'))
    """

    name: ClassVar[str | None] = "tandemformer"

    def __init__(
        self,
        order: int | str | None = "auto",
        blocks: int = 1,
        heads: int = 2,
        head_size: int = 16,
        feed_forward: int = 32,
        mlp: int = 32,
        pooling: str = "nsp",
        positions: str = "none",
        formula: str = "tandem",
        layer_norm: bool = False,
        dropout: float = 0.0,
        loss: str = "lsel",
        llre_ratio: float = 0.5,
        polish: bool = True,
        training: Training | None = None,
    ) -> None:
        self.order = order
        self.blocks = blocks
        self.heads = heads
        self.head_size = head_size
        self.feed_forward = feed_forward
        self.mlp = mlp
        self.pooling = pooling
        self.positions = positions
        self.formula = formula
        self.layer_norm = layer_norm
        self.dropout = dropout
        self.loss = loss
        self.llre_ratio = llre_ratio
        self.polish = polish
        self.training = training

    def build(self, channels: int, classes: int, order: int | None, steps: int) -> TandemformerModule:
        """Return an untrained network."""
        return TandemformerModule(
            channels,
            classes,
            steps - 1 if order is None else order,
            self.formula,
            blocks=self.blocks,
            heads=self.heads,
            head_size=self.head_size,
            feed_forward=self.feed_forward,
            mlp=self.mlp,
            pooling=self.pooling,
            layer_norm=self.layer_norm,
            positions=self.positions,
            dropout=self.dropout,
        )
