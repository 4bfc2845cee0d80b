"""One run of figure 4: train a model on a real dataset and evaluate it on the official test series."""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256
from time import perf_counter
from typing import Any

import numpy as np

from stopwise.experiments import operating, protocols
from stopwise.experiments.models import RATES
from stopwise.experiments.own import classifier, is_own
from stopwise.experiments.real import Ready, ready
from stopwise.experiments.runs import order_in_use
from stopwise.experiments.scores_file import write_scores
from stopwise.metrics import ausat, sat_curve
from stopwise.rules import FixedTime
from stopwise.tuning import tune

TIMES = 40  # largest number of common hitting times


def common_times(steps: int) -> np.ndarray:
    """Return the mean hitting times at which runs are compared.

    Examples
    --------
    >>> common_times(4)
    array([1., 2., 3., 4.])
    """
    return np.unique(np.linspace(1, steps, min(steps, TIMES)).round())


def search(
    data: dict[str, Any],
    settings: dict[str, Any],
    trials: int,
    epochs: int,
    protocol: str = "own",
    studies: str | None = None,
) -> dict[str, Any]:
    """Tune one model on the training part, comparing trials on the validation part.

    Parameters
    ----------
    data
        The arguments of `ready`.
    settings
        Flat settings that are not searched.
    trials, epochs
        Number of trials, and of epochs per trial.
    protocol
        As for `protocols.space`.
    studies
        SQLite file that keeps the trials, so that an interrupted search resumes. If None, they are lost.

    Returns
    -------
    found
        The best settings, their AUSAT and all trials, as plain JSON values.
    """
    found = ready(**data)
    if is_own(settings):
        return _search_rates(found, settings, epochs)
    settings = settings | ({"order": min(settings["order"], found.steps - 1)} if "order" in settings else {})
    about = json.dumps([data, settings, trials, epochs, protocol], sort_keys=True)
    kept: dict[str, Any] = {}
    if studies is not None:  # the name contains the arguments, because a study has one search space
        name = sha256(about.encode()).hexdigest()[:16]
        kept = {"storage": f"sqlite:///{studies}", "study_name": name}
    fixed = {name: value for name, value in settings.items() if name != "model"}
    result = tune(
        found.train.X,
        found.train.y,
        model=settings["model"],
        validation_data=(found.validation.X, found.validation.y),
        trials=trials,
        fixed=fixed,
        space=protocols.space(protocol, settings["model"], found.steps),
        max_epochs=epochs,
        progress=False,
        **kept,
    )
    return {"best": result.best, "ausat": result.ausat, "trials": [asdict(one) for one in result.trials]}


def _search_rates(found: Ready, settings: dict[str, Any], epochs: int) -> dict[str, Any]:
    """Compare learning rates of a model from a file, whose other options are not known."""
    trials: list[dict[str, Any]] = []
    for rate in RATES:
        tried = settings | {"training.learning_rate": rate}
        clf = classifier(tried | {"training.max_epochs": epochs, "random_state": 0}, progress=False)
        held = found.validation
        try:
            clf.fit(found.train.X, found.train.y, validation_data=(held.X, held.y))
            area = ausat(sat_curve(clf.scores(held.X).astype(np.float64), held.y, held.lengths))
        except FloatingPointError:
            area = 1.0
        trials.append({"settings": tried, "ausat": area})
    best = min(trials, key=lambda trial: float(trial["ausat"]))
    return {"best": best["settings"], "ausat": best["ausat"], "trials": trials}


def run(
    data: dict[str, Any], settings: dict[str, Any], epochs: int, repeat: int, export: str | None = None
) -> dict[str, Any]:
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
    export
        File for the scores of the test series; see `write_scores`. If None, they are not written.

    Returns
    -------
    result
        The exact SAT curve at common times, and the metrics of each rule at its operating point, as plain
        JSON values; {"diverged": reason} if the training loss became infinite or NaN.
    """
    found = ready(**data)
    clf = classifier(settings | {"training.max_epochs": epochs, "random_state": repeat}, progress=False)
    start = perf_counter()
    try:
        clf.fit(found.train.X, found.train.y, validation_data=(found.validation.X, found.validation.y))
    except FloatingPointError as error:
        return {"diverged": str(error)}
    fitted = perf_counter()
    scores = clf.scores(found.test.X).astype(np.float64)
    scored = perf_counter()
    if export is not None:
        write_scores(export, scores, found.test.y, lengths=found.test.lengths)
    return {
        "fit_seconds": round(fitted - start, 2),
        "decision_milliseconds": round(1000 * (scored - fitted) / len(found.test.y), 4),
        "order": order_in_use(clf),
        **evaluate(found, scores, clf.scores(found.validation.X).astype(np.float64)),
    }


def evaluate(found: Ready, scores: np.ndarray, held_scores: np.ndarray) -> dict[str, Any]:
    """Return the SAT curve of test scores, and the metrics of rules chosen by validation scores."""
    test, held = found.test, found.validation
    times = common_times(found.steps)
    curve = sat_curve(scores, test.y, test.lengths)
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
