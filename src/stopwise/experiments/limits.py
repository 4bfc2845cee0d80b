"""The statistical limit: the smallest LLR error that is possible with a given number of Gaussian series.

The true LLR has the form λ(t) = Σ_s w·x_s + b·t. The optimal w and b give the best possible estimate of this
form. The kind "longest" fits them to all prefixes, as LSEL with the longest order does. The kind "single"
fits them to single samples, which uses the knowledge that samples are independent.
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
BLOCK = 4000  # number of series processed at once


def limit(
    kind: str, offset: float, channels: int, length: int, train: int, test: int, repeat: int = 0
) -> dict[str, Any]:
    """Fit a function of the same form as the true LLR; return its LLR error on test series, in nats.

    Parameters
    ----------
    kind
        "longest" or "single".
    offset, channels, length
        Parameters of the Gaussian world, which has two classes.
    train, test
        Numbers of series.
    repeat
        Seed of the training series.

    Examples
    --------
    >>> found = limit("single", offset=1.0, channels=2, length=5, train=500, test=100)
    >>> 0 < found["llr_error"] < 0.5
    True
    """
    world: dict[str, Any] = {"offset": offset, "channels": channels, "length": length}
    X, y, _ = gaussian(train, **world, seed=TRAIN_SEED + repeat)
    sign = np.where(y == 1, 1.0, -1.0).astype(np.float32)
    if kind == "longest":
        np.cumsum(X, axis=1, out=X)
    steps = np.arange(1, length + 1, dtype=np.float32) if kind == "longest" else np.ones(length, np.float32)

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        w, b = parameters[:-1].astype(np.float32), np.float32(parameters[-1])
        loss, gradient = 0.0, np.zeros(channels + 1)
        for start in range(0, train, BLOCK):
            rows, signs = X[start : start + BLOCK], sign[start : start + BLOCK, None]
            margins = signs * (rows @ w + b * steps)  # (B, T)
            loss += float(np.logaddexp(0, -margins, dtype=np.float64).sum())
            slopes = -signs * expit(-margins)  # (B, T)
            gradient[:-1] += rows.reshape(-1, channels).T @ slopes.ravel()
            gradient[-1] += float((slopes * steps).sum())
        return loss / X[..., 0].size, gradient / X[..., 0].size

    found = minimize(
        objective,
        np.zeros(channels + 1),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    X_test, _, truth = gaussian(test, **world, seed=TEST_SEED)
    estimate = X_test.cumsum(axis=1, dtype=np.float64) @ found.x[:-1] + found.x[-1] * np.arange(1, length + 1)
    return {
        "llr_error": float(np.abs(estimate - (truth[..., 1] - truth[..., 0])).mean()),
        "passes": int(found.nfev),
    }


def limits(
    worlds: Mapping[str, Mapping[str, Any]],
    sizes: Preset,
    path: Path,
    *,
    workers: int = -1,
    progress: bool = True,
) -> dict[str, dict[str, float]]:
    """Return the limits of two-class Gaussian worlds, in nats, by world and kind; cache them in a file.

    Parameters
    ----------
    worlds
        By name, the parameters of the worlds.
    sizes
        Preset with the numbers of training and test series.
    path
        The result file.
    workers, progress
        As for `sweep`.
    """
    jobs = {
        (world, kind): Job(
            f"limit_{world}_{kind}",
            {"kind": kind, "train": sizes.train, "test": sizes.test}
            | {key: arguments[key] for key in ("offset", "channels", "length")},
        )
        for world, arguments in worlds.items()
        for kind in KINDS
    }
    found = sweep(limit, jobs.values(), path, title="limits", workers=workers, progress=progress)
    return {world: {kind: found[jobs[world, kind].name]["llr_error"] for kind in KINDS} for world in worlds}
