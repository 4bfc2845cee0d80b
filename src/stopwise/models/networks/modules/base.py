"""What every temporal integrator is: series in, scores of every prefix out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from stopwise.llr import FORMULAS, WindowLogits
from stopwise.validation import check_choice


class Evidence(NamedTuple):
    """What an integrator tells of a batch.

    Parameters
    ----------
    scores
        (B, T, K): differences are log-likelihood ratios after 1..T samples.
    multiplets
        (B, W, M, K) logits of every prefix of every window, or None when nobody asked (or where a network
        has none: it then learns with llre_ratio=1 only).
    """

    scores: Tensor
    multiplets: Tensor | None


class Integrator(nn.Module, ABC):
    """A temporal integrator of Markov order N.

    Subclass it and implement `evidence`, or subclass `WindowIntegrator` and implement `windows`, to use a
    network of your own: `EarlyClassifier(model=MyIntegrator)` calls `MyIntegrator(features, classes, order)`.

    Parameters
    ----------
    features
        D, the channels of a sample.
    classes
        K.
    order
        N, the Markov order: the scores rest on windows of N+1 samples.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, features: int, classes: int, order: int) -> None:
        super().__init__()
        self.features, self.classes, self.order = features, classes, order
        self.register_buffer("shift", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))

    def standardise(self, mean: Tensor, deviation: Tensor) -> None:
        """Let the network see (x − mean)/deviation; it is part of the weights from then on."""
        self.scale.copy_(1 / deviation)
        self.shift.copy_(-mean / deviation)

    def forward(self, x: Tensor, multiplets: bool = False) -> Evidence:
        """Return the evidence in a batch of series x (B, T, D)."""
        if x.requires_grad:
            return self.evidence(torch.addcmul(self.shift, x, self.scale), multiplets)
        # Into memory with time leading, as the recurrences read it: one pass where there would be two.
        standard = x.new_empty(x.shape[1], x.shape[0], x.shape[2])
        torch.addcmul(self.shift, x.transpose(0, 1), self.scale, out=standard)
        return self.evidence(standard.transpose(0, 1), multiplets)

    @property
    def readout(self) -> nn.Linear:
        """The last layer, in which the scores are linear: what polishing works on."""
        raise TypeError(  # an AttributeError would be hidden by nn.Module
            f"{type(self).__name__} names no `readout`, the nn.Linear that gives its logits; polishing "
            "needs it. Name it, or set polish=False."
        )

    @property
    def skipped(self) -> int:
        """How many inputs of the last layer, its last ones, are the sample itself."""
        return 0

    @abstractmethod
    def evidence(self, x: Tensor, multiplets: bool) -> Evidence:
        """Return the evidence in standardised series x (B, T, D)."""


class WindowIntegrator(Integrator):
    """An integrator that gives logits of windows; a formula makes scores of them.

    Parameters
    ----------
    features, classes, order
        As for `Integrator`.
    formula
        "tandem" or "oblivion".
    """

    def __init__(self, features: int, classes: int, order: int, formula: str = "tandem") -> None:
        super().__init__(features, classes, order)
        self.formula = check_choice("formula", formula, FORMULAS)

    def evidence(self, x: Tensor, multiplets: bool) -> Evidence:
        """Return the evidence in standardised series x (B, T, D)."""
        logits = self.windows(x, multiplets)
        return Evidence(FORMULAS[self.formula](logits), logits.multiplets)

    @abstractmethod
    def windows(self, x: Tensor, multiplets: bool) -> WindowLogits:
        """Return the logits of the windows of x (B, T, D); see `WindowLogits` for the shapes."""
