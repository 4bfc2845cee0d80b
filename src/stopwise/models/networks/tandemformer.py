"""TANDEMformer model."""

from __future__ import annotations

from typing import ClassVar

from stopwise.models.networks.base import NetworkModel
from stopwise.models.networks.modules import TandemformerModule
from stopwise.models.networks.training.config import Training

LEAST_WIDTH = 32  # of the tokens, with width="auto"


class Tandemformer(NetworkModel):
    """TANDEMformer, a transformer whose pooling allows evidence to accumulate.

    Parameters
    ----------
    order
        N, the Markov order, as for `TanhTandem`.
    blocks
        Number of transformer blocks. The blocks do not share weights.
    heads
        Number of attention heads per block.
    head_size
        Size of each attention head.
    feed_forward
        Number of hidden units of the feed-forward layer in each block.
    mlp
        Number of hidden units of the MLP after the pooling.
    pooling
        Pooling of the tokens of a prefix. "nsp" (normalized summation pooling): their sum divided by the
        constant N+1. "gap" (global average pooling): their mean. "one-token": the output of a learned token.
        Only "nsp" lets the evidence grow with the number of samples.
    positions
        Positional encoding of a sample in its window: "none", "sinusoidal" or "learned". With "none", the
        order of the samples in a window has no effect, which suits samples that are independent in time.
    formula
        Formula that combines the logits of windows into scores: "tandem" or "oblivion", as for
        `TanhTandem`.
    layer_norm
        Apply layer normalization before attention and before the feed-forward layer. This bounds the summed
        tokens.
    dropout
        Dropout rate in the blocks and in the MLP.
    loss, llre_ratio, polish, training
        As for `Accumulator`.
    width
        Size of the tokens. A linear layer maps each sample to a token of this size. None means that the
        samples are the tokens, as in the paper. "auto" is 32 for series with fewer than 32 channels, and None
        for all others: tokens of few dimensions can hardly hold what attention adds to the samples.

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
        width: int | str | None = "auto",
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
        self.width = width

    def build(self, channels: int, classes: int, order: int | None, steps: int) -> TandemformerModule:
        """Build an untrained network; see `NetworkModel.build`."""
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
            width=self._token_size(channels),
        )

    def _token_size(self, channels: int) -> int | None:
        """Return the size of the tokens; None if the samples are the tokens."""
        if not isinstance(self.width, str):
            return self.width
        if self.width != "auto":
            raise ValueError(f"`width` must be an integer, None or 'auto'; got {self.width!r}.")
        return LEAST_WIDTH if channels < LEAST_WIDTH else None
