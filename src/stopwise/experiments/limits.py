"""The statistical limit: the least LLR error that so many series of the Gaussian world allow.

The class λ(t) = Σ_s w·x_s + b·t contains the truth; fitted to its optimum it is the best estimate there is of
that form. "longest" fits it to all prefixes, as LSEL from the start sees them; "single" to single samples,
as one may who knows that they are independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from stopwise.datasets import gaussian
from stopwise.experiments.presets import Preset
from stopwise.experiments.runs import TEST_SEED, TRAIN_SEED
from stopwise.experiments.sweep import Job, sweep

KINDS = ("longest", "single")
BLOCK = 4000  # series at a time


def limit(
    kind: str, offset: float, dim: int, length: int, train: int, test: int, repeat: int = 0
) -> dict[str, Any]:
    """Fit the class that contains the truth and return its LLR error on test series, in nats.

    Parameters
    ----------
    kind
        "longest" or "single".
    offset, dim, length
        The Gaussian world, of two classes.
    train, test
        Numbers of series.
    repeat
        Which draw of the training series.

    Examples
    --------
    >>> found = limit("single", offset=1.0, dim=2, length=5, train=500, test=100)
    >>> 0 < found["llr_error"] < 0.5
    True
    """
    X, y, _ = gaussian(train, offset=offset, dim=dim, length=length, seed=TRAIN_SEED + repeat)
    sign = np.where(y == 1, 1.0, -1.0).astype(np.float32)
    if kind == "longest":
        np.cumsum(X, axis=1, out=X)
    steps = np.arange(1, length + 1, dtype=np.float32) if kind == "longest" else np.ones(length, np.float32)

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        w, b = parameters[:-1].astype(np.float32), np.float32(parameters[-1])
        loss, slope = 0.0, np.zeros(dim + 1)
        for start in range(0, train, BLOCK):
            rows, signs = X[start : start + BLOCK], sign[start : start + BLOCK, None]
            margins = signs * (rows @ w + b * steps)  # (B, T)
            loss += float(np.logaddexp(0, -margins, dtype=np.float64).sum())
            pull = -signs * expit(-margins)
            slope[:-1] += rows.reshape(-1, dim).T @ pull.ravel()
            slope[-1] += float((pull * steps).sum())
        return loss / X[..., 0].size, slope / X[..., 0].size

    found = minimize(
        objective, np.zeros(dim + 1), jac=True, method="L-BFGS-B", options={"ftol": 1e-12, "maxiter": 500}
    )
    X_test, _, truth = gaussian(test, offset=offset, dim=dim, length=length, seed=TEST_SEED)
    estimate = X_test.cumsum(axis=1, dtype=np.float64) @ found.x[:-1] + found.x[-1] * np.arange(1, length + 1)
    return {
        "llr_error": float(np.abs(estimate - (truth[..., 1] - truth[..., 0])).mean()),
        "passes": int(found.nfev),
    }


def limits(
    worlds: Mapping[str, Mapping[str, Any]],
    sizes: Preset,
    folder: Path,
    *,
    workers: int = -1,
    progress: bool = True,
) -> dict[str, dict[str, float]]:
    """Return the limits of two-class Gaussian worlds, in nats, by world and kind."""
    jobs = {
        (world, kind): Job(
            f"limit_{world}_{kind}",
            {"kind": kind, "train": sizes.train, "test": sizes.test}
            | {key: arguments[key] for key in ("offset", "dim", "length")},
        )
        for world, arguments in worlds.items()
        for kind in KINDS
    }
    found = sweep(limit, jobs.values(), folder, title="limits", workers=workers, progress=progress)
    return {world: {kind: found[jobs[world, kind].name]["llr_error"] for kind in KINDS} for world in worlds}
