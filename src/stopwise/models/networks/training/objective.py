"""Training objective: a weighted sum of a loss of the scores and the multiplet cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from stopwise.llr import LOSSES, multiplet_cross_entropy
from stopwise.models.networks.modules import Evidence
from stopwise.validation import check_choice, check_real

# Gradients of single scores below this are set to 0: far below what can change a sum in single precision.
NEGLIGIBLE = 1e-20


@dataclass(frozen=True)
class Objective:
    """Training objective r · loss + (1−r) · multiplet cross-entropy.

    Parameters
    ----------
    loss
        Loss of the scores: "lsel" or "lllr".
    llre_ratio
        Weight r.

    Examples
    --------
    >>> Objective(loss="lsell")
    Traceback (most recent call last):
    ...
    ValueError: `loss` must be one of 'lsel', 'lllr'; got 'lsell'. Did you mean 'lsel'?
    """

    loss: str = "lsel"
    llre_ratio: float = 0.5

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        ratio = check_real("llre_ratio", self.llre_ratio, 0, 1)
        object.__setattr__(self, "llre_ratio", ratio)  # converts a numpy number to a Python number

    @property
    def needs_multiplets(self) -> bool:
        """Whether the network must compute the logits of the multiplets."""
        return self.llre_ratio < 1

    def of_scores(self, scores: Tensor, y: Tensor, lengths: Tensor | None, weight: Tensor) -> Tensor:
        """Return the first term, r · loss, of scores (B, T, K)."""
        return self.llre_ratio * LOSSES[self.loss](without_tiny_gradients(scores), y, lengths, weight)

    def of_multiplets(
        self, logits: Tensor, y: Tensor, lengths: Tensor | None, weight: Tensor, stride: int = 1
    ) -> Tensor:
        """Return the second term, (1−r) · cross-entropy, of the logits (B, W, M, K) of the multiplets."""
        logits = without_tiny_gradients(logits)
        return (1 - self.llre_ratio) * multiplet_cross_entropy(logits, y, lengths, weight, stride=stride)

    def __call__(self, evidence: Evidence, y: Tensor, lengths: Tensor | None, weight: Tensor) -> Tensor:
        """Return the objective, summed over the series with weights `weight` (B,)."""
        loss = self.of_scores(evidence.scores, y, lengths, weight)
        if self.needs_multiplets:
            assert evidence.multiplets is not None  # checked before training
            loss = loss + self.of_multiplets(evidence.multiplets, y, lengths, weight)
        return loss


def without_tiny_gradients(scores: Tensor) -> Tensor:
    """Return the same scores; gradients below `NEGLIGIBLE` become 0 in the backward pass.

    A series that is decided by λ nats has gradients of about exp(−λ). At 70 to 100 nats, these or their
    products with weights are subnormal numbers, with which a processor is some forty times slower.

    Examples
    --------
    >>> scores = torch.tensor([[[95.0, 0.0]]], requires_grad=True)
    >>> lsel = Objective(llre_ratio=1.0).of_scores
    >>> lsel(scores, torch.tensor([0]), None, torch.ones(1)).backward()
    >>> scores.grad.tolist()
    [[[0.0, 0.0]]]
    """
    if scores.requires_grad:
        scores.register_hook(lambda gradient: torch.where(gradient.abs() < NEGLIGIBLE, 0.0, gradient))
    return scores
