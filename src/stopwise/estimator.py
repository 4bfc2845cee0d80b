"""`EarlyClassifier`: a model and a stopping rule combined in a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from stopwise import models
from stopwise.data.axes import warn_if_swapped
from stopwise.data.examples import Examples
from stopwise.data.fingerprints import Fingerprints
from stopwise.data.held_out import HeldOut
from stopwise.data.inputs import Inputs
from stopwise.data.labels import class_shares, known_indices, learn_classes
from stopwise.data.padding import warn_if_padded
from stopwise.data.series import SeriesSet
from stopwise.decision import Decisions
from stopwise.display import DisplayMixin
from stopwise.evidence import EvidenceMixin
from stopwise.models import Model
from stopwise.persistence.description import describe
from stopwise.persistence.folder import save_model
from stopwise.rule_fitting import RuleFittingMixin
from stopwise.rules import Rule
from stopwise.rules.defaults import check_unfitted, default_rule
from stopwise.streaming.mixin import StreamingMixin
from stopwise.streaming.scoring import scored
from stopwise.validation import check_integer, warn


class EarlyClassifier(
    DisplayMixin, EvidenceMixin, RuleFittingMixin, StreamingMixin, ClassifierMixin, BaseEstimator
):
    """Classify time series as early as the evidence allows.

    After every sample, a model estimates the log-likelihood ratios between the classes. A stopping rule
    decides as soon as they are large enough.

    Parameters
    ----------
    model
        A model of `stopwise.models`, or the name of a model with default settings. "auto": the better of
        "prefix" and "accumulator" on held-out series. "prefix": classifies every prefix in closed form; fast,
        and usually the most accurate for small and medium sets of real series. "accumulator": the most
        precise network where evidence adds up sample by sample. "b2bsqrt", "tandemformer" and "tanh": the
        networks of the paper.
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

    def __init__(
        self,
        model: str | Model = "auto",
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
        model = models.make(own.pop("model", "auto"), rest)
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
        self._seen, self._shared, self._scoring = Fingerprints.of(seen, self.random_state), None, None
        self._held_out = HeldOut.of(self.model_.held_out_scores_, indices, series.lengths)
        self._held_out_lost = False
        return self

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

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0), rule=sw.FixedTime(3)).fit(X, y)
        >>> clf.predict(X[:4]).shape
        (4,)
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

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0), rule=sw.FixedTime(3)).fit(X, y)
        >>> clf.predict_proba(X[:4]).sum(axis=1).round(6).tolist()
        [1.0, 1.0, 1.0, 1.0]
        """
        return softmax(self.decide(X).scores.astype(np.float64) + np.log(self.prior_), axis=1)

    def save(self, path: str | Path, *, fingerprints: bool = True, held_out: bool = False) -> None:
        """Save the fitted classifier to a folder, to be read by `stopwise.load`.

        Parameters
        ----------
        path
            The folder: new, empty, or with a saved classifier, which is replaced.
        fingerprints
            Whether to save the hashes of the training series. Without them, `calibrate` and `fit_rule` of the
            loaded classifier cannot check whether series were used in training. With them, someone who has
            a series can find out whether it was used in training.
        held_out
            Whether to save the held-out scores of the training series, with their classes and lengths, if the
            model has them. With them, `fit_rule` of the loaded classifier works without further series.

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
        if held_out and self._held_out is None:
            raise ValueError(
                f"`held_out`=True is not possible: {self._why_not_held_out()} Pass held_out=False."
            )
        scores = self._held_out.arrays() if held_out and self._held_out is not None else None
        save_model(path, self.model_.tensors(), describe(self), seen, scores)

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

    def _examples(self, series: SeriesSet, indices: np.ndarray, groups: Any = None) -> Examples:
        return Examples.of(series, self.inputs_, indices, len(self.classes_), groups)
