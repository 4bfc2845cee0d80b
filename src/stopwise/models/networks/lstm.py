"""B2Bsqrt-TANDEM and the tanh LSTM as models."""

from __future__ import annotations

from typing import ClassVar

from stopwise.models.networks.base import NetworkModel
from stopwise.models.networks.modules import LSTMModule
from stopwise.models.networks.training.config import Training


class TanhTandem(NetworkModel):
    """An LSTM with tanh, whose log-likelihood ratios saturate: the baselines of the paper.

    TANDEM-LLLR is `TanhTandem(loss="lllr")`, Oblivion-LSEL is `TanhTandem(formula="oblivion")`.

    Parameters
    ----------
    order
        N, the Markov order: the evidence of a sample depends on the N samples before it. None: the longest
        the series allow. "auto": short trainings of small orders and of the longest, of which the first is
        taken that is not clearly worse on validation series.
    hidden
        H, the size of the LSTM's state.
    formula
        From logits of windows to scores: "tandem" adds up, "oblivion" takes the newest window alone.
    layer_norm
        Normalize the state before the last layer. It bounds the logits.
    dropout
        On the state before the last layer.
    loss, llre_ratio, polish, training
        As for `Accumulator`.

    Examples
    --------
    >>> import stopwise as sw
    >>> sw.EarlyClassifier(sw.models.TanhTandem(order=5, loss="lllr"))
    EarlyClassifier(model=TanhTandem(loss='lllr', order=5))
    """

    name: ClassVar[str | None] = "tanh"
    _activation: ClassVar[str] = "tanh"

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

    def build(self, channels: int, classes: int, order: int | None, steps: int) -> LSTMModule:
        """Return an untrained network."""
        return LSTMModule(
            channels,
            classes,
            steps - 1 if order is None else order,
            self.formula,
            activation=self._activation,
            hidden=self.hidden,
            alpha=getattr(self, "alpha", 1.0),
            layer_norm=self.layer_norm,
            dropout=self.dropout,
        )


class B2BsqrtTandem(TanhTandem):
    """B2Bsqrt-TANDEM: an LSTM with the unbounded activation B2Bsqrt in place of tanh.

    Parameters
    ----------
    order, hidden, formula, layer_norm, dropout
        As for `TanhTandem`.
    alpha
        α of B2Bsqrt, sign(x)(√(α+|x|) − √α).
    loss, llre_ratio, polish, training
        As for `Accumulator`.

    Examples
    --------
    The settings of the paper's Gaussian experiments:

    >>> import stopwise as sw
    >>> sw.models.B2BsqrtTandem(**sw.models.PAPER_GAUSSIAN)
    B2BsqrtTandem(llre_ratio=1.0, order=None, polish=False)
    """

    name: ClassVar[str | None] = "b2bsqrt"
    _activation: ClassVar[str] = "b2bsqrt"

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
    ) -> None:
        super().__init__(order, hidden, formula, layer_norm, dropout, loss, llre_ratio, polish, training)
        self.alpha = alpha
