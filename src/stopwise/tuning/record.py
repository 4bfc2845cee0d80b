"""What a search found: every trial, and the best settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optuna.trial import FrozenTrial, TrialState


@dataclass(frozen=True)
class Trial:
    """What was seen of one set of settings.

    Parameters
    ----------
    number
        Its number in the study.
    params
        What was drawn; an order that was searched for is the one found.
    state
        "complete", "pruned" (cut short, as it was behind the others) or "diverged".
    ausat
        The validation AUSAT; None unless complete.
    epochs
        How many it trained.
    seconds
        How long it took.
    """

    number: int
    params: dict[str, Any]
    state: str
    ausat: float | None
    epochs: int
    seconds: float


@dataclass(frozen=True)
class TuningResult:
    """What a search found.

    Parameters
    ----------
    best
        The settings of the best trial, for `EarlyClassifier.from_settings(best)`.
    ausat
        Its validation AUSAT; the lower the better. It is the best of many on the same series, so a little
        too good: judge the final classifier on others.
    default_ausat
        That of the default settings; None if they diverged, or another process has not yet tried them.
    trials
        Every finished trial of the study, whoever ran it.
    study_name
        The study's name.
    """

    best: dict[str, Any]
    ausat: float
    default_ausat: float | None
    trials: tuple[Trial, ...]
    study_name: str


def record(trial: FrozenTrial) -> Trial:
    """Return what was seen of one of Optuna's trials."""
    state = "diverged" if "diverged" in trial.user_attrs else trial.state.name.lower()
    seconds = 0.0 if trial.duration is None else trial.duration.total_seconds()
    params = trial.user_attrs.get("drawn", trial.params)
    value = trial.value if trial.state is TrialState.COMPLETE else None
    return Trial(trial.number, params, state, value, len(trial.intermediate_values), seconds)
