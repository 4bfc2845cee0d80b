"""The search: sample settings, train a classifier, evaluate it on the validation series, repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import StorageInternalError
from optuna.study import MaxTrialsCallback, Study
from optuna.trial import FrozenTrial, TrialState

from stopwise.estimator import EarlyClassifier
from stopwise.metrics import ausat, sat_curve
from stopwise.progress import Reporter
from stopwise.tuning import spaces
from stopwise.tuning.parts import Parts
from stopwise.tuning.record import TuningResult, record
from stopwise.tuning.study import FINISHED, distributions, finished, is_default, open_study
from stopwise.validation import check_integer, check_real, inside

# Fraction of the epochs before a trial can be pruned.
WARMUP = 0.25


def tune(
    X: Any,
    y: Any,
    *,
    model: str = "accumulator",
    validation_data: tuple[Any, Any] | None = None,
    groups: Any = None,
    validation_fraction: float | None = None,
    trials: int = 30,
    timeout: float | None = None,
    storage: Any = None,
    study_name: str | None = None,
    fixed: Mapping[str, Any] | None = None,
    space: Mapping[str, Any] | None = None,
    max_epochs: int = 50,
    random_state: int = 0,
    progress: bool | str = "auto",
    on_trial: Callable[[TuningResult], None] | None = None,
) -> TuningResult:
    """Search for the settings with the smallest area under the validation speed-accuracy curve (AUSAT).

    The default settings are tried first, so the best settings are never worse than the defaults on the
    validation series. Further settings are sampled by Optuna's TPE. A trial is pruned if its AUSAT after an
    epoch is worse than the median of the earlier trials. A trial that diverges counts as finished and is not
    repeated. The same seed gives the same trials on the same machine.

    Parameters
    ----------
    X, y
        Series and labels, as for `EarlyClassifier.fit`.
    model
        "accumulator", "b2bsqrt", "tandemformer" or "tanh".
    validation_data
        (X, y) for validation; they are also used to choose the best epoch. If None, a part of X, y is held
        out.
    groups
        (n,) group of each series, such as its subject or recording. Complete groups are then held out,
        because series of the same group in both parts would leak information.
    validation_fraction
        Fraction of the series that is held out; None means 0.2. Only without `validation_data`.
    trials
        Total number of finished trials of the study, including earlier trials and those of other processes.
        Processes that share a study each finish their last trial, so there can be a few more.
    timeout
        Seconds after which this process starts no further trial.
    storage
        None keeps the study in memory. A database URL, such as "sqlite:///study.db" or
        "postgresql+psycopg2://user@host/name", or an Optuna storage makes it persistent: a later call
        resumes the study, and any number of processes and machines can share it.
    study_name
        Name of the study in the storage; None means "stopwise-" followed by the model. Only with `storage`.
    fixed
        Settings that are not searched: options of the model, with a dot for nested ones, and parameters of
        `EarlyClassifier`.
    space
        The search space; None means `space_for(model, T)`. Settings in `fixed` are excluded.
    max_epochs
        Maximum number of epochs per trial.
    random_state
        Seed of the split, of the sampled settings and of each training run.
    progress
        Whether to show progress, as for `EarlyClassifier`.
    on_trial
        Function that is called with the current `TuningResult` after each trial of this process, as soon as
        one trial is complete.

    Returns
    -------
    result
        A `TuningResult`.

    Examples
    --------
    >>> import stopwise as sw
    >>> from stopwise.tuning import tune
    >>> X, y, _ = sw.datasets.gaussian(n=60, offset=1.5, channels=2, length=4, seed=0)
    >>> fixed = {"order": 0, "polish": False}
    >>> found = tune(X, y, space={"hidden": [4, 8]}, fixed=fixed, trials=2, max_epochs=1, progress=False)
    >>> len(found.trials), found.best["hidden"] in (4, 8)
    (2, True)
    >>> clf = sw.EarlyClassifier.from_settings(found.best)
    """
    spaces.check_tunable(model)
    check_integer("trials", trials, 1)
    _check_used(validation_data, validation_fraction, storage, study_name)
    fraction = 0.2 if validation_fraction is None else validation_fraction
    check_real("validation_fraction", fraction, 0, 1, open_low=True, open_high=True)
    if timeout is not None:
        check_real("timeout", timeout, 0, open_low=True)
    data = Parts.of(X, y, validation_data, groups, fraction, random_state)
    kept = dict(fixed or {})
    spaces.check_names("fixed", kept, model)
    wanted = spaces.check_space(spaces.space_for(model, data.X.steps) if space is None else space, model)
    search = _Search(data, model, kept, wanted, max_epochs, random_state)
    with _quiet(), _storage_errors():
        name = study_name or f"stopwise-{model}"
        study = open_study(storage, name, search.about, search.default_draw(), random_state, search.warmup)
        search.run(study, trials, timeout, progress, on_trial)
        return search.found(study)


class _Search:
    """The settings and data shared by all trials of a search."""

    def __init__(
        self,
        data: Parts,
        model: str,
        fixed: dict[str, Any],
        space: spaces.Space,
        max_epochs: int,
        seed: int,
    ) -> None:
        self.data, self.model, self.fixed = data, model, fixed
        self.space = {name: values for name, values in space.items() if name not in fixed}
        if not self.space:
            raise ValueError(
                "`space` leaves nothing to search, because all its names are in `fixed`. Remove names from "
                "`fixed`."
            )
        self.draws = distributions(self.space)
        self.max_epochs, self.seed = (
            check_integer("max_epochs", max_epochs, 1),
            check_integer("random_state", seed, 0),
        )
        self.warmup = int(WARMUP * self.max_epochs)
        # Trials can only be compared if all of this is equal; a study with other values is rejected.
        self.about = {
            "model": model,
            "fixed": {name: repr(value) for name, value in sorted(fixed.items())},
            "space": {name: repr(values) for name, values in sorted(self.space.items())},
            "max_epochs": self.max_epochs,
            "random_state": self.seed,
            "data": data.digest(),
        }

    def default_draw(self) -> dict[str, Any]:
        """Return the default settings that the space contains; the others are sampled."""
        known = spaces.defaults(self.model)
        return {name: known[name] for name, values in self.space.items() if _holds(values, known[name])}

    def run(
        self,
        study: Study,
        trials: int,
        timeout: float | None,
        progress: bool | str,
        on_trial: Callable[[TuningResult], None] | None,
    ) -> None:
        """Run trials until the study has `trials` finished ones."""
        done = len(finished(study))
        with Reporter("tuning", trials, progress) as reporter:
            reporter.skip(done)
            reported = done

            def report(study: Study, _: FrozenTrial) -> None:
                nonlocal reported
                now = len(finished(study))
                reporter.advance(_note(study), steps=now - reported)
                reported = now
                if on_trial is not None and study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
                    on_trial(self.found(study))

            if done < trials:
                study.optimize(
                    lambda trial: self._try(trial, reporter),
                    timeout=timeout,
                    callbacks=[report, MaxTrialsCallback(trials, states=FINISHED)],
                )

    def found(self, study: Study) -> TuningResult:
        """Return the current result of the study."""
        seen = finished(study)
        complete = [trial for trial in seen if trial.state is TrialState.COMPLETE]
        if not complete:
            reason = next((t.user_attrs["diverged"] for t in seen if "diverged" in t.user_attrs), None)
            if reason is None:
                raise ValueError("`timeout` expired before a trial was complete. Give a longer `timeout`.")
            raise FloatingPointError(
                f"none of the {len(seen)} finished trials is complete. The first one diverged: {reason}"
            )
        best = min(complete, key=lambda trial: (trial.value, trial.number))
        drawn = self.fixed | best.user_attrs["drawn"]
        settings = {"model": self.model, **drawn, **self._own_settings()}
        default = next((trial.value for trial in complete if is_default(trial)), None)
        return TuningResult(
            settings, float(best.value or 0.0), default, tuple(map(record, seen)), study.study_name
        )

    def _try(self, trial: optuna.Trial, reporter: Reporter) -> float:
        """Train with the settings of one trial and return the validation AUSAT."""
        drawn = {name: _draw(trial, name, one) for name, one in self.draws.items()}
        known = trial.study.user_attrs.get("auto_order")
        if drawn.get("order") == "auto" and known is not None:
            # Found once per study, because the search for the order takes as long as several trials.
            drawn["order"] = self._finite(known)
        settings = {"model": self.model, **self.fixed, **drawn, **self._own_settings()}
        clf = EarlyClassifier.from_settings(settings, progress=False)
        trial.set_user_attr("drawn", drawn)

        def after_epoch(clf: EarlyClassifier, record: dict[str, float]) -> None:
            epoch = int(record["epoch"])
            if drawn.get("order") == "auto":
                trial.study.set_user_attr("auto_order", clf.model_.order_)
                drawn["order"] = self._finite(clf.model_.order_)
                trial.set_user_attr("drawn", drawn)
            trial.report(self._judge(clf), epoch)
            reporter.advance(f"{_note(trial.study)} · trial {trial.number}, epoch {epoch}", steps=0)
            if not is_default(trial) and trial.should_prune():
                raise optuna.TrialPruned

        held = (self.data.X_held, self.data.y_held)
        try:
            clf.fit(self.data.X, self.data.y, validation_data=held, on_epoch=after_epoch)
            return self._judge(clf)
        except FloatingPointError as error:
            trial.set_user_attr("diverged", str(error))
            raise optuna.TrialPruned from error

    def _own_settings(self) -> dict[str, Any]:
        """Return the settings that all trials share."""
        return {"training.max_epochs": self.max_epochs, "random_state": self.seed}

    def _finite(self, order: int | None) -> int | None:
        """Return the order, or None if it is the maximum, which depends on the length of the series."""
        return None if order == self.data.X.steps - 1 else order

    def _judge(self, clf: EarlyClassifier) -> float:
        """Return the AUSAT of a classifier on the validation series."""
        scores, lengths = clf.scores(self.data.X_held), self.data.X_held.lengths
        if not np.isfinite(scores[inside(lengths, scores.shape[1])]).all():
            raise FloatingPointError("The scores of the validation series are not finite.")
        return ausat(sat_curve(scores, np.searchsorted(clf.classes_, self.data.y_held), lengths))


def _draw(trial: optuna.Trial, name: str, distribution: Any) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    if isinstance(distribution, IntDistribution):
        return trial.suggest_int(name, distribution.low, distribution.high)
    assert isinstance(distribution, FloatDistribution)
    return trial.suggest_float(name, distribution.low, distribution.high)


def _holds(values: list[Any] | tuple[Any, Any], value: Any) -> bool:
    if isinstance(values, list):
        return any(type(one) is type(value) and one == value for one in values)
    return isinstance(value, int | float) and values[0] <= value <= values[1]


def _note(study: Study) -> str:
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not complete:
        return "no complete trial yet"
    best = min(complete, key=lambda trial: (trial.value, trial.number))
    return f"best AUSAT {best.value:.4f} (trial {best.number})"


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the log of Optuna, because progress is reported by `Reporter`."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except StorageInternalError as error:
        raise OSError(f"`storage` failed: {str(error).splitlines()[0]}") from error


def _check_used(held: Any, fraction: float | None, storage: Any, study_name: str | None) -> None:
    """Raise an error if an argument would be ignored."""
    if held is not None and fraction is not None:
        raise ValueError(
            "`validation_fraction` cannot be used with `validation_data`, because nothing is held out. Leave "
            "out one of them."
        )
    if study_name is not None and storage is None:
        raise ValueError(
            "`study_name` can only be used with `storage`: without it the study is not saved. Leave out "
            "`study_name`, or give a database URL as `storage`."
        )
