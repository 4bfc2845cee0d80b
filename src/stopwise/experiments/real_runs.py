"""One run of figure 4: train a model on a real dataset and evaluate it on the official test series."""

from __future__ import annotations

from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np

from stopwise.estimator import EarlyClassifier
from stopwise.experiments import operating
from stopwise.experiments.real import Ready, ready
from stopwise.experiments.runs import order_in_use
from stopwise.metrics import ausat, sat_curve
from stopwise.rules import FixedTime
from stopwise.tuning import space_for, tune

TIMES = 40  # largest number of common hitting times
WIDEST = 128  # largest number of hidden units, for all models


def common_times(steps: int) -> np.ndarray:
    """Return the mean hitting times at which runs are compared.

    Examples
    --------
    >>> common_times(4)
    array([1., 2., 3., 4.])
    """
    return np.unique(np.linspace(1, steps, min(steps, TIMES)).round())


def search(data: dict[str, Any], settings: dict[str, Any], trials: int, epochs: int) -> dict[str, Any]:
    """Tune one model on the training part, comparing trials on the validation part; return JSON values."""
    found = ready(**data)
    fixed = {name: value for name, value in settings.items() if name != "model"}
    result = tune(
        found.train.X,
        found.train.y,
        model=settings["model"],
        validation_data=(found.validation.X, found.validation.y),
        trials=trials,
        fixed=fixed,
        space=_space(settings["model"], found.steps),
        max_epochs=epochs,
        progress=False,
    )
    return {"best": result.best, "ausat": result.ausat, "trials": [asdict(one) for one in result.trials]}


def run(data: dict[str, Any], settings: dict[str, Any], epochs: int, repeat: int) -> dict[str, Any]:
    """Train a model once and evaluate it.

    Parameters
    ----------
    data
        The arguments of `ready`.
    settings
        Flat settings, see `EarlyClassifier.from_settings`.
    epochs
        Number of epochs.
    repeat
        Seed of the initialization and of the batches.

    Returns
    -------
    result
        The exact SAT curve at common times, and the metrics of each rule at its operating point, as plain
        JSON values; {"diverged": reason} if the training loss became infinite or NaN.
    """
    found = ready(**data)
    clf = EarlyClassifier.from_settings(
        settings | {"training.max_epochs": epochs, "random_state": repeat}, progress=False
    )
    start = perf_counter()
    try:
        clf.fit(found.train.X, found.train.y, validation_data=(found.validation.X, found.validation.y))
    except FloatingPointError as error:
        return {"diverged": str(error)}
    fitted = perf_counter()
    scores = clf.scores(found.test.X).astype(np.float64)
    scored = perf_counter()
    return {
        "fit_seconds": round(fitted - start, 2),
        "decision_milliseconds": round(1000 * (scored - fitted) / len(found.test.y), 4),
        "order": order_in_use(clf),
        **_metrics(clf, found, scores),
    }


def _metrics(clf: EarlyClassifier, found: Ready, scores: np.ndarray) -> dict[str, Any]:
    test, held = found.test, found.validation
    times = common_times(found.steps)
    curve = sat_curve(scores, test.y, test.lengths)
    held_scores = clf.scores(held.X).astype(np.float64)
    points = {}
    for kind, rules in operating.candidates(held_scores, held.y, held.lengths).items():
        rule = operating.pick(rules, held_scores, held.y, held.lengths)
        points[kind] = {"rule": rule.to_dict()} | operating.metrics(
            rule.decide(scores, test.lengths), test.y, found.classes
        )
    return {
        "times": times.tolist(),
        "error_at": np.round(curve.at_time(times), 5).tolist(),
        "fixed_time_error_at": np.round(_fixed_times(scores, test.y, test.lengths, times), 5).tolist(),
        "ausat": ausat(curve),
        "points": points,
    }


def _fixed_times(scores: np.ndarray, y: np.ndarray, lengths: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the macro error of stopping every series at each of these times, or at its end if earlier."""
    classes = scores.shape[2]
    return np.array(
        [
            operating.metrics(FixedTime(int(time)).decide(scores, lengths), y, classes)["error"]
            for time in times
        ]
    )


def _space(model: str, steps: int) -> dict[str, Any]:
    """Return the search space of `stopwise tune` without order="auto", which takes as long as many trials."""
    space = space_for(model, steps)
    space["order"] = [order for order in space["order"] if order != "auto"]
    if "hidden" in space:
        space["hidden"] = [hidden for hidden in space["hidden"] if hidden <= WIDEST]
    return space
