"""What every temporal integrator is: series in, scores of every prefix out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from stopwise.llr import FORMULAS, WindowLogits
from stopwise.validation import check_choice


class Evidence(NamedTuple):
    """The output of an integrator for a batch.

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

    For a network of your own subclass it and implement `evidence`, or subclass `WindowIntegrator` and
    implement `windows`; then `EarlyClassifier(stopwise.models.Network(MyIntegrator))`.

    Parameters
    ----------
    channels
        C, the numbers the network sees of a sample.
    classes
        K.
    order
        N, the Markov order: the scores rest on windows of N+1 samples; None: on all samples so far.
    """

    def __init__(self, channels: int, classes: int, order: int | None) -> None:
        super().__init__()
        self.channels, self.classes, self.order = channels, classes, order

    def forward(self, x: Tensor, multiplets: bool = False) -> Evidence:
        """Return the evidence in a batch of series x (B, T, C)."""
        # With time leading in memory, as recurrences read it. What `Inputs` gives is not copied.
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
        return self.evidence(x, multiplets)

    def score(self, x: np.ndarray) -> np.ndarray:
        """Return the scores (B, T, K) of series x (B, T, C) as an array, without gradients."""
        device = next((parameter.device for parameter in self.parameters()), torch.device("cpu"))
        with torch.inference_mode():
            return self(torch.from_numpy(x).to(device)).scores.cpu().numpy()

    @property
    def readout(self) -> nn.Linear:
        """The last layer, in which the scores are linear: what polishing works on."""
        raise TypeError(  # nn.Module would hide an AttributeError
            f"{type(self).__name__} has no `readout`, the nn.Linear that gives its logits; polishing needs "
            "it. Add the property, or set polish=False."
        )

    @property
    def n_skip_inputs(self) -> int:
        """How many inputs of the last layer, its last ones, are the sample itself."""
        return 0

    @abstractmethod
    def evidence(self, x: Tensor, multiplets: bool) -> Evidence:
        """Return the evidence in series x (B, T, C)."""


class WindowIntegrator(Integrator):
    """An integrator that gives logits of windows; a formula makes scores of them.

    Parameters
    ----------
    channels, classes, order
        As for `Integrator`.
    formula
        "tandem" or "oblivion".
    """

    def __init__(self, channels: int, classes: int, order: int, formula: str = "tandem") -> None:
        super().__init__(channels, classes, order)
        self.order: int = order
        self.formula = check_choice("formula", formula, FORMULAS)

    def evidence(self, x: Tensor, multiplets: bool) -> Evidence:
        """Return the evidence in series x (B, T, C)."""
        logits = self.windows(x, multiplets)
        return Evidence(FORMULAS[self.formula](logits), logits.multiplets)

    @abstractmethod
    def windows(self, x: Tensor, multiplets: bool) -> WindowLogits:
        """Return the logits of the windows of x (B, T, C); see `WindowLogits` for the shapes."""
