"""Several models, judged on series they have not seen: the best one, or a combination."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from stopwise.data.examples import Examples
from stopwise.models.base import Model, OnEpoch, plain_params
from stopwise.models.judging import Trial, choose, weighted
from stopwise.models.stack_step import StackStep
from stopwise.models.step import Step
from stopwise.models.trying import MANY_NUMBERS, judging_folds, tried

DEFAULT = ("prefix", "accumulator")

# Samples that a network may read in training, for each million numbers of data, but not fewer than for one.
# The default fit of a million numbers must stay under a minute.
MOST_READ = 5_000_000

log = logging.getLogger("stopwise")


class Stack(Model):
    """The best of several models on held-out series, or a combination if that is clearly better.

    Each model scores series that it was not fitted to, in five folds: of whole groups, or contiguous within
    each class. A model that cross-fits, such as `Prefix`, scores all series. Another one is first fitted for
    a short time to the series outside one fold; if its log loss on this fold is more than 1.5 times that of
    the best model, it is dropped. If not, it is fitted to these series, and dropped if its loss is more than
    1.1 times the best. With few series, the other folds follow, with the same comparison after each. With
    long series, networks are trained for fewer epochs, so that a fit does not take minutes. For the same
    reason a network whose loss is clearly higher after the short fit keeps the order that it had there, and
    with many short series it is not fitted again. The accumulator has two short fits, with a window and with
    a filter; if only the filter is promising, it is the body of the longer fits.

    The model with the least log loss is kept as it is. One that was judged on a single fold replaces one that
    was judged on all series only if its loss is lower by more than two standard errors of the paired
    difference, and so does a weighted sum of the scores of several models. Networks that are kept are fitted
    again to all series, with the order that they had chosen, but not as a part of a sum with many series:
    there the fit that was judged is used.

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
        best, seconds, weight, and what became of it (`outcome`). `combined_loss`: held-out loss of the best
        combination, or None. `kept`: reports of the models in use.
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
    cross_fits: ClassVar[bool] = True
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

        `validation` is passed to models that need validation series. Each fit has a checkpoint of its own.
        """

        def fit(model: Model, part: Examples, stage: str) -> Model:
            return model.fit(
                part,
                validation,
                random_state=random_state,
                progress=progress,
                checkpoint=checkpoint and checkpoint.with_name(f"{checkpoint.name}.{stage}"),
                on_epoch=on_epoch,
            )

        folds = judging_folds(examples, random_state)
        numbers = examples.lengths.sum() * examples.channels
        read = int(MOST_READ * max(1, numbers / MANY_NUMBERS))
        candidates = [model.limited(examples, read) for model in self._candidates()]
        # Models that cross-fit come first: the others are compared with them early.
        order = sorted(range(len(candidates)), key=lambda i: not candidates[i].cross_fits)
        trials: list[Trial] = []
        for i in order:
            start = perf_counter()
            trial = tried(candidates[i], examples, folds, trials, f"{i}", fit)
            trial.seconds = perf_counter() - start
            log.info("%s: %s (%.1f s)", trial.name, trial.outcome, trial.seconds)
            trials.append(trial)
        trials = [trials[order.index(i)] for i in range(len(candidates))]
        weights, combined = choose(trials, examples)
        self.classes_count_, self.channels_ = examples.classes, examples.channels
        self.weights_ = [float(weight) for weight in weights if weight]
        used = np.flatnonzero(weights)
        found = [trials[i].ready(alone=len(used) == 1) for i in used]
        self.models_ = [one or fit(trials[i].model, examples, f"{i}-final") for i, one in zip(used, found)]
        best = trials[int(weights.argmax())]
        self.report_ = {
            "tried": [trial.described(best, float(weight)) for trial, weight in zip(trials, weights)],
            "combined_loss": combined,
            "kept": [model.report_ for model in self.models_],
        }
        held_out = weighted(self.weights_, [trials[i].scores for i in used])
        self.held_out_scores_ = held_out.astype(np.float32)
        return self

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return the scores (B, T, K) of series x (B, T, C)."""
        if self.weights_ == [1.0]:
            return self.models_[0].scores(x)
        return weighted(self.weights_, [model.scores(x) for model in self.models_])

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

        self._candidates()  # raises an error if one of them is not a model
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
        if isinstance(given, str) or not isinstance(given, Sequence) or not given:
            raise ValueError(f"`models` must be a list of models or their names; got {self.models!r}.")
        return [_of_plain(one) if isinstance(one, Mapping) else make(one) for one in given]


def _of_plain(plain: Mapping[str, Any]) -> Model:
    """Return the model of a result of `_plain`."""
    from stopwise.models.registry import make

    if set(plain) != {"name", "options"} or not isinstance(plain["options"], Mapping):
        raise ValueError(f"`models` must be a list of models or their names; it holds {plain!r}.")
    return make(plain["name"], plain["options"])


def _plain(model: Model) -> dict[str, Any]:
    """Return a model as JSON values: its name and options."""
    if vars(type(model)).get("name") is None:
        raise TypeError(f"{type(model).__name__} is a custom model, so a Stack with it cannot be saved.")
    flat: dict[str, Any] = {}
    for name, value in plain_params(model).items():
        nested = value if isinstance(value, dict) else {"": value}
        flat |= {f"{name}.{key}" if key else name: one for key, one in nested.items()}
    return {"name": model.name, "options": flat}
