"""From the logits of windows to scores, and the losses that train them.

Scores S (B, T, K) carry everything: the log-likelihood ratio of classes k and l after t samples is
S_k(t) − S_l(t). Every formula here is linear in the logits, so the K×K matrix is never needed.
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
