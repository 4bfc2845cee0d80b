"""One run of figure 4: train a model on a real set, and judge its decisions on the official test series."""

from __future__ import annotations

from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np

from stopwise.estimator import EarlyClassifier
from stopwise.experiments import operating
from stopwise.experiments.real import Ready, ready
from stopwise.metrics import ausat, sat_curve
from stopwise.rules import FixedTime
from stopwise.tuning import space_for, tune

TIMES = 40  # at most so many common hitting times
WIDEST = 128  # hidden units, for all models alike


def common_times(steps: int) -> np.ndarray:
    """Return the mean hitting times at which runs are compared.

    Examples
    --------
    >>> common_times(4)
    array([1., 2., 3., 4.])
    """
    return np.unique(np.linspace(1, steps, min(steps, TIMES)).round())


def search(data: dict[str, Any], settings: dict[str, Any], trials: int, epochs: int) -> dict[str, Any]:
    """Tune one model on the training part, judged on the validation part; plain JSON values."""
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
    """Train once and judge.

    Parameters
    ----------
    data
        The arguments of `ready`.
    settings
        Arguments of `EarlyClassifier`.
    epochs
        At most.
    repeat
        The seed of initialisation and batches.

    Returns
    -------
    told
        The exact SAT curve at common times, and each rule's figures where it chose to work; plain JSON
        values. {"diverged": reason} where training gave no finite loss.
    """
    found = ready(**data)
    clf = EarlyClassifier(**settings | {"max_epochs": epochs, "seed": repeat}, progress=False)
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
        "order": clf.order_,
        **_judged(clf, found, scores),
    }


def _judged(clf: EarlyClassifier, found: Ready, scores: np.ndarray) -> dict[str, Any]:
    test, held = found.test, found.validation
    times = common_times(found.steps)
    curve = sat_curve(scores, test.y, test.lengths)
    held_scores = clf.scores(held.X).astype(np.float64)
    points = {}
    for kind, rules in operating.candidates(held_scores, held.y, held.lengths).items():
        rule = operating.pick(rules, held_scores, held.y, held.lengths)
        points[kind] = {"rule": rule.to_dict()} | operating.figures(
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
    """Return the macro error of stopping every series after so many samples, or at its end."""
    classes = scores.shape[2]
    return np.array(
        [
            operating.figures(FixedTime(int(time)).decide(scores, lengths), y, classes)["error"]
            for time in times
        ]
    )


def _space(model: str, steps: int) -> dict[str, Any]:
    """Return the space of `stopwise tune`, every order in it given: looking for one costs many trials."""
    space = space_for(model, steps)
    space["order"] = [order for order in space["order"] if order != "auto"]
    if "hidden" in space:
        space["hidden"] = [hidden for hidden in space["hidden"] if hidden <= WIDEST]
    return space
