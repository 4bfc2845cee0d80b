"""Formulas that turn the logits of windows into scores, and the losses that train them.

The log-likelihood ratio of classes k and l after t samples is S_k(t) − S_l(t), where S (B, T, K) are the
scores. Every formula is linear in the logits, so the K×K matrix of ratios is never computed.
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
