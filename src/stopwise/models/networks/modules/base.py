"""Base classes of temporal integrators, which compute the scores of every prefix of a series."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from stopwise.llr import FORMULAS, WindowLogits
from stopwise.validation import check_choice


class Evidence(NamedTuple):
    """Output of an integrator for a batch of series.

    Parameters
    ----------
    scores
        (B, T, K) scores after 1..T samples. Their differences are log-likelihood ratios.
    multiplets
        (B, W, M, K) logits of every prefix of every window. None if they were not requested, or if the
        network does not provide them. Such a network can only be trained with llre_ratio=1.

    Examples
    --------
    >>> import torch
    >>> from stopwise.models import Evidence
    >>> evidence = Evidence(scores=torch.zeros(5, 10, 2), multiplets=None)
    >>> evidence.scores.shape
    torch.Size([5, 10, 2])
    """

    scores: Tensor
    multiplets: Tensor | None


class Integrator(nn.Module, ABC):
    """Base class of temporal integrators of Markov order N.

    To write a custom network, subclass `Integrator` and implement `evidence`, or subclass `WindowIntegrator`
    and implement `windows`. Then use it in ``EarlyClassifier(stopwise.models.Network(MyIntegrator))``.

    Parameters
    ----------
    channels
        C, the number of input values per sample, as the network receives them.
    classes
        K, the number of classes.
    order
        N, the Markov order. The scores depend on windows of N+1 samples or, if None, on all samples so far.

    Examples
    --------
    A network without parameters, which adds up the channels themselves:

    >>> import torch
    >>> from stopwise.models import Evidence, Integrator
    >>> class Sums(Integrator):
    ...     def evidence(self, x, multiplets):
    ...         return Evidence(x.cumsum(1), None)
    >>> Sums(channels=2, classes=2, order=0)(torch.ones(1, 3, 2)).scores[0, :, 0]
    tensor([1., 2., 3.])
    """

    def __init__(self, channels: int, classes: int, order: int | None) -> None:
        super().__init__()
        self.channels, self.classes, self.order = channels, classes, order

    def forward(self, x: Tensor, multiplets: bool = False) -> Evidence:
        """Return the evidence for a batch of series x (B, T, C).

        Parameters
        ----------
        x
            (B, T, C) series.
        multiplets
            Whether to compute the logits of the multiplets.
        """
        # Make time the leading dimension in memory, as the recurrences read it. Arrays from `Inputs` already
        # have this layout and are not copied.
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
        return self.evidence(x, multiplets)

    def score(self, x: np.ndarray) -> np.ndarray:
        """Return the scores (B, T, K) of series x (B, T, C) as a numpy array, without gradients."""
        device = next((parameter.device for parameter in self.parameters()), torch.device("cpu"))
        with torch.inference_mode():
            return self(torch.from_numpy(x).to(device)).scores.cpu().numpy()

    @property
    def readout(self) -> nn.Linear:
        """Last layer, which polishing optimizes. The scores must be linear in its weights."""
        raise TypeError(  # nn.Module would hide an AttributeError
            f"{type(self).__name__} has no `readout`, the nn.Linear that computes its logits. Polishing "
            "needs it: add the property, or set polish=False."
        )

    @property
    def n_skip_inputs(self) -> int:
        """Number of inputs of the last layer, at the end, that are the sample itself."""
        return 0

    @abstractmethod
    def evidence(self, x: Tensor, multiplets: bool) -> Evidence:
        """Compute the evidence for series x (B, T, C).

        Parameters
        ----------
        x
            (B, T, C) series.
        multiplets
            Whether to compute the logits of the multiplets.
        """


class WindowIntegrator(Integrator):
    """Base class of integrators that compute logits of windows, from which a formula computes scores.

    Subclasses implement `windows`.

    Parameters
    ----------
    channels, classes
        As for `Integrator`.
    order
        N, the Markov order, an integer. Windows have N+1 samples.
    formula
        Formula that combines the logits of windows into scores: "tandem" or "oblivion".

    Examples
    --------
    A network of order 0 without parameters. Each window is one sample, and its logits are the channels:

    >>> import torch
    >>> from stopwise.llr import WindowLogits
    >>> from stopwise.models import WindowIntegrator
    >>> class Single(WindowIntegrator):
    ...     def windows(self, x, multiplets):
    ...         return WindowLogits(x[:, :1], x[:, 1:], torch.zeros_like(x[:, 1:]))
    >>> Single(channels=2, classes=2, order=0)(torch.ones(1, 3, 2)).scores[0, :, 0]
    tensor([1., 2., 3.])
    >>> Single(channels=2, classes=2, order=0, formula="oblivion")(torch.ones(1, 3, 2)).scores[0, :, 0]
    tensor([1., 1., 1.])
    """

    def __init__(self, channels: int, classes: int, order: int, formula: str = "tandem") -> None:
        super().__init__(channels, classes, order)
        self.order: int = order
        self.formula = check_choice("formula", formula, FORMULAS)

    def evidence(self, x: Tensor, multiplets: bool) -> Evidence:
        """Compute the evidence for series x (B, T, C) by the formula."""
        logits = self.windows(x, multiplets)
        return Evidence(FORMULAS[self.formula](logits), logits.multiplets)

    @abstractmethod
    def windows(self, x: Tensor, multiplets: bool) -> WindowLogits:
        """Compute the logits of the windows of x (B, T, C).

        See `stopwise.llr.WindowLogits` for the shapes.

        Parameters
        ----------
        x
            (B, T, C) series.
        multiplets
            Whether to compute the logits of the multiplets.
        """
