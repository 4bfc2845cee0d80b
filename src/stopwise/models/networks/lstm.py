"""LSTM models: B2Bsqrt-TANDEM and the baselines with tanh."""

from __future__ import annotations

from typing import ClassVar

from stopwise.models.networks.base import NetworkModel
from stopwise.models.networks.modules import LSTMModule
from stopwise.models.networks.training.config import Training
from stopwise.validation import check_choice


class TanhTandem(NetworkModel):
    """LSTM with tanh activations, the baseline of the paper.

    Its log-likelihood ratios saturate. TANDEM-LLLR is ``TanhTandem(loss="lllr")`` and Oblivion-LSEL is
    ``TanhTandem(formula="oblivion")``.

    Parameters
    ----------
    order
        N, the Markov order: the evidence of a sample depends on this sample and on the N samples before it.
        None means the longest order that the series allow. "auto" trains networks of several small orders
        and of the longest for a short time, and takes the smallest order that is not clearly worse than the
        best on the validation series.
    hidden
        H, the size of the LSTM state.
    formula
        Formula that combines the logits of windows into scores. "tandem" accumulates the evidence of all
        samples; "oblivion" uses the newest window only.
    layer_norm
        Apply layer normalization to the state before the last layer. This bounds the logits.
    dropout
        Dropout rate of the state before the last layer.
    forget_bias
        Initial bias of the forget gate. The larger it is, the longer the untrained network remembers.
    loss, llre_ratio, polish, training
        As for `Accumulator`.

    Examples
    --------
    >>> import stopwise as sw
    >>> sw.EarlyClassifier(sw.models.TanhTandem(order=5, loss="lllr"))
    EarlyClassifier(model=TanhTandem(loss='lllr', order=5))
    """

    name: ClassVar[str | None] = "tanh"

    def __init__(
        self,
        order: int | str | None = "auto",
        hidden: int = 64,
        formula: str = "tandem",
        layer_norm: bool = False,
        dropout: float = 0.0,
        loss: str = "lsel",
        llre_ratio: float = 0.5,
        polish: bool = True,
        training: Training | None = None,
        forget_bias: float = 1.0,
    ) -> None:
        self.order = order
        self.hidden = hidden
        self.formula = formula
        self.layer_norm = layer_norm
        self.dropout = dropout
        self.loss = loss
        self.llre_ratio = llre_ratio
        self.polish = polish
        self.training = training
        self.forget_bias = forget_bias

    def build(self, channels: int, classes: int, order: int | None, steps: int) -> LSTMModule:
        """Build an untrained network; see `NetworkModel.build`."""
        return LSTMModule(
            channels,
            classes,
            steps - 1 if order is None else order,
            self.formula,
            activation=getattr(self, "activation", "tanh"),
            hidden=self.hidden,
            alpha=getattr(self, "alpha", 1.0),
            layer_norm=self.layer_norm,
            dropout=self.dropout,
            forget_bias=self.forget_bias,
        )


class B2BsqrtTandem(TanhTandem):
    """B2Bsqrt-TANDEM, an LSTM with the unbounded activation B2Bsqrt instead of tanh.

    Parameters
    ----------
    order, hidden, formula, layer_norm, dropout, forget_bias
        As for `TanhTandem`.
    alpha
        Parameter α of the activation B2Bsqrt, sign(x)(√(α+|x|) − √α).
    activation
        "b2bsqrt", or "b2blog", the logarithm sign(x) log(1+|x|), which has no α.
    loss, llre_ratio, polish, training
        As for `Accumulator`.

    Examples
    --------
    The settings of the Gaussian experiments in the paper:

    >>> import stopwise as sw
    >>> sw.models.B2BsqrtTandem(**sw.models.PAPER_GAUSSIAN)
    B2BsqrtTandem(llre_ratio=1.0, order=None, polish=False)
    """

    name: ClassVar[str | None] = "b2bsqrt"

    def __init__(
        self,
        order: int | str | None = "auto",
        hidden: int = 64,
        alpha: float = 1.0,
        formula: str = "tandem",
        layer_norm: bool = False,
        dropout: float = 0.0,
        loss: str = "lsel",
        llre_ratio: float = 0.5,
        polish: bool = True,
        training: Training | None = None,
        forget_bias: float = 1.0,
        activation: str = "b2bsqrt",
    ) -> None:
        super().__init__(
            order, hidden, formula, layer_norm, dropout, loss, llre_ratio, polish, training, forget_bias
        )
        self.alpha = alpha
        self.activation = activation

    def build(self, channels: int, classes: int, order: int | None, steps: int) -> LSTMModule:
        """Build an untrained network; see `NetworkModel.build`."""
        check_choice("activation", self.activation, ("b2bsqrt", "b2blog"))
        return super().build(channels, classes, order, steps)
