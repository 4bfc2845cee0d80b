"""Create, resume or join the Optuna study, in memory or in a database."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import DuplicatedStudyError
from optuna.samplers import BaseSampler, TPESampler
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from stopwise.tuning.spaces import Space

# States that count as finished; interrupted trials do not count.
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
# Number of trials before pruning starts.
FREE_TRIALS = 5
# If two processes create the tables of a new database at the same time, one gets an error and tries again.
OPENINGS, PAUSE = 5, 0.3
SQLITE_PATIENCE = 60  # seconds to wait while another process writes


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Convert a search space to Optuna distributions.

    Examples
    --------
    >>> distributions({"heads": (1, 3)})
    {'heads': IntDistribution(high=3, log=False, low=1, step=1)}
    """
    return {name: _distribution(values) for name, values in space.items()}


def open_study(
    storage: str | BaseStorage | None,
    name: str,
    about: dict[str, Any],
    defaults: Mapping[str, Any],
    seed: int,
    warmup: int,
) -> Study:
    """Create a study, or load the existing study of this name if it has the same `about`.

    The default settings are enqueued as the first trial.
    """
    opened = _open_storage(storage)
    sampler = SeededTPE(seed)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=FREE_TRIALS, n_warmup_steps=warmup)
    try:
        study = optuna.create_study(
            storage=opened, study_name=name, sampler=sampler, pruner=pruner, direction="minimize"
        )
    except DuplicatedStudyError:
        study = optuna.load_study(storage=opened, study_name=name, sampler=sampler, pruner=pruner)
        missing = _lacks_defaults(study)
    else:
        missing = True
    _check_same(study, about)
    if missing:
        study.enqueue_trial(dict(defaults), user_attrs={"defaults": True})
    return study


def _lacks_defaults(study: Study) -> bool:
    """Return whether the trial of the default settings was interrupted."""
    trials = study.get_trials(deepcopy=False)
    alive = [trial for trial in trials if trial.state is not TrialState.FAIL]
    # If there are no trials, the process that created the study is about to add this trial.
    return bool(trials) and not any(map(is_default, alive))


def is_default(trial: Any) -> bool:
    """Return whether a trial uses the default settings."""
    return bool(trial.user_attrs.get("defaults"))


def finished(study: Study) -> list[FrozenTrial]:
    """Return the trials that are complete, pruned or diverged."""
    return study.get_trials(deepcopy=False, states=FINISHED)


class SeededTPE(BaseSampler):
    """TPE sampler whose random numbers depend only on the seed and the number of the trial.

    A study that is interrupted between trials and resumed samples the same settings as an uninterrupted one.
    Processes that share a study and a seed sample different settings.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._tpe = TPESampler(seed=seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Seed the sampler for this trial."""
        seed = np.random.SeedSequence([self._seed, trial.number]).generate_state(1)[0].item()
        self._tpe = TPESampler(seed=seed)
        self._tpe.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Call `infer_relative_search_space` of the TPE sampler."""
        return self._tpe.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Call `sample_relative` of the TPE sampler."""
        return self._tpe.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Call `sample_independent` of the TPE sampler."""
        return self._tpe.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Any) -> None:
        """Call `after_trial` of the TPE sampler."""
        self._tpe.after_trial(study, trial, state, values)


def _distribution(values: list[Any] | tuple[Any, Any]) -> BaseDistribution:
    if isinstance(values, list):
        return CategoricalDistribution(values)
    low, high = values
    return (
        IntDistribution(low, high)
        if isinstance(low, int) and isinstance(high, int)
        else FloatDistribution(low, high)
    )


def _open_storage(storage: str | BaseStorage | None) -> BaseStorage:
    if storage is None:
        return InMemoryStorage()
    if isinstance(storage, BaseStorage):
        return storage
    if not isinstance(storage, str):
        raise TypeError(
            "`storage` must be a database URL, such as 'sqlite:///study.db', or an Optuna storage; got "
            f"{type(storage).__name__}."
        )
    patience = {"connect_args": {"timeout": SQLITE_PATIENCE}} if storage.startswith("sqlite") else {}
    for left in reversed(range(OPENINGS)):
        try:
            return RDBStorage(storage, engine_kwargs=patience)
        except ImportError as error:
            raise ImportError(
                "`storage` needs the driver of its database. For PostgreSQL: pip install psycopg2-binary"
            ) from error
        except SQLAlchemyError as error:
            if left:
                time.sleep(PAUSE)
                continue
            raise ValueError(
                "`storage` must be the URL of a database that can be opened, such as "
                f"'sqlite:///study.db'; {_reason(error)}."
            ) from error
    raise AssertionError


def _reason(error: SQLAlchemyError) -> str:
    # Only the message of the database is shown, because the URL may contain a password.
    said = str(getattr(error, "orig", None) or error)
    return said.splitlines()[0].rstrip(".")


def _check_same(study: Study, about: dict[str, Any]) -> None:
    """Raise if the trials of the existing study cannot be compared with new ones."""
    there = study.user_attrs.get("about")
    if there is None:
        study.set_user_attr("about", about)
        return
    for part, ours in about.items():
        theirs = there.get(part)
        if theirs != ours:
            raise ValueError(
                f"`study_name`: the study {study.study_name!r} in this storage has a different `{part}`: "
                f"{_short(theirs)}; this call has {_short(ours)}. Use another name, or the same settings."
            )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "…"
