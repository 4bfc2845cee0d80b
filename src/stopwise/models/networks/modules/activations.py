"""B2Bsqrt, the unbounded activation that lets log-likelihood ratios grow."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def b2bsqrt(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Back-to-back square root, sign(x)(√(α+|x|) − √α).

    Computed as x / (√(α+|x|) + √α), which has no cancellation near 0. The slope at 0 is 1/(2√α): for
    α = 0 it is infinite, which is allowed but may make training unstable.

    Examples
    --------
    >>> import torch
    >>> b2bsqrt(torch.tensor([-8.0, 0.0, 3.0]))
    tensor([-2.,  0.,  1.])
    """
    check_alpha(alpha)
    root = torch.sqrt(alpha + x.abs()) + math.sqrt(alpha)
    # Only α = 0 at x = 0 divides 0 by 0; the value there is 0.
    return x / root if alpha > 0 else torch.where(x == 0, x, x / root)


def check_alpha(alpha: float) -> float:
    """Return α if it is a finite number >= 0."""
    if not (math.isfinite(alpha) and alpha >= 0):
        raise ValueError(f"`alpha` of b2bsqrt must be a finite number >= 0; got {alpha}. The default is 1.")
    return float(alpha)
