"""The result of a search: all trials and the best settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optuna.trial import FrozenTrial, TrialState


@dataclass(frozen=True)
class Trial:
    """The result of one trial: its settings and its validation AUSAT.

    Parameters
    ----------
    number
        Number of the trial in the study.
    params
        The sampled settings. If the order is "auto", it is replaced by the order that was found.
    state
        "complete", "pruned" (stopped early because other trials were better) or "diverged".
    ausat
        The validation AUSAT; None if the trial is not complete.
    epochs
        Number of training epochs.
    seconds
        Duration of the trial.

    Examples
    --------
    >>> from stopwise.tuning import Trial
    >>> trial = Trial(number=0, params={"hidden": 64}, state="complete", ausat=0.1, epochs=50, seconds=9.0)
    >>> trial.params["hidden"], trial.ausat
    (64, 0.1)
    """

    number: int
    params: dict[str, Any]
    state: str
    ausat: float | None
    epochs: int
    seconds: float


@dataclass(frozen=True)
class TuningResult:
    """The result of `tune`.

    Parameters
    ----------
    best
        The settings of the best trial, for `EarlyClassifier.from_settings`.
    ausat
        The validation AUSAT of the best trial; lower is better. It is optimistic, because it is the minimum
        of many trials on the same series. Evaluate the final classifier on other series.
    default_ausat
        The validation AUSAT of the default settings; None if their trial diverged, or if another process
        has not finished it yet.
    trials
        All finished trials of the study, including those of other processes.
    study_name
        Name of the study.

    Examples
    --------
    >>> from stopwise.tuning import Trial, TuningResult
    >>> trial = Trial(number=0, params={"hidden": 64}, state="complete", ausat=0.1, epochs=50, seconds=9.0)
    >>> found = TuningResult({"model": "accumulator", "hidden": 64}, 0.1, 0.1, (trial,), "my study")
    >>> found.best["hidden"], len(found.trials)
    (64, 1)
    """

    best: dict[str, Any]
    ausat: float
    default_ausat: float | None
    trials: tuple[Trial, ...]
    study_name: str


def record(trial: FrozenTrial) -> Trial:
    """Convert an Optuna trial."""
    state = "diverged" if "diverged" in trial.user_attrs else trial.state.name.lower()
    seconds = 0.0 if trial.duration is None else trial.duration.total_seconds()
    params = trial.user_attrs.get("drawn", trial.params)
    value = trial.value if trial.state is TrialState.COMPLETE else None
    return Trial(trial.number, params, state, value, len(trial.intermediate_values), seconds)
