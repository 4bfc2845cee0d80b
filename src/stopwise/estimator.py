"""`EarlyClassifier`: the scikit-learn face of it all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from stopwise import rules
from stopwise.data import inputs as scaling
from stopwise.data.examples import Examples, SeriesReader
from stopwise.data.fingerprints import Fingerprints
from stopwise.data.labels import known_indices, learn_classes
from stopwise.data.series import MISSING, Series
from stopwise.datasets import hold_out
from stopwise.decision import Decisions
from stopwise.models.networks.modules import Integrator, build
from stopwise.models.networks.scoring import scored
from stopwise.models.networks.steps import make_step
from stopwise.models.networks.training import order_search as orders
from stopwise.models.networks.training.config import RECIPE_FIELDS, Recipe
from stopwise.models.networks.training.loop import train
from stopwise.models.networks.training.polish import polish
from stopwise.persistence.description import described, parameters, restore
from stopwise.persistence.folder import CheckpointError, load_model, save_model
from stopwise.rules import SPRT, Calibrated, FiniteHorizon, Rule
from stopwise.rules.arrays import check_prior
from stopwise.streaming.stream import Engine, Stream
from stopwise.streaming.streams import Streams
from stopwise.validation import check_choice, check_integer, check_real

# The paper's settings, where they are not the defaults: EarlyClassifier("tandemformer", **PAPER).
PAPER: dict[str, Any] = {"order": None, "llre_ratio": 1.0, "polish": False}


class EarlyClassifier(ClassifierMixin, BaseEstimator):
    """Classify time series as early as the evidence allows.

    A network estimates log-likelihood ratios between the classes after every sample; a stopping rule
    decides as soon as they are large enough.

    Parameters
    ----------
    model
        "accumulator", "b2bsqrt" (B2Bsqrt-TANDEM), "tandemformer", "lstm" (tanh, the baselines), or a
        callable (features, classes, order) → `stopwise.models.networks.modules.Integrator` of your own.
    order
        N, the Markov order: the evidence of a sample depends on the N before it. None: the longest the
        series allow. "auto": short trainings of small orders and of the longest, of which the smallest is
        taken that does not clearly lose on validation series. That can take longer than the training itself:
        give the order where you know it.
    formula
        "tandem" or "oblivion": from logits of windows to scores.
    loss
        "lsel" or "lllr".
    llre_ratio
        r in r · loss + (1−r) · multiplet cross-entropy.
    rule
        The stopping rule; None: `SPRT(error_rate=0.05)`.
    max_epochs, batch_size, learning_rate, optimizer, schedule, weight_decay, gradient_clip, patience
        Training; see `stopwise.models.networks.training.loop.Recipe`.
    polish
        After training, take the last layer to the optimum of its convex loss on the training data: the
        scale of large evidence comes right. A few dozen passes over the data; what it keeps in memory
        between them is at most an eighth of the machine's, and 4 GiB.
    dropout
        In the network.
    validation_fraction
        Share of each class held out, at least one series, to choose the best epoch, the order and the
        ridge of the polish; 0 for none.
    standardize
        True: shift and scale each channel by its mean and deviation over the training data. "together": scale
        all channels by one deviation, so that small ones stay small; right for principal components and
        whatever else tells by its size how much it matters. False: take the samples as they are.
    missing
        "error": NaN is an error. "mask": NaN means not observed; the last seen value is held and a channel
        per channel tells the network what was observed.
    model_params
        Further arguments of the network, such as {"hidden": 128}.
    device, devices
        A torch device, and how many: more than one trains data-parallel on Lightning Fabric.
    progress
        True: a bar on a terminal, lines elsewhere; False: nothing; "auto": a bar on a terminal only.
    seed
        The same seed gives the same result on the same machine.

    Attributes
    ----------
    classes_
        (K,) the labels.
    net_
        The trained network.
    history_
        Losses and learning rate of each epoch.
    polish_
        What polishing did: inputs and ridge chosen, and the validation loss before and after; None without.
    order_, n_steps_, n_channels_
        N, and the steps and channels of the training series.
    order_search_
        With order="auto", what was seen of each order: its validation LSEL, the excess over the best, and
        the standard error of that; else None.
    rule_
        The stopping rule in use. A fitted classifier takes another by `clf.rule_ = rule`: streams made from
        then on, decisions and saved models follow it.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=400, offset=1.0, dim=4, length=20, seed=0)
    >>> clf = sw.EarlyClassifier(order=0, max_epochs=20, learning_rate=0.01).fit(X, y)
    >>> X_new, y_new, _ = sw.datasets.gaussian(n=400, offset=1.0, dim=4, length=20, seed=1)
    >>> d = clf.decide(X_new)
    >>> bool((d.labels == y_new).mean() > 0.9), bool(d.times.mean() < 10)
    (True, True)
    """

    def __init__(
        self,
        model: str | Callable[..., Integrator] = "accumulator",
        *,
        order: int | str | None = "auto",
        formula: str = "tandem",
        loss: str = "lsel",
        llre_ratio: float = 0.5,
        rule: Rule | None = None,
        max_epochs: int = 50,
        batch_size: int = 100,
        learning_rate: float = 1e-2,
        optimizer: str = "adam",
        schedule: str = "cosine",
        weight_decay: float = 0.0,
        gradient_clip: float | None = None,
        patience: int | None = 10,
        polish: bool = True,
        dropout: float = 0.0,
        validation_fraction: float = 0.1,
        standardize: bool | str = True,
        missing: str = "error",
        model_params: dict[str, Any] | None = None,
        device: str = "cpu",
        devices: int = 1,
        progress: bool | str = "auto",
        seed: int = 0,
    ) -> None:
        self.model = model
        self.order = order
        self.formula = formula
        self.loss = loss
        self.llre_ratio = llre_ratio
        self.rule = rule
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.gradient_clip = gradient_clip
        self.patience = patience
        self.polish = polish
        self.dropout = dropout
        self.validation_fraction = validation_fraction
        self.standardize = standardize
        self.missing = missing
        self.model_params = model_params
        self.device = device
        self.devices = devices
        self.progress = progress
        self.seed = seed

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        validation_data: tuple[Any, Any] | None = None,
        checkpoint: str | Path | None = None,
        on_epoch: Callable[[EarlyClassifier, dict[str, float]], None] | None = None,
    ) -> Self:
        """Train the network.

        Parameters
        ----------
        X
            (n, T, D) or (n, T), a list of n arrays (T_i, D) of unequal length, a memory map, or a `Series`.
        y
            (n,) labels of any type.
        validation_data
            (X, y) to choose the best epoch on, in place of a share of the training data.
        checkpoint
            A file that holds the training state after each epoch. If it is there already, training goes on
            from it and ends with the same weights as a run that was never interrupted.
        on_epoch
            Called after each epoch with this classifier, which can score as it stands, and the epoch's
            record; to stop the training, raise. With devices=1 only.
        """
        recipe = Recipe(**{name: getattr(self, name) for name in RECIPE_FIELDS})
        self._check_parameters()
        series = self._series(X, fitting=True)
        self.classes_, indices = learn_classes(y, len(series))
        self._check_order(series.steps)
        self.n_steps_, self.n_channels_ = series.steps, series.channels
        learnt, held = self._parts(series, indices, validation_data)
        self._moments = scaling.moments(learnt[0], self.standardize, self.missing, self.seed)
        self._fill = self._moments[0].astype(np.float32)
        train_set = self._examples(*learnt)
        validation_set = None if held is None else self._examples(*held)
        self.order_, self.order_search_ = self._choose_order(train_set, validation_set, recipe)
        path = None if checkpoint is None else Path(checkpoint)
        self.net_ = self._fresh(self.order_)
        self.history_ = train(
            self.net_,
            train_set,
            validation_set,
            recipe,
            checkpoint=path,
            progress=self.progress,
            on_epoch=None if on_epoch is None else partial(on_epoch, self),
        )
        self.polish_ = (
            polish(self.net_, train_set, validation_set, recipe, progress=self.progress)
            if self.polish
            else None
        )
        self.rule_ = SPRT(error_rate=0.05) if self.rule is None else self.rule
        seen = [series] if validation_data is None or held is None else [series, held[0]]
        self._seen = Fingerprints.of(seen, self.missing, self.seed)
        return self

    def scores(self, X: Any) -> np.ndarray:
        """Return the scores (n, T, K) after every sample; NaN past the end of a shorter series.

        The log-likelihood ratio of classes k and l is scores[..., k] − scores[..., l].
        """
        series = self._fitted_series(X)
        result = np.full((len(series), series.steps, len(self.classes_)), np.nan, dtype=np.float32)
        for rows, scores, lengths in self._scored(series):
            inside = np.arange(scores.shape[1]) < lengths[:, None]
            result[rows[0] : rows[-1] + 1, : scores.shape[1]] = np.where(inside[..., None], scores, np.nan)
        return result

    def llr(self, X: Any) -> np.ndarray:
        """Return the log-likelihood ratios (n, T, K, K): [..., k, l] of class k against class l."""
        scores = self.scores(X)
        return scores[..., :, None] - scores[..., None, :]

    def decide(self, X: Any) -> Decisions:
        """Decide on every series by the stopping rule: labels, times, forced, scores at those times."""
        series = self._fitted_series(X)
        parts = [self.rule_.decide(scores, lengths) for _, scores, lengths in self._scored(series)]
        joined = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("labels", "times", "forced", "scores", "lengths")
        }
        return Decisions(**joined | {"labels": self.classes_[joined["labels"]]})

    def calibrate(
        self,
        X: Any,
        y: Any,
        *,
        error_rate: float | Mapping[Any, float] | None = None,
        confidence: float = 0.95,
        per_class: bool = False,
        accuracy_gap: float | Mapping[Any, float] | None = None,
        conditional: bool = False,
        mean_time: float | None = None,
        cost: float | None = None,
        loss: Any = 1.0,
    ) -> Self:
        """Set the stopping rule by held-out series: it stops as early as it can and keeps what is asked for.

        `rule_` then carries the promise: `print(clf.rule_.guarantee)`. It holds with probability `confidence`
        over draws of the calibration series, however wrong the network's scores are, if new series come from
        the same source, and if the network never saw these: series that `fit` was given, those for validation
        too, are refused as far as they are known again (a sample of large sets).

        Parameters
        ----------
        X, y
            Calibration series and their labels; at least 59 for an error rate of 5 %, rather some thousands.
        error_rate
            The share of new series that may be decided wrongly; or a dict {label: share}, of each of these
            classes.
        confidence
            The probability that the promise holds.
        per_class
            True: the share holds for every class among its own series.
        accuracy_gap, conditional, mean_time
            Other targets, instead of `error_rate`; see `stopwise.rules.calibrate`.
        cost, loss
            Instead of all these: the cost of a sample, and the loss of a mistake in the same units, one
            number or (K, K) by true and decided class. The rule is then the cheapest for the deadline that
            the length of these series sets, `stopwise.rules.FiniteHorizon`; it promises no error rate.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=1400, offset=1.0, dim=4, length=20, seed=0)
        >>> clf = sw.EarlyClassifier(order=0, max_epochs=5).fit(X[:400], y[:400])
        >>> clf.calibrate(X[400:], y[400:], error_rate=0.1).rule_.guarantee.confidence
        0.95
        """
        series = self._fitted_series(X)
        indices = known_indices("`y`", y, len(series), self.classes_)
        self._refuse_seen(series)
        if cost is not None:
            if not (error_rate is accuracy_gap is mean_time is None):
                raise ValueError("`cost` stands alone: leave out error_rate, accuracy_gap and mean_time.")
            self.rule_ = FiniteHorizon.fit(self.scores(series), indices, series.lengths, cost=cost, loss=loss)
            return self
        asked = {"error_rate": error_rate, "accuracy_gap": accuracy_gap}
        for name, rate in asked.items():
            if isinstance(rate, Mapping):
                places = known_indices(f"`{name}`", list(rate), len(rate), self.classes_)
                asked[name] = dict(zip(places.tolist(), rate.values()))
        self.rule_ = rules.calibrate(
            self.scores(series),
            indices,
            series.lengths,
            **asked,
            confidence=confidence,
            per_class=per_class,
            conditional=conditional,
            mean_time=mean_time,
            classes=self.classes_.tolist(),
            seed=self.seed,
        )
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels (n,) decided for."""
        return self.decide(X).labels

    def predict_proba(self, X: Any, prior: Any = None) -> np.ndarray:
        """Return the class probabilities (n, K) at the stopping time.

        Parameters
        ----------
        X
            As in `fit`.
        prior
            (K,) how often each class occurs, in the order of `classes_`; None: equally often. The stopping
            time does not change: that is the rule's matter.
        """
        scores = self.decide(X).scores.astype(np.float64)
        if prior is not None:
            scores += np.log(check_prior(prior, len(self.classes_)))
        likelihood = np.exp(scores - scores.max(1, keepdims=True))
        return likelihood / likelihood.sum(1, keepdims=True)

    def stream(self, state: Mapping[str, Any] | None = None) -> Stream:
        """Return a stream to feed sample by sample; `state` is what another's `state()` returned."""
        return Stream(self._engine(), state)

    def streams(
        self, *, max_streams: int = 100_000, on_drop: Callable[[Hashable, Stream], None] | None = None
    ) -> Streams:
        """Return many keyed streams that advance together; see `stopwise.streaming.streams.Streams`."""
        return Streams(self._engine(), max_streams=max_streams, on_drop=on_drop)

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier to a folder; `stopwise.load` reads it."""
        check_is_fitted(self)
        save_model(path, self.net_.state_dict(), described(self))

    @classmethod
    def load(cls, path: str | Path, *, model: Callable[..., Integrator] | None = None) -> Self:
        """Read a classifier that `save` wrote; `model` is the network's maker where it was your own."""
        tensors, about = load_model(path)
        try:
            clf = cls(**parameters(about, model))
            restore(clf, about)
            clf.net_ = clf._build(clf.order_)
            clf.net_.load_state_dict(tensors)
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from None
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{path} does not describe a stopwise model: {error}") from error
        clf.net_.eval()
        return clf

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing == "mask"
        return tags

    def _engine(self) -> Engine:
        check_is_fitted(self)
        digest = hashlib.sha256()
        for name, value in sorted(self.net_.state_dict().items()):
            digest.update(name.encode() + value.cpu().numpy().tobytes())
        step = make_step(self.net_)
        return Engine(step, self.rule_, self.classes_, self.missing, self._fill, digest.digest()[:16])

    def _check_parameters(self) -> None:
        check_choice("missing", self.missing, MISSING)
        scaling.check_standardize(self.standardize)
        check_real("validation_fraction", self.validation_fraction, 0, 1, open_high=True)
        check_real("dropout", self.dropout, 0, 1, open_high=True)
        check_integer("seed", self.seed, 0)
        if self.rule is not None and not isinstance(self.rule, Rule):
            raise TypeError(
                f"`rule` must be a stopping rule such as SPRT(error_rate=0.05); got {self.rule!r}."
            )
        if isinstance(self.rule, Calibrated):
            raise ValueError(
                "`rule` carries a guarantee, which holds for the model it was calibrated with, not for the "
                "one trained here. Give rule.without_guarantee(), and call calibrate() after fit()."
            )

    def _series(self, X: Any, *, fitting: bool) -> Series:
        if not isinstance(X, list | tuple | Series):
            validate_data(self, X, reset=fitting, skip_check_array=True, ensure_2d=False)
        series = Series(X)
        if fitting and not isinstance(X, list | tuple):
            self.n_features_in_ = series.steps
        return series

    def _fitted_series(self, X: Any) -> Series:
        check_is_fitted(self)
        series = self._series(X, fitting=False)
        if series.channels != self.n_channels_:
            raise ValueError(
                f"`X` must have {self.n_channels_} channel(s), as in training; got {series.channels} "
                f"(shape {series.shape}: series, steps, channels)."
            )
        return series

    def _refuse_seen(self, series: Series) -> None:
        seen = self._seen.matches(series, self.missing)
        if len(seen):
            raise ValueError(
                f"`X` must be series the model has not seen; {len(seen)} of {len(series)} were given to fit "
                f"(series {', '.join(map(str, seen[:3]))}{', …' if len(seen) > 3 else ''}), where errors are "
                "rarer than on new ones. Split the data before fit."
            )

    def _check_order(self, steps: int) -> None:
        if self.order is None or self.order == "auto":
            return
        if isinstance(self.order, str):
            raise ValueError(f"`order` must be a whole number, None or 'auto'; got {self.order!r}.")
        if check_integer("order", self.order, 0) > steps - 1:
            raise ValueError(
                f"`order` must be in [0, T−1]; got order={self.order} for series of length T={steps}. "
                "Use order=None for the longest, or order='auto'."
            )

    def _choose_order(
        self, train_set: Examples, validation_set: Examples | None, recipe: Recipe
    ) -> tuple[int, list[dict[str, Any]] | None]:
        """Return the order, and what a search for it saw."""
        if self.order is None:
            return self.n_steps_ - 1, None
        if self.order != "auto":
            return int(self.order), None
        if validation_set is None:
            raise ValueError(
                "`order`='auto' needs validation series to choose the order on; there are none. Give "
                "`validation_data`, raise `validation_fraction`, or give an order."
            )
        return orders.search(
            self._fresh,
            train_set,
            validation_set,
            recipe,
            orders.candidates(self.n_steps_),
            polished=self.polish,
            progress=self.progress,
        )

    def _parts(
        self, series: Series, indices: np.ndarray, validation_data: tuple[Any, Any] | None
    ) -> tuple[tuple[Series, np.ndarray], tuple[Series, np.ndarray] | None]:
        """Return series and class indices to learn from, and those to validate on, if there are any."""
        if validation_data is not None:
            other = self._fitted_series(validation_data[0])
            known = known_indices("`validation_data`: y", validation_data[1], len(other), self.classes_)
            return (series, indices), (other, known)
        if self.validation_fraction == 0 or np.bincount(indices).max() == 1:  # no class has one to spare
            return (series, indices), None
        rows, held = hold_out(indices, fraction=self.validation_fraction, seed=self.seed)
        return (series[rows], indices[rows]), (series[held], indices[held])

    def _examples(self, series: Series, indices: np.ndarray) -> Examples:
        return Examples(SeriesReader(series, self.missing, self._fill), indices, len(self.classes_))

    def _build(self, order: int) -> Integrator:
        params = dict(self.model_params or {})
        if self.dropout and isinstance(self.model, str):
            params["dropout"] = self.dropout
        with torch.random.fork_rng([]):
            torch.manual_seed(self.seed)
            return build(
                self.model,
                features=self.n_channels_ * (2 if self.missing == "mask" else 1),
                classes=len(self.classes_),
                order=order,
                longest=order == self.n_steps_ - 1,
                formula=self.formula,
                **params,
            )

    def _fresh(self, order: int) -> Integrator:
        """Return a network to be trained, which sees standardised series if asked for."""
        net = self._build(order)
        if self.standardize:
            mean, deviation = self._moments
            if self.missing == "mask":  # the channels that tell what was observed stay 0 and 1
                mean = np.concatenate([mean, np.zeros_like(mean)])
                deviation = np.concatenate([deviation, np.ones_like(deviation)])
            net.standardise(torch.from_numpy(mean), torch.from_numpy(deviation))
        return net

    def _scored(self, series: Series) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        read = SeriesReader(series, self.missing, self._fill)
        return scored(self.net_, read, len(series), self.batch_size, self.device)


def load(path: str | Path, *, model: Callable[..., Integrator] | None = None) -> EarlyClassifier:
    """Read a classifier saved with `EarlyClassifier.save`.

    Parameters
    ----------
    path
        The folder.
    model
        What made the network, if it was your own: code is never read from the folder.
    """
    return EarlyClassifier.load(path, model=model)
