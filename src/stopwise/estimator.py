"""`EarlyClassifier`: data in, model, stopping rule, decisions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from stopwise import models, rules
from stopwise.data.examples import Examples
from stopwise.data.fingerprints import Fingerprints
from stopwise.data.inputs import Inputs, InputStep
from stopwise.data.labels import by_index, class_shares, known_indices, learn_classes
from stopwise.data.series import SeriesSet
from stopwise.decision import Decisions
from stopwise.models import Model
from stopwise.models.registry import rebuild
from stopwise.models.step import Step
from stopwise.persistence.description import describe, parameters, restore
from stopwise.persistence.folder import ModelFolderError, load_model, save_model
from stopwise.rules import Rule
from stopwise.rules.defaults import check_unfitted, default_rule
from stopwise.streaming.engine import Engine
from stopwise.streaming.scoring import all_scores, scored
from stopwise.streaming.stream import Stream
from stopwise.streaming.streams import Streams
from stopwise.validation import check_integer


class EarlyClassifier(ClassifierMixin, BaseEstimator):
    """Classify time series as early as the evidence allows.

    A model estimates log-likelihood ratios between the classes after every sample; a stopping rule decides
    as soon as they are large enough.

    Parameters
    ----------
    model
        A model of `stopwise.models`, or its name for the defaults: "accumulator", "b2bsqrt", "tandemformer"
        or "tanh".
    rule
        The stopping rule; None: `SPRT(error_rate=0.05)`.
    prior
        How often classes occur where the classifier is used: "empirical" (as in training), "uniform" or
        {label: share}. Used by forced decisions, probabilities and rules that weigh classes, not by `SPRT`.
    standardize
        True: center and scale each channel. "together": scale all channels alike, so that small ones stay
        small, as principal components should. False: take samples as they are.
    missing
        "error": NaN is an error. "mask": NaN means not observed; the last observed value is held, and a
        further channel says what was observed.
    progress
        True: a bar on a terminal, lines elsewhere. False: nothing. "auto": a bar on a terminal only.
    random_state
        Seed: the same seed gives the same result on the same machine.

    Attributes
    ----------
    classes_, prior_
        (K,) the labels, and how often each class occurs.
    model_
        The fitted model; `model_.report_` says what fitting did.
    rule_
        The stopping rule in use. A fitted classifier takes another by `clf.rule_ = rule`.
    inputs_, n_steps_, n_channels_
        What the model sees of a sample; steps of the longest training series; channels of a sample.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=400, offset=1.0, channels=4, length=20, seed=0)
    >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X[:200], y[:200])
    >>> d = clf.decide(X[200:])
    >>> bool((d.labels == y[200:]).mean() > 0.9), bool(d.times.mean() < 10)
    (True, True)
    """

    _shared: tuple[InputStep, Step, bytes] | None = None  # what streams share, made on first use

    def __init__(
        self,
        model: str | Model = "accumulator",
        *,
        rule: Rule | None = None,
        prior: str | Mapping[Any, float] = "empirical",
        standardize: bool | str = True,
        missing: str = "error",
        progress: bool | str = "auto",
        random_state: int = 0,
    ) -> None:
        self.model = model
        self.rule = rule
        self.prior = prior
        self.standardize = standardize
        self.missing = missing
        self.progress = progress
        self.random_state = random_state

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], **params: Any) -> Self:
        """Return a classifier from flat settings, as `stopwise tune` and experiments store them.

        `settings` hold the name of the model, parameters of the classifier, and options of the model, nested
        ones with a dot; `params` are further parameters of the classifier.

        Examples
        --------
        >>> EarlyClassifier.from_settings({"model": "tanh", "order": 2, "training.max_epochs": 5})
        EarlyClassifier(model=TanhTandem(order=2, training=Training(max_epochs=5)))
        """
        own = {name: value for name, value in settings.items() if name in cls._get_param_names()}
        rest = {name: value for name, value in settings.items() if name not in own}
        model = models.make(own.pop("model", "accumulator"), rest)
        return cls(model, **own | params)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        validation_data: tuple[Any, Any] | None = None,
        checkpoint: str | Path | None = None,
        on_epoch: Callable[[EarlyClassifier, dict[str, float]], None] | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            (n, T, D) or (n, T), a list of n arrays (T_i, D) of unequal length, a memory map or a `SeriesSet`.
        y
            (n,) labels of any type.
        groups
            (n,) who or which recording each series comes from: validation parts never split a group.
        validation_data
            (X, y) to choose settings on, in place of a share of X.
        checkpoint
            File of the training state. If it exists, training resumes from it, to the same result.
        on_epoch
            Called after each training epoch with this classifier and the epoch's record; raise to stop.
        """
        check_unfitted(self.rule)
        check_integer("random_state", self.random_state, 0)
        series = self._series(X, fitting=True)
        self.classes_, indices = learn_classes(y, len(series))
        self.prior_ = class_shares(self.prior, self.classes_, indices)
        self.n_steps_, self.n_channels_ = series.steps, series.channels
        self.inputs_ = Inputs.learn(
            series, standardize=self.standardize, missing=self.missing, random_state=self.random_state
        )
        seen, validation = [series], None
        if validation_data is not None:
            held = self._checked_series(validation_data[0])
            known = known_indices("`validation_data`: y", validation_data[1], len(held), self.classes_)
            seen, validation = [series, held], self._examples(held, known)
        self.rule_ = default_rule() if self.rule is None else self.rule
        self.model_ = models.make(self.model)
        self.model_.fit(
            self._examples(series, indices, groups),
            validation,
            random_state=self.random_state,
            progress=self.progress,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            on_epoch=None if on_epoch is None else partial(on_epoch, self),
        )
        self._seen, self._shared = Fingerprints.of(seen, self.random_state), None
        return self

    def scores(self, X: Any) -> np.ndarray:
        """Return the scores (n, T, K) after every sample; NaN past the end of a shorter series.

        The log-likelihood ratio of classes k and l is scores[..., k] − scores[..., l].
        """
        series = self._checked_series(X)
        return all_scores(self.model_, self.inputs_, series, len(self.classes_))

    def llr(self, X: Any) -> np.ndarray:
        """Return the log-likelihood ratios (n, T, K, K): [..., k, l] of class k against class l."""
        scores = self.scores(X)
        return scores[..., :, None] - scores[..., None, :]

    def posteriors(self, X: Any) -> np.ndarray:
        """Return the class probabilities (n, T, K) after every sample, under the prior."""
        return softmax(self.scores(X).astype(np.float64) + np.log(self.prior_), axis=-1)

    def decide(self, X: Any) -> Decisions:
        """Decide on every series by the stopping rule: labels, times, forced, scores at those times."""
        series, rule = self._checked_series(X), self.rule_.with_prior(self.prior_)
        batches = scored(self.model_, self.inputs_, series)
        return Decisions.join([rule.decide(scores, ends) for _, scores, ends in batches], self.classes_)

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels (n,) decided for."""
        return self.decide(X).labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class probabilities (n, K) at the stopping time, under the prior."""
        return softmax(self.decide(X).scores.astype(np.float64) + np.log(self.prior_), axis=1)

    def calibrate(
        self,
        X: Any,
        y: Any,
        *,
        error_rate: float | Mapping[Any, float] | None = None,
        accuracy_gap: float | Mapping[Any, float] | None = None,
        confidence: float = 0.95,
        per_class: bool = False,
        conditional: bool = False,
    ) -> Self:
        """Set a stopping rule that keeps a promise: as early as can be shown on fresh series.

        `print(clf.rule_.guarantee)` says what is promised. It holds with probability `confidence` over draws
        of the calibration series, however wrong the scores are, if new series come from the same source.

        Parameters
        ----------
        X, y
            Series that the model has not seen, and labels: at least 59 for an error rate of 5 %.
        error_rate
            Share of new series that may be decided wrongly; or {label: share}, for each of these classes.
        accuracy_gap
            Instead: share that may be decided wrongly and would have been decided rightly at the end.
        confidence
            Probability that the promise holds.
        per_class
            True: the share holds for every class among its own series.
        conditional
            True: the gap holds among the series decided by step t, for every t.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=1400, offset=1.0, channels=4, length=20, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X[:400], y[:400])
        >>> clf.calibrate(X[400:], y[400:], error_rate=0.1).rule_.guarantee.confidence
        0.95
        """
        series, indices = self._fresh_series(X, y)
        self.rule_ = rules.calibrate(
            self.scores(series),
            indices,
            series.lengths,
            error_rate=by_index("`error_rate`", error_rate, self.classes_),
            accuracy_gap=by_index("`accuracy_gap`", accuracy_gap, self.classes_),
            confidence=confidence,
            per_class=per_class,
            conditional=conditional,
            prior=self.prior_,
            classes=self.classes_.tolist(),
            random_state=self.random_state,
        )
        return self

    def fit_rule(
        self,
        X: Any = None,
        y: Any = None,
        *,
        cost: float | None = None,
        mean_time: float | None = None,
        objective: str | None = None,
        loss: Any = None,
    ) -> Self:
        """Set the best stopping rule for a purpose, without a promise.

        Parameters
        ----------
        X, y
            Series that the model has not seen, and labels.
        cost
            Cost of a sample, where a wrong decision costs `loss`: the cheapest rule for this length.
        mean_time
            Instead: the most samples to take on average.
        objective
            Instead: "harmonic_mean", of accuracy and 1 − earliness.
        loss
            With `cost`: one number (1), a (K, K) table, or {(true label, decided label): loss}.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=800, offset=1.0, channels=4, length=20, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X[:400], y[:400])
        >>> bool(clf.fit_rule(X[400:], y[400:], mean_time=3).decide(X).times.mean() < 3.5)
        True
        """
        check_is_fitted(self)
        if X is None and y is None:
            raise ValueError(
                f"`X` and `y` are needed: {type(self.model_).__name__} keeps no held-out scores of its "
                "training series. Pass series that it has not seen."
            )
        series, indices = self._fresh_series(X, y)
        self.rule_ = rules.fit_rule(
            self.scores(series),
            indices,
            series.lengths,
            cost=cost,
            mean_time=mean_time,
            objective=objective,
            loss=loss,
            prior=self.prior_,
            classes=self.classes_.tolist(),
        )
        return self

    def stream(self, state: Mapping[str, Any] | None = None) -> Stream:
        """Return a stream to feed sample by sample; `state` is what another stream's `state()` returned."""
        return Stream(self._engine(), state)

    def streams(
        self, *, max_streams: int = 100_000, on_drop: Callable[[Hashable, Stream], None] | None = None
    ) -> Streams:
        """Return many keyed streams that advance together; see `stopwise.streaming.streams.Streams`."""
        return Streams(self._engine(), max_streams=max_streams, on_drop=on_drop)

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier to a model folder; `stopwise.load` reads it."""
        check_is_fitted(self)
        save_model(path, self.model_.tensors(), describe(self))

    def set_params(self, **params: Any) -> Self:
        """Set parameters; model__name and rule__name also where the model is a name and the rule None."""
        if isinstance(self.model, str) and any(name.startswith("model__") for name in params):
            self.model = models.make(self.model)
        if self.rule is None and any(name.startswith("rule__") for name in params):
            self.rule = default_rule()
        return super().set_params(**params)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing == "mask"
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made again on demand."""
        return super().__getstate__() | {"_shared": None}

    def _engine(self) -> Engine:
        """Return what streams share. Weights are read and hashed once; the rule is that of the moment."""
        check_is_fitted(self)
        if self._shared is None:
            text = self.model_.digest(repr((self.inputs_.to_dict(), self.classes_)))
            self._shared = (self.inputs_.step(), self.model_.step(), bytes.fromhex(text)[:16])
        inputs, step, digest = self._shared
        return Engine(inputs, step, self.rule_.with_prior(self.prior_), self.classes_, digest)

    def _series(self, X: Any, *, fitting: bool) -> SeriesSet:
        if not isinstance(X, list | tuple | SeriesSet):
            validate_data(self, X, reset=fitting, skip_check_array=True, ensure_2d=False)
        series = X if isinstance(X, SeriesSet) else SeriesSet(X)
        if fitting and not isinstance(X, list | tuple):
            self.n_features_in_ = series.steps
        return series

    def _checked_series(self, X: Any) -> SeriesSet:
        """Return series to score, if they have the channels of the training series."""
        check_is_fitted(self, "inputs_")
        series = self._series(X, fitting=False)
        self.inputs_.check_channels(series)
        return series

    def _fresh_series(self, X: Any, y: Any) -> tuple[SeriesSet, np.ndarray]:
        """Return series and class indices; refuse series that the model has seen."""
        series = self._checked_series(X)
        indices = known_indices("`y`", y, len(series), self.classes_)
        self._seen.refuse_seen(series)
        return series, indices

    def _examples(self, series: SeriesSet, indices: np.ndarray, groups: Any = None) -> Examples:
        return Examples.of(series, self.inputs_, indices, len(self.classes_), groups)


def load(path: str | Path, *, model: Model | None = None, rule: type[Rule] | None = None) -> EarlyClassifier:
    """Read a classifier from the folder that `EarlyClassifier.save` wrote.

    Pass the unfitted `model` and the class of the `rule` if they are your own: a file cannot run code.
    """
    tensors, about = load_model(path)
    try:
        fitted = rebuild(about["model"], tensors, model)
        clf = EarlyClassifier(models.make(fitted), **parameters(about, rule))
        clf.model_ = fitted
        restore(clf, about, rule)
    except ModelFolderError as error:
        raise ModelFolderError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFolderError(f"{path} does not describe a stopwise model: {error}") from error
    return clf
