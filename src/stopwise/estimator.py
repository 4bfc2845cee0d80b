"""`EarlyClassifier`: a model and a stopping rule combined in a scikit-learn estimator."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from stopwise import models, rules
from stopwise.data.axes import warn_if_swapped
from stopwise.data.examples import Examples
from stopwise.data.fingerprints import Fingerprints
from stopwise.data.fresh import independent
from stopwise.data.inputs import Inputs, InputStep
from stopwise.data.labels import by_index, class_shares, known_indices, learn_classes
from stopwise.data.padding import warn_if_padded
from stopwise.data.series import SeriesSet
from stopwise.decision import Decisions
from stopwise.models import Model
from stopwise.models.registry import rebuild
from stopwise.models.step import Step
from stopwise.persistence.description import (
    check_scoring,
    describe,
    parameters,
    restore,
    scoring_digest,
)
from stopwise.persistence.folder import ModelFolderError, load_model, save_model
from stopwise.rules import Rule
from stopwise.rules.defaults import check_unfitted, default_rule
from stopwise.streaming.engine import Engine
from stopwise.streaming.scoring import all_scores, scored
from stopwise.streaming.stream import Stream
from stopwise.streaming.streams import Streams
from stopwise.validation import check_integer, warn


class EarlyClassifier(ClassifierMixin, BaseEstimator):
    """Classify time series as early as the evidence allows.

    After every sample, a model estimates the log-likelihood ratios between the classes. A stopping rule
    decides as soon as they are large enough.

    Parameters
    ----------
    model
        A model of `stopwise.models`, or the name of a model with default settings: "accumulator", "auto",
        "b2bsqrt", "prefix", "tandemformer" or "tanh". For small and medium sets of real series, "prefix" is
        fast and usually the most accurate.
    rule
        The stopping rule. None means `SPRT(error_rate=0.05)`.
    prior
        Class frequencies of the series to classify: "empirical" (as in the training data), "uniform" or a
        dict {label: share}. The prior affects forced decisions, probabilities and rules that use class
        frequencies. It does not affect `SPRT`.
    standardize
        True: center and scale each channel separately. "together": center each channel, and scale all
        channels by the same factor, which keeps their relative sizes (useful for principal components).
        False: use the samples unchanged.
    missing
        "error": NaN raises an error. "mask": NaN marks a missing value. It is replaced by the last observed
        value of its channel, and one more input per channel indicates whether the value was observed.
    progress
        True: show a progress bar on a terminal, print lines otherwise. False: show nothing. "auto": show a
        progress bar on a terminal, nothing otherwise.
    random_state
        Random seed. The same seed gives the same result on the same machine.

    Attributes
    ----------
    classes_
        (K,) class labels.
    prior_
        (K,) class frequencies, by `prior`.
    model_
        The fitted model. `model_.report_` describes the training.
    rule_
        The stopping rule in use. Assign to it to change the rule of a fitted classifier: `clf.rule_ = rule`.
    inputs_
        The fitted conversion of samples to model inputs.
    n_steps_
        Number of steps of the longest training series.
    n_channels_
        Number of channels of a sample.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=200, offset=1.0, channels=4, length=20, seed=0)
    >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X[:100], y[:100])
    >>> decisions = clf.decide(X[100:])
    >>> bool((decisions.labels == y[100:]).mean() > 0.9), bool(decisions.times.mean() < 10)
    (True, True)
    """

    _shared: tuple[InputStep, Step] | None = None  # shared by all streams, created on first use
    _scoring: str | None = None  # scoring digest, from the model folder or computed on first use
    # Scores, class indices and lengths of training series from fits without them, if the model has them.
    _held_out: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

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
        """Create a classifier from a flat dict of settings, as written by `stopwise tune`.

        Parameters
        ----------
        settings
            The name of the model as "model", parameters of the classifier, and options of the model. Nested
            options contain a dot: "training.max_epochs".
        params
            More parameters of the classifier. They override `settings`.

        Returns
        -------
        clf
            The classifier, not fitted.

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
        """Fit the classifier to labeled series.

        Parameters
        ----------
        X
            Training series: an array (n, T, D) or (n, T), a list of n arrays (T_i, D) of unequal length, a
            memory map or a `SeriesSet`.
        y
            (n,) labels of any type.
        groups
            (n,) group of each series, such as a person or a recording. Series of the same group are never
            split between training and validation.
        validation_data
            (X, y) for validation, such as the choice of the best epoch. None: hold out a part of `X`.
        checkpoint
            File for the training state. If it exists, training resumes from it and gives the same result as
            an uninterrupted run.
        on_epoch
            Function that is called after each training epoch with this classifier and the record of the
            epoch. It can raise an exception to stop the training.

        Returns
        -------
        clf
            The fitted classifier itself.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
        >>> clf.classes_.tolist(), clf.n_steps_, clf.n_channels_
        ([0, 1], 10, 3)
        """
        check_unfitted(self.rule)
        check_integer("random_state", self.random_state, 0)
        series = self._series(X, fitting=True)
        warn_if_swapped(series)
        warn_if_padded(series)
        self.classes_, indices = learn_classes(y, len(series))
        self.prior_ = class_shares(self.prior, self.classes_, indices)
        self.n_steps_, self.n_channels_ = series.steps, series.channels
        self.channel_names_ = series.channel_names
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
        self._held_out = _held_out_part(self.model_.held_out_scores_, indices, series.lengths)
        self._scoring = None
        return self

    def scores(self, X: Any) -> np.ndarray:
        """Return the scores of all classes after every sample.

        The log-likelihood ratio of classes k and l is ``scores[..., k] - scores[..., l]``.

        Parameters
        ----------
        X
            Series, in any form that `fit` accepts.

        Returns
        -------
        scores
            (n, T, K) scores; NaN after the end of a series that is shorter than T.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
        >>> clf.scores(X[:5]).shape
        (5, 10, 2)
        """
        series = self._checked_series(X)
        return all_scores(self.model_, self.inputs_, series, len(self.classes_))

    def llr(self, X: Any) -> np.ndarray:
        """Return the log-likelihood ratios of all pairs of classes after every sample.

        Parameters
        ----------
        X
            Series, in any form that `fit` accepts.

        Returns
        -------
        llr
            (n, T, K, K) log-likelihood ratios; ``llr[..., k, l]`` is that of class k against class l.
        """
        scores = self.scores(X)
        return scores[..., :, None] - scores[..., None, :]

    def posteriors(self, X: Any) -> np.ndarray:
        """Return the class probabilities after every sample.

        Parameters
        ----------
        X
            Series, in any form that `fit` accepts.

        Returns
        -------
        probabilities
            (n, T, K) posterior probabilities of the classes under the prior ``prior_``; NaN after the end of
            a series that is shorter than T.
        """
        return softmax(self.scores(X).astype(np.float64) + np.log(self.prior_), axis=-1)

    def decide(self, X: Any) -> Decisions:
        """Apply the stopping rule to every series.

        Parameters
        ----------
        X
            Series, in any form that `fit` accepts.

        Returns
        -------
        decisions
            `Decisions` with labels, stopping times and the scores at these times.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0), rule=sw.FixedTime(3)).fit(X, y)
        >>> clf.decide(X).times.max().item()
        3
        """
        series, rule = self._checked_series(X), self.rule_.with_prior(self.prior_)
        batches = scored(self.model_, self.inputs_, series)
        return Decisions.join([rule.decide(scores, ends) for _, scores, ends in batches], self.classes_)

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels that the stopping rule decides for.

        Parameters
        ----------
        X
            Series, in any form that `fit` accepts.

        Returns
        -------
        labels
            (n,) predicted labels.
        """
        return self.decide(X).labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class probabilities at the stopping times.

        Parameters
        ----------
        X
            Series, in any form that `fit` accepts.

        Returns
        -------
        probabilities
            (n, K) posterior probabilities of the classes under the prior ``prior_``.
        """
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
        copies: str = "once",
    ) -> Self:
        """Set a stopping rule with a guaranteed error rate, calibrated on series unseen in training.

        The rule stops as early as the guarantee allows. The guarantee holds with probability `confidence`
        over draws of the calibration series, even if the scores are wrong, provided that new series come
        from the same source. `print(clf.rule_.guarantee)` shows it. Exactly one of `error_rate` and
        `accuracy_gap` is required.

        Parameters
        ----------
        X
            Calibration series that were not used in `fit`: at least 59 for an error rate of 5 % with the
            default confidence. Series that equal a training series are left out with a warning; if they are
            more than 5 %, an error is raised.
        y
            (n,) labels of the calibration series.
        error_rate
            Maximum share of new series that are decided wrongly; or a dict {label: share} with the maximum
            for each of these classes.
        accuracy_gap
            Maximum share of new series that are decided wrongly but would have been decided correctly at
            their end; or a dict {label: share}.
        confidence
            Probability that the guarantee holds.
        per_class
            True: the guarantee holds for each class separately, among the series of that class.
        conditional
            With `accuracy_gap`. True: for every step t, the guarantee holds among the series that are
            decided by step t.
        copies
            "once": series that are copies of each other, up to tiny changes, count as one, with a warning.
            "all": equal series are independent draws, which happens if series are short and have few
            distinct values.

        Returns
        -------
        clf
            The classifier itself, with the calibrated rule as ``rule_``.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=500, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X[:100], y[:100])
        >>> clf.calibrate(X[100:], y[100:], error_rate=0.1).rule_.guarantee.confidence
        0.95
        """
        series, indices, counted = self._fresh_series(X, y, copies)
        self.rule_ = rules.calibrate(
            self.scores(series),
            indices,
            series.lengths,
            error_rate=by_index("`error_rate`", error_rate, self.classes_),
            accuracy_gap=by_index("`accuracy_gap`", accuracy_gap, self.classes_),
            confidence=confidence,
            per_class=per_class,
            conditional=conditional,
            counted=counted,
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
        method: str | None = None,
        copies: str = "once",
    ) -> Self:
        """Set the stopping rule that is best for a goal, without a guaranteed error rate.

        Exactly one of `cost`, `mean_time` and `objective` is the goal.

        Parameters
        ----------
        X
            Series that were not used in `fit`, handled as in `calibrate`. None: use the held-out scores of
            the training series. Models that cross-fit have them, such as `Prefix`, until they are saved.
        y
            (n,) labels of these series.
        cost
            Cost of a sample, in the units of `loss`. The rule is the one of least cost, by `method`.
        mean_time
            Maximum mean number of samples before a decision. The rule is an `SPRT`.
        objective
            "harmonic_mean": maximize the harmonic mean of accuracy and 1 − earliness. The rule is an `SPRT`.
        loss
            With `cost`: the loss of a wrong decision. One number (default 1), or a dict
            {(true label, decided label): loss}. If the labels are the integers 0 to K − 1, also a (K, K)
            table by true class (row) and decided class (column).
        method
            With `cost`. "line": the rule is a `SlopedProbability`, which needs few series. "finite_horizon":
            a `FiniteHorizon`, which can weigh the losses of different errors. None: "line" if `loss` is one
            number.
        copies
            As in `calibrate`.

        Returns
        -------
        clf
            The classifier itself, with the fitted rule as ``rule_``.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=300, offset=1.0, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X[:100], y[:100])
        >>> clf = clf.fit_rule(X[100:], y[100:], mean_time=3)
        >>> bool(clf.decide(X[100:]).times.mean() <= 3)
        True
        """
        goal = {"cost": cost, "mean_time": mean_time, "objective": objective, "loss": loss, "method": method}
        self._fit_rule(X, y, copies, goal)
        return self

    def _fit_rule(
        self, X: Any, y: Any, copies: str, goal: dict[str, Any]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Set the rule; return scores, class indices and lengths of the series that it was fitted to."""
        check_is_fitted(self)
        if X is None and y is None and self._held_out is not None:
            scores, indices, lengths = self._held_out
        elif X is None or y is None:
            raise ValueError(
                f"`X` and `y` are needed: this {type(self.model_).__name__} has no held-out scores of its "
                "training series. Pass series that were not used in fit()."
            )
        else:
            series, indices, counted = self._fresh_series(X, y, copies)
            series, indices, lengths = series[counted], indices[counted], series[counted].lengths
            scores = self.scores(series)
        self.rule_ = rules.fit_rule(
            scores, indices, lengths, prior=self.prior_, classes=self.classes_.tolist(), **goal
        )
        return scores, indices, lengths

    def stream(self, state: Mapping[str, Any] | None = None, *, rearm: bool = False) -> Stream:
        """Return a stream that classifies one series sample by sample.

        Parameters
        ----------
        state
            The result of `Stream.state` of an earlier stream, to continue from there. None: a new stream.
        rearm
            What happens to samples after the decision. False: they are ignored. True: the next sample starts
            a new series.

        Returns
        -------
        stream
            A `stopwise.streaming.stream.Stream`.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0), rule=sw.FixedTime(2)).fit(X, y)
        >>> stream = clf.stream()
        >>> stream.update(X[0, 0]) is None
        True
        >>> stream.update(X[0, 1]).time
        2
        """
        return Stream(self._engine(), state, rearm=rearm)

    def streams(
        self,
        *,
        max_streams: int = 100_000,
        on_drop: Callable[[Hashable, Stream], None] | None = None,
        idle: float | None = None,
        on_idle: Callable[[Hashable, Stream], None] | None = None,
        rearm: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> Streams:
        """Return a container of many streams, identified by keys and updated in batches.

        Parameters
        ----------
        max_streams
            Maximum number of streams held at a time. Beyond it, the least recently updated stream is
            dropped.
        on_drop
            Function that is called with the key and the `Stream` of each dropped stream. None: log a
            warning.
        idle
            Seconds without a sample after which a stream is removed. None: streams are kept.
        on_idle
            Function that is called with the key and the `Stream` of each idle stream without a decision;
            ``stream.finish()`` gives the forced decision. None: log a warning.
        rearm
            What happens to samples after the decision on their stream. False: they are ignored. True: the
            next sample starts a new series of the same key.
        clock
            Function that returns the time in seconds, for `idle`.

        Returns
        -------
        streams
            A `stopwise.streaming.streams.Streams`.
        """
        return Streams(
            self._engine(),
            max_streams=max_streams,
            on_drop=on_drop,
            idle=idle,
            on_idle=on_idle,
            rearm=rearm,
            clock=clock,
        )

    def save(self, path: str | Path, *, fingerprints: bool = True) -> None:
        """Save the fitted classifier to a folder, to be read by `stopwise.load`.

        Parameters
        ----------
        path
            The folder: new, empty, or with a saved classifier, which is replaced.
        fingerprints
            Whether to save the hashes of the training series. Without them, `calibrate` and `fit_rule` of the
            loaded classifier cannot check whether series were used in training. With them, someone who has
            a series can find out whether it was used in training.

        Examples
        --------
        >>> import tempfile
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
        >>> folder = Path(tempfile.mkdtemp())
        >>> clf.save(folder, fingerprints=False)
        >>> sorted(file.name.partition("-")[0] for file in folder.iterdir())
        ['model.json', 'weights']
        """
        check_is_fitted(self)
        seen = self._seen.to_text() if fingerprints and self._seen is not None else None
        save_model(path, self.model_.tensors(), describe(self), seen)

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the classifier, its model and its rule.

        Parameters
        ----------
        params
            Parameters by name, nested ones as ``model__order`` or ``rule__threshold``. Nested parameters
            also work if `model` is a name or `rule` is None; the default model or rule is created first.

        Returns
        -------
        clf
            The classifier itself.

        Examples
        --------
        >>> EarlyClassifier("tanh").set_params(model__order=2)
        EarlyClassifier(model=TanhTandem(order=2))
        """
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
        """Exclude what is created again on first use."""
        return super().__getstate__() | {"_shared": None}

    def _engine(self) -> Engine:
        """Return the engine of new streams: weights are hashed once, the rule is the current one."""
        check_is_fitted(self)
        if self._shared is None:
            self._shared = (self.inputs_.step(), self.model_.step())
        if self._scoring is None:
            self._scoring = scoring_digest(self)
        digest = bytes.fromhex(self._scoring)[:16]
        rule = self.rule_.with_prior(self.prior_)
        return Engine(*self._shared, rule, self.classes_, digest, self.channel_names_)

    def _series(self, X: Any, *, fitting: bool) -> SeriesSet:
        if not isinstance(X, list | tuple | SeriesSet):
            validate_data(self, X, reset=fitting, skip_check_array=True, ensure_2d=False)
        series = X if isinstance(X, SeriesSet) else SeriesSet(X)
        if fitting and not isinstance(X, list | tuple):
            self.n_features_in_ = series.steps
        return series

    def _checked_series(self, X: Any) -> SeriesSet:
        """Return X as a `SeriesSet`; raise an error if its channels differ from training."""
        check_is_fitted(self, "inputs_")
        series = self._series(X, fitting=False)
        if self.channel_names_ is not None and series.channel_names is not None:
            return series.with_channels(self.channel_names_)
        self.inputs_.check_channels(series)
        if self.channel_names_ is not None:
            warn(
                f"`X` has no channel names, so its channels must be {', '.join(self.channel_names_)}, in "
                "this order. Pass the `series` of the data that stopwise.datasets.read returned, or "
                "sw.SeriesSet(X, channel_names=[...])."
            )
        return series

    def _fresh_series(self, X: Any, y: Any, copies: str) -> tuple[SeriesSet, np.ndarray, np.ndarray]:
        """Return series, class indices and which series count as independent draws."""
        series = self._checked_series(X)
        indices = known_indices("`y`", y, len(series), self.classes_)
        return series, indices, independent(series, self._seen, copies)

    def _examples(self, series: SeriesSet, indices: np.ndarray, groups: Any = None) -> Examples:
        return Examples.of(series, self.inputs_, indices, len(self.classes_), groups)


