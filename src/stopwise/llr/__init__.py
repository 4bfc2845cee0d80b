"""Formulas that combine the logits of windows into scores, and the losses for training.

The scores S have shape (B, T, K): B series, T steps, K classes. The log-likelihood ratio of classes k and l
after t samples is S_k(t) − S_l(t). Every formula is linear in the logits, so the K×K matrix of ratios is
never computed.
"""

from stopwise.llr.formula import FORMULAS, WindowLogits, oblivion, tandem
from stopwise.llr.losses import LOSSES, inside_steps, inside_windows, lllr, lsel, multiplet_cross_entropy

__all__ = [
    "FORMULAS",
    "LOSSES",
    "WindowLogits",
    "inside_steps",
    "inside_windows",
    "lllr",
    "lsel",
    "multiplet_cross_entropy",
    "oblivion",
    "tandem",
]
