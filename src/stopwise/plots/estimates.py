"""Checks of the scores of several models on the same series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def check_estimates(
    estimates: Mapping[str, Any], truth: Any
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Validate the arguments; return the scores (n, T, K) by model, and the exact scores."""
    if not isinstance(estimates, Mapping) or not estimates:
        raise ValueError(
            f"`estimates` must be a dict {{model name: scores (n, T, K)}}; got {estimates!r:.60}."
        )
    named = {f"estimates[{name!r}]": (name, np.asarray(scores)) for name, scores in estimates.items()}
    if truth is not None:
        named["truth"] = ("", np.asarray(truth))
    shape = next(iter(named.values()))[1].shape
    for argument, (_, array) in named.items():
        if array.ndim != 3 or array.shape[2] < 2 or 0 in array.shape:
            raise ValueError(f"`{argument}` must have shape (n, T, K) with K >= 2; got shape {array.shape}.")
        if array.shape != shape:
            raise ValueError(
                f"`{argument}` must have the shape of the other scores, {shape}; got {array.shape}. "
                "Use the same series for all models."
            )
        if np.isinf(array).any() or not np.isfinite(array).any(axis=(1, 2)).all():
            raise ValueError(
                f"`{argument}` must hold finite scores, with NaN only after the end of a series; it contains "
                "infinity, or a series with only NaN."
            )
    exact = named.pop("truth")[1] if truth is not None else None
    return dict(named.values()), exact
