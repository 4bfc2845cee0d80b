"""Several models, judged on series they have not seen: the best one, or a combination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from torch import Tensor

from stopwise.data.examples import Examples
from stopwise.data.holdout import hold_out
from stopwise.models.base import Model, OnEpoch, plain_params
from stopwise.models.stack_step import StackStep
from stopwise.models.step import Step
from stopwise.validation import inside

DEFAULT = ("prefix", "accumulator")
JUDGED = 0.2  # share of the series on which the models are compared
CLEARLY = 2.0  # standard errors by which a combination must be better than the best model


class Stack(Model):
    """The best of several models on held-out series, or a combination if that is clearly better.

    Each model scores series that it was not fitted to: a model that cross-fits, such as `Prefix`, all series;
    another one a held-out fifth. The model with the least log loss there is kept as it is. A weighted sum of
    the scores of all models replaces it only if its loss is lower by more than two standard errors of the
    paired difference. Networks that are kept are fitted again to all series.

    ``model="auto"`` of `EarlyClassifier` is this model with its defaults.

    Parameters
    ----------
    models
        Models or their names. None: "prefix" and "accumulator".

    Attributes
    ----------
    models_
        The fitted models that are used.
    weights_
        Their weights in the scores; [1.0] if one model is used.
    report_
        `tried`: for each model its name, held-out log loss, the standard error of its difference from the
        best, seconds, and what became of it. `kept`: reports of the models in use.
    held_out_scores_
        (n, T, K) scores of training series from fits without them; NaN for series that were not held out.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=100, channels=2, length=10, seed=0)
    >>> network = sw.models.Accumulator(order=0, training=sw.models.Training(max_epochs=2))
    >>> clf = sw.EarlyClassifier(sw.models.Stack([sw.models.Prefix(kernels=64), network])).fit(X, y)
    >>> [tried["model"] for tried in clf.model_.report_["tried"]]
    ['prefix', 'accumulator']
    """

    name: ClassVar[str | None] = "auto"
    models_: list[Model]
    weights_: list[float]

    def __init__(self, models: Sequence[Any] | None = None) -> None:
        self.models = models

    def fit(
        self,
        examples: Examples,
        validation: Examples | None = None,
        *,
        random_state: int = 0,
        progress: bool | str = False,
        checkpoint: Path | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Fit the models and choose; see `Model.fit`.

        `validation` is passed to models that need validation series. Each model has a checkpoint of its own.
        """
        rows, held = hold_out(examples.y, examples.groups, fraction=JUDGED, seed=random_state)

        def fit(model: Model, part: Examples, stage: str) -> Model:
            return model.fit(
                part,
                validation,
                random_state=random_state,
                progress=progress,
                checkpoint=checkpoint and checkpoint.with_name(f"{checkpoint.name}.{stage}"),
                on_epoch=on_epoch,
            )

        tried: list[dict[str, Any]] = []
        models: list[Model] = []
        scores: list[np.ndarray] = []
        for i, model in enumerate(self._candidates()):
            start = perf_counter()
            judged = fit(model, examples, f"final-{i}") if model.cross_fits else model
            if judged.held_out_scores_ is None:  # it does not cross-fit, or there are too many series
                judged = fit(clone(model), examples.subset(rows), f"judged-{i}")
            models.append(model)
            scores.append(_held_scores(judged, examples, held, judged is model))
            tried.append({"model": model.name or type(model).__name__, "seconds": perf_counter() - start})
        losses = np.stack([series_losses(one, examples, held) for one in scores])  # (M, held)
        weights, combined = _choose(scores, losses, examples, held)
        self.classes_count_, self.channels_ = examples.classes, examples.channels
        self.weights_ = [float(weight) for weight in weights if weight]
        self.models_ = []
        for i, model in enumerate(models):
            if weights[i]:
                self.models_.append(model if model.cross_fits else fit(model, examples, f"final-{i}"))
        self.report_ = {
            "tried": _described(tried, losses, weights),
            "combined_loss": combined,
            "kept": [model.report_ for model in self.models_],
        }
        self.held_out_scores_ = _held_out(models, weights, scores, examples, held)
        return self

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return the scores (B, T, K) of series x (B, T, C)."""
        if self.weights_ == [1.0]:
            return self.models_[0].scores(x)
        return _weighted(self.weights_, [model.scores(x) for model in self.models_])

    @property
    def batch_size(self) -> int:
        """Number of series passed to `scores` at a time."""
        return min(model.batch_size for model in self.models_)

    def step(self, xp: Any = np) -> Step:
        """Return the streaming step; see `Model.step`."""
        if self.weights_ == [1.0]:
            return self.models_[0].step(xp)
        return StackStep([model.step(xp) for model in self.models_], self.weights_)

    def describe(self) -> dict[str, Any]:
        """Return the description of the model, with those of the models in use; see `Model.describe`."""
        chosen = None if self.models is None else [_plain(model) for model in self._candidates()]
        sizes = {"classes": self.classes_count_, "channels": self.channels_}
        return {
            "name": self.name,
            "class": type(self).__name__,
            "params": {"models": chosen},
            "fitted": self.fitted() | sizes,
            "report": self.report_,
        }

    def fitted(self) -> dict[str, Any]:
        """Return the descriptions and weights of the models in use."""
        return {"models": [model.describe() for model in self.models_], "weights": self.weights_}

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of all models in use."""
        return {
            f"{i}/{name}": tensor
            for i, model in enumerate(self.models_)
            for name, tensor in model.tensors().items()
        }

    def restore(self, fitted: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
        """Restore the fitted attributes; see `Model.restore`."""
        from stopwise.models.registry import rebuild

        self.classes_count_, self.channels_ = int(fitted["classes"]), int(fitted["channels"])
        self.weights_ = [float(weight) for weight in fitted["weights"]]
        if len(self.weights_) != len(fitted["models"]) or not self.weights_:
            raise ValueError("`weights` must have one number per model.")
        if not all(np.isfinite(weight) and weight > 0 for weight in self.weights_):
            raise ValueError("`weights` must be positive.")
        self.models_ = []
        for i, about in enumerate(fitted["models"]):
            own = {name: tensor for name, tensor in tensors.items() if name.startswith(f"{i}/")}
            self.models_.append(rebuild(about, {name.split("/", 1)[1]: own[name] for name in own}))
            model = self.models_[-1]
            if (model.classes_count_, model.channels_) != (self.classes_count_, self.channels_):
                raise ValueError("the models must have the same classes and channels.")

    def _candidates(self) -> list[Model]:
        """Return new, unfitted models."""
        from stopwise.models.registry import make

        given = DEFAULT if self.models is None else self.models
        if isinstance(given, str) or not len(given):
            raise ValueError(f"`models` must be a list of models or their names; got {self.models!r}.")
        return [make(one["name"], one["options"]) if isinstance(one, Mapping) else make(one) for one in given]


def _plain(model: Model) -> dict[str, Any]:
    """Return a model as JSON values: its name and options."""
    if vars(type(model)).get("name") is None:
        raise TypeError(f"{type(model).__name__} is a custom model, so a Stack with it cannot be saved.")
    flat: dict[str, Any] = {}
    for name, value in plain_params(model).items():
        nested = value if isinstance(value, dict) else {"": value}
        flat |= {f"{name}.{key}" if key else name: one for key, one in nested.items()}
    return {"name": model.name, "options": flat}


def _weighted(weights: Sequence[float] | np.ndarray, scores: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sum of arrays of scores with weights."""
    total = weights[0] * scores[0]
    for weight, one in zip(weights[1:], scores[1:]):
        total = total + weight * one
    return total


def _held_scores(model: Model, examples: Examples, held: np.ndarray, cross_fitted: bool) -> np.ndarray:
    """Return scores (held, T, K) of held-out series from a fit without them."""
    if cross_fitted and model.held_out_scores_ is not None:
        return model.held_out_scores_[held]
    found = np.full((len(held), examples.steps, examples.classes), np.nan)
    for start in range(0, len(held), model.batch_size):
        part = slice(start, start + model.batch_size)
        x, _ = examples.read(held[part])
        found[part, : x.shape[1]] = model.scores(x)
    return found


def series_losses(scores: np.ndarray, examples: Examples, held: np.ndarray) -> np.ndarray:
    """Return the mean log loss (held,) of each series over its steps, under the empirical prior."""
    prior = np.bincount(examples.y, minlength=examples.classes) / len(examples)
    own = inside(examples.lengths[held], scores.shape[1])
    log_p = log_softmax(np.where(own[..., None], scores, 0) + np.log(prior), axis=-1)
    loss = -np.take_along_axis(log_p, examples.y[held][:, None, None], axis=2)[..., 0]  # (held, T)
    return np.where(own, loss, 0).sum(axis=1) / examples.lengths[held]


def _choose(
    scores: list[np.ndarray], losses: np.ndarray, examples: Examples, held: np.ndarray
) -> tuple[np.ndarray, float | None]:
    """Return the weights (M,), exactly 1 for a single model, and the loss of the best combination."""
    best = int(losses.mean(axis=1).argmin())
    single = np.eye(len(scores))[best]
    if len(scores) == 1:
        return single, None
    filled = [np.nan_to_num(one) for one in scores]

    def loss_of(weights: np.ndarray) -> np.ndarray:
        return series_losses(_weighted(weights, filled), examples, held)

    found = minimize(
        lambda weights: loss_of(weights).mean(),
        np.where(single > 0, 1.0, 0.1),
        method="L-BFGS-B",
        bounds=[(0.0, 10.0)] * len(scores),
        options={"maxiter": 30},
    ).x
    gain = losses[best] - loss_of(found)
    clear = gain.mean() > CLEARLY * gain.std() / np.sqrt(len(gain))
    used = np.where(found > 1e-3, found, 0.0)
    combination = clear and (used > 0).sum() > 1
    return (used if combination else single), float(loss_of(found).mean())


def _described(tried: list[dict[str, Any]], losses: np.ndarray, weights: np.ndarray) -> list[dict[str, Any]]:
    """Return what was tried, as JSON values."""
    best = losses[int(losses.mean(axis=1).argmin())]
    return [
        one
        | {
            "loss": float(loss.mean()),
            "standard_error": float((loss - best).std() / np.sqrt(len(loss))),
            "weight": float(weight),
        }
        for one, loss, weight in zip(tried, losses, weights)
    ]


def _held_out(
    models: list[Model], weights: np.ndarray, scores: list[np.ndarray], examples: Examples, held: np.ndarray
) -> np.ndarray:
    """Return held-out scores (n, T, K) of the chosen models; NaN where there are none."""
    used = np.flatnonzero(weights)
    whole = models[used[0]].held_out_scores_ if len(used) == 1 and models[used[0]].cross_fits else None
    if whole is not None:
        return whole
    found = np.full((len(examples), examples.steps, examples.classes), np.nan, np.float32)
    found[held] = _weighted(weights[used], [scores[i] for i in used])
    return found
