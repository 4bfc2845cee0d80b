"""Unbounded activations, which do not limit the log-likelihood ratios."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def b2bsqrt(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Apply the back-to-back square root ``sign(x) (√(α+|x|) − √α)`` to each element.

    It is computed as ``x / (√(α+|x|) + √α)``, which avoids cancellation near 0. The slope at 0 is 1/(2√α).
    For α = 0 the slope is infinite, which is allowed but may make training unstable.

    Parameters
    ----------
    x
        Input of any shape.
    alpha
        α, a finite number >= 0.

    Examples
    --------
    >>> import torch
    >>> b2bsqrt(torch.tensor([-8.0, 0.0, 3.0]))
    tensor([-2.,  0.,  1.])
    """
    check_alpha(alpha)
    root = torch.sqrt(alpha + x.abs()) + math.sqrt(alpha)
    # For α = 0, the quotient at x = 0 is 0/0. The value there is 0.
    return x / root if alpha > 0 else torch.where(x == 0, x, x / root)


def b2blog(x: Tensor) -> Tensor:
    """Apply the back-to-back logarithm ``sign(x) log(1+|x|)`` to each element.

    Parameters
    ----------
    x
        Input of any shape.

    Examples
    --------
    >>> import torch
    >>> b2blog(torch.tensor([-1.0, 0.0, 3.0])).exp()
    tensor([0.5000, 1.0000, 4.0000])
    """
    return x.abs().log1p().copysign(x)


def check_alpha(alpha: float) -> float:
    """Return α as a float; raise an error unless it is a finite number >= 0."""
    if not (math.isfinite(alpha) and alpha >= 0):
        raise ValueError(f"`alpha` of b2bsqrt must be a finite number >= 0; got {alpha}. The default is 1.")
    return float(alpha)
