"""One run: train a model on a synthetic world and compare its estimates with the exact LLRs."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from stopwise.datasets import WORLDS, GaussianSeries
from stopwise.estimator import EarlyClassifier
from stopwise.experiments.own import classifier
from stopwise.experiments.scores_file import write_scores
from stopwise.experiments.watch import Watch
from stopwise.metrics import ausat, llr_error, sat_curve
from stopwise.models.networks.training.trials import series_lsel

# Test and validation series are the same in all repeats; each repeat has its own training series.
TEST_SEED, VALIDATION_SEED, TRAIN_SEED = 1, 2, 1000
SHOWN = 6  # number of series whose trajectories are stored
TIMES = (2.0, 3.0, 5.0, 8.0)  # mean hitting times at which errors are stored
IN_MEMORY = 200_000  # largest number of training series that are generated at once


def run(
    world: dict[str, Any],
    sizes: dict[str, int],
    settings: dict[str, Any],
    repeat: int = 0,
    judge: str = "test",
    export: str | None = None,
) -> dict[str, Any]:
    """Train one model and evaluate it.

    The weights are those with the smallest validation loss. With test series, the result also has the metrics
    of the weights with the smallest LLR error on validation series ("by_truth"), which can be chosen only
    because the exact LLRs are known.

    Parameters
    ----------
    world
        "kind", a name in `WORLDS`, and the arguments of that world.
    sizes
        Numbers of series: "train", "validation", "test".
    settings
        Flat settings, see `EarlyClassifier.from_settings`.
    repeat
        Seed of the training series and of the initialization.
    judge
        "test": also compare with the exact LLRs of test series. "validation": use no test series, because a
        search for settings must not see them.
    export
        File for the scores of the test series; see `write_scores`. If None, they are not written.

    Returns
    -------
    result
        Plain JSON values; {"diverged": reason} if the training loss became infinite or NaN.
    """
    X, y = _training_series(world, sizes["train"], TRAIN_SEED + repeat)
    X_held, y_held, truth_held = _draw(world, sizes["validation"], VALIDATION_SEED)
    clf = classifier(settings | {"training.patience": None, "random_state": repeat}, progress=False)
    watch = Watch(X_held, truth_held) if judge == "test" else None
    start = perf_counter()
    try:
        clf.fit(X, y, validation_data=(X_held, y_held), on_epoch=watch)
    except FloatingPointError as error:
        return {"diverged": str(error)}
    result = {**_reported(clf, X_held, y_held), "fit_seconds": round(perf_counter() - start, 2)}
    if watch is None:
        return result
    X_test, y_test, truth = _draw(world, sizes["test"], TEST_SEED)
    scores = clf.scores(X_test).astype(np.float64)
    result |= _metrics(scores, truth, y_test)
    if export is not None:
        write_scores(export, scores, y_test, truth=truth)
    result["watched"] = watch.history()
    epoch = watch.choose(clf)
    chosen = scores if epoch is None else clf.scores(X_test).astype(np.float64)
    result["by_truth"] = {"epoch": epoch} | _metrics(chosen, truth, y_test)
    if repeat == 0:
        result["shown"] = np.round(scores[:SHOWN], 3).tolist()
        result["by_truth"]["shown"] = np.round(chosen[:SHOWN], 3).tolist()
    return result


def _reported(clf: EarlyClassifier, X_held: np.ndarray, y_held: np.ndarray) -> dict[str, Any]:
    """Return what the fit reported; the validation loss of a model without epochs is its LSEL."""
    report = clf.model_.report_
    losses = [record["validation_loss"] for record in report.get("history", ())]
    polished = report.get("polish")
    if losses:
        loss = polished["validation_loss"] if polished else min(losses)
    else:
        lengths = np.full(len(y_held), X_held.shape[1])
        loss = float(series_lsel(clf.scores(X_held), y_held, lengths).mean())
    return {
        "validation_loss": loss,
        "training_validation_losses": losses,
        "polish": polished,
        "order": order_in_use(clf),
        "order_search": report.get("order_search"),
    }


def order_in_use(clf: EarlyClassifier) -> int:
    """Return the order of a fitted classifier; T−1, the longest one, if its order is not finite."""
    order: int | None = getattr(clf.model_, "order_", None)
    return clf.n_steps_ - 1 if order is None else order


def truth_shown(world: dict[str, Any], test: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact scores (SHOWN, T, K) and labels (SHOWN,) of the series whose scores are stored."""
    _, y, scores = _draw(world, test, TEST_SEED)
    return scores[:SHOWN], y[:SHOWN]


def _metrics(scores: np.ndarray, truth: np.ndarray, y: np.ndarray) -> dict[str, Any]:
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
    """Return series (n, T, D), labels (n,) and exact scores (n, T, K)."""
    return WORLDS[world["kind"]](n, seed=seed, **_own(world))


def _training_series(world: dict[str, Any], n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return series and labels; Gaussian series that need much memory are generated when they are read."""
    if world["kind"] == "gaussian" and n > IN_MEMORY:
        series = GaussianSeries(n, seed=seed, **_own(world))
        return series, series.y
    X, y, _ = _draw(world, n, seed)
    return X, y


def _own(world: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in world.items() if name != "kind"}