def _held_out_part(
    scores: np.ndarray | None, indices: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return scores, class indices and lengths of the series that have held-out scores; None if none has."""
    if scores is None:
        return None
    rows = np.flatnonzero(np.isfinite(scores[:, 0]).all(axis=1))
    return scores[rows], indices[rows], lengths[rows]


def load(path: str | Path, *, model: Model | None = None, rule: type[Rule] | None = None) -> EarlyClassifier:
    """Load a classifier that was saved by `EarlyClassifier.save`.

    Loading never runs code from the folder.

    Parameters
    ----------
    path
        The folder of the saved classifier.
    model
        An unfitted instance of the model, if the model is not part of stopwise.
    rule
        The class of the stopping rule, if the rule is not part of stopwise.

    Returns
    -------
    clf
        The fitted classifier.

    Examples
    --------
    >>> import tempfile
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
    >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
    >>> folder = tempfile.mkdtemp()
    >>> clf.save(folder)
    >>> bool((sw.load(folder).scores(X) == clf.scores(X)).all())
    True
    """
    tensors, about, fingerprints = load_model(path)
    try:
        with np.errstate(all="ignore"):  # numbers that are too large are reported by the checks
            scoring = check_scoring(about, tensors)
            fitted = rebuild(about["model"], tensors, model)
            clf = EarlyClassifier(models.make(fitted), **parameters(about, rule))
            clf.model_, clf._scoring = fitted, scoring
            restore(clf, about, fingerprints, rule)
    except ModelFolderError as error:
        raise ModelFolderError(f"{path}: {shorten(str(error), 500, placeholder=' …')}") from None
    except Exception as error:  # a wrong value makes the constructors fail in many ways
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise ModelFolderError(
            f"{path} does not describe a stopwise model: {shorten(reason, 500, placeholder=' …')}"
        ) from error
    return clf
