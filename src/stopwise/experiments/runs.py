"""One run: draw a world, train one model on it, and judge what it estimates against the exact LLRs."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from stopwise.datasets import WORLDS, GaussianSeries
from stopwise.estimator import EarlyClassifier
from stopwise.metrics import ausat, llr_error, sat_curve

# Test and validation series are the same in all repeats; the training series are drawn anew.
TEST_SEED, VALIDATION_SEED, TRAIN_SEED = 1, 2, 1000
SHOWN = 6  # series whose trajectories are kept
TIMES = (2.0, 3.0, 5.0, 8.0)  # mean hitting times at which errors are told


def run(
    world: dict[str, Any],
    sizes: dict[str, int],
    settings: dict[str, Any],
    repeat: int = 0,
    judge: str = "test",
) -> dict[str, Any]:
    """Train one model and judge it.

    Parameters
    ----------
    world
        "kind", a name in `WORLDS`, and the world's own arguments.
    sizes
        Numbers of series: "train", "validation", "test".
    settings
        Arguments of `EarlyClassifier`.
    repeat
        Which draw of the training series, and which initialisation.
    judge
        "test": against the exact LLRs of test series. "validation": only tell the validation loss, as a
        search for settings must.

    Returns
    -------
    told
        Figures as plain JSON values; {"diverged": reason} where training gave no finite loss.
    """
    X, y = _training_series(world, sizes["train"], TRAIN_SEED + repeat)
    held = _draw(world, sizes["validation"], VALIDATION_SEED)[:2]
    clf = EarlyClassifier(**settings, patience=None, progress=False, seed=repeat)
    start = perf_counter()
    try:
        clf.fit(X, y, validation_data=held)
    except FloatingPointError as error:
        return {"diverged": str(error)}
    losses = [record["validation_loss"] for record in clf.history_]
    told = {
        "validation_loss": clf.polish_["validation_loss"] if clf.polish_ else min(losses),
        "training_validation_losses": losses,
        "polish": clf.polish_,
        "order": clf.order_,
        "order_search": clf.order_search_,
        "fit_seconds": round(perf_counter() - start, 2),
    }
    if judge == "validation":
        return told
    X_test, y_test, truth = _draw(world, sizes["test"], TEST_SEED)
    scores = clf.scores(X_test).astype(np.float64)
    told |= _figures(scores, truth, y_test)
    if repeat == 0:
        told["shown"] = _rounded(scores[:SHOWN])
    return told


def truth_shown(world: dict[str, Any], test: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact scores (SHOWN, T, K) and labels (SHOWN,) of the series whose estimates are kept."""
    _, y, scores = _draw(world, test, TEST_SEED)
    return scores[:SHOWN], y[:SHOWN]


def _figures(scores: np.ndarray, truth: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    error, curve, oracle = llr_error(scores, truth), sat_curve(scores, y), sat_curve(truth, y)
    return {
        "llr_error": error.mean_abs,
        "relative": error.relative,
        "slope": error.slope,
        "ausat": ausat(curve),
        "oracle_ausat": ausat(oracle),
        "error_at": {f"{time:g}": curve.at_time(time) for time in TIMES},
        "oracle_error_at": {f"{time:g}": oracle.at_time(time) for time in TIMES},
    }


def _draw(world: dict[str, Any], n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    own = {name: value for name, value in world.items() if name != "kind"}
    return WORLDS[world["kind"]](n, seed=seed, **own)


def _training_series(world: dict[str, Any], n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return series and labels; Gaussian ones too many for memory are made as they are read."""
    own = {name: value for name, value in world.items() if name != "kind"}
    if world["kind"] == "gaussian" and n > 200_000:
        series = GaussianSeries(n, seed=seed, **own)
        return series, series.y
    X, y, _ = _draw(world, n, seed)
    return X, y


def _rounded(values: np.ndarray) -> list[Any]:
    return np.round(values, 3).tolist()
