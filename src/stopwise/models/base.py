"""Base class of models: learn from examples, score every prefix, save and restore."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from torch import Tensor

from stopwise.data.examples import Examples
from stopwise.models.rescoring import RescoringStep
from stopwise.models.step import Step

OnEpoch = Callable[[dict[str, float]], None]


class Model(BaseEstimator, ABC):
    """Base class of models.

    A model scores each class after every sample of a series. Differences of scores estimate log-likelihood
    ratios.

    To write a custom model, subclass `Model` and implement `fit` and `scores`. To save it, also implement
    `tensors` and `restore`. Then use it in ``EarlyClassifier(model=MyModel())``. For a custom torch network,
    `stopwise.models.Network` requires less code.

    As in scikit-learn, the constructor only stores its arguments under their own names, so that
    `get_params`, `set_params`, `clone` and `GridSearchCV` work. The names of fitted attributes end in an
    underscore. `fit` must set ``report_``, ``classes_count_`` and ``channels_``.

    Attributes
    ----------
    report_
        Summary of the fit, as JSON values.
    held_out_scores_
        (n, T, K) scores of the training series from fits that did not use them, if the model cross-fits; None
        otherwise.
    classes_count_
        K, the number of classes.
    channels_
        C, the number of input values per sample, as the model receives them.

    Examples
    --------
    A model of Gaussian samples with one mean per class and unit variance:

    >>> import numpy as np
    >>> import stopwise as sw
    >>> class GaussianMeans(sw.models.Model):
    ...     def fit(self, examples, validation=None, **options):
    ...         x, _ = examples.read(np.arange(len(examples)))  # (n, T, C)
    ...         self.classes_count_, self.channels_ = examples.classes, examples.channels
    ...         self.means_ = np.stack([x[examples.y == k].mean((0, 1)) for k in range(examples.classes)])
    ...         self.report_ = {}
    ...         return self
    ...     def scores(self, x):
    ...         increments = x @ self.means_.T - (self.means_**2).sum(1) / 2  # (B, T, K)
    ...         return increments.cumsum(1)
    >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
    >>> sw.EarlyClassifier(GaussianMeans()).fit(X, y).scores(X).shape
    (100, 10, 2)
    """

    # The name on the command line and in saved files; None for a custom model.
    name: ClassVar[str | None] = None
    # Whether `fit` sets `held_out_scores_`.
    cross_fits: ClassVar[bool] = False
    # Whether `tensors` and `restore` are implemented.
    can_be_saved: ClassVar[bool] = True

    report_: dict[str, Any]
    held_out_scores_: np.ndarray | None = None
    classes_count_: int
    channels_: int

    @abstractmethod
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
        """Fit the model to labeled series.

        Parameters
        ----------
        examples
            Labeled series, preprocessed as input of the model.
        validation
            Additional series for the choice of settings. If None, a model that needs validation series holds
            out some of `examples`, without splitting groups.
        random_state
            Random seed. The same seed gives the same result on the same machine.
        progress
            As for `EarlyClassifier`.
        checkpoint
            File from which an interrupted fit resumes.
        on_epoch
            Callback that receives the record of each training epoch.

        Returns
        -------
        self
            The fitted model.
        """

    def shorts(self) -> list[Model]:
        """Return unfitted copies that are much faster to fit, for a first comparison."""
        return []

    def limited(self, examples: Examples, samples: int) -> Model:
        """Return an unfitted copy whose fit to these examples reads at most about this many samples.

        Models that are fast to fit return themselves.
        """
        return self

    def settled(self, fitted: Model) -> Model:
        """Return an unfitted copy with the settings that the fit of another copy chose."""
        return clone(self)

    @abstractmethod
    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return the scores (B, T, K) of series x (B, T, C).

        The scores at step t must depend only on the samples up to step t.
        """

    def last_scores(self, x: np.ndarray) -> np.ndarray:
        """Return the scores (B, K) after the last sample of series x (B, T, C).

        Streams of models without a step of their own use this method. Override it if it can be faster than
        `scores`.
        """
        return self.scores(x)[:, -1]

    def step(self, xp: Any = np) -> Step:
        """Return the streaming step, which updates the scores of streams by one sample.

        By default, the step stores all samples of a stream and scores them again after each new one. The
        result is correct, but slow. Override `step` to provide a faster one.

        Parameters
        ----------
        xp
            Array library: numpy or torch. The default step supports only numpy; export needs torch.
        """
        if xp is not np:
            raise TypeError(
                f"{type(self).__name__} does not implement a streaming step, so it cannot be exported. "
                "Implement `step`."
            )
        return RescoringStep(self, self.classes_count_, self.channels_)

    @property
    def batch_size(self) -> int:
        """Number of series passed to `scores` at a time."""
        return 100

    def describe(self) -> dict[str, Any]:
        """Return the name, parameters, fitted values and report of the model, as JSON values."""
        # A subclass of a built-in model is a custom model, although it inherits the name.
        name = vars(type(self)).get("name")
        return {
            "name": name,
            "class": type(self).__name__,
            "params": plain_params(self) if name else {},
            "fitted": self.fitted() | {"classes": self.classes_count_, "channels": self.channels_},
            "report": self.report_,
        }

    def fitted(self) -> dict[str, Any]:
        """Return the values that `restore` needs in addition to the tensors, as JSON values."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Return the fitted tensors by name."""
        raise TypeError(
            f"{type(self).__name__} cannot be saved: it does not implement `tensors` and `restore`."
        )

    def restore(self, fitted: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
        """Restore the fitted attributes.

        Parameters
        ----------
        fitted
            Values returned by `fitted`, with `classes` and `channels` added.
        tensors
            Tensors returned by `tensors`.
        """
        raise TypeError(f"{type(self).__name__} cannot be loaded: it does not implement `restore`.")


def plain_params(thing: BaseEstimator) -> dict[str, Any]:
    """Return the parameters of an estimator as JSON values; nested estimators become nested dicts.

    Examples
    --------
    >>> from stopwise.models import Accumulator, Training
    >>> plain_params(Accumulator(order=1, training=Training(max_epochs=3)))["training"]["max_epochs"]
    3
    """
    return {
        name: plain_params(value) if isinstance(value, BaseEstimator) else _plain(value)
        for name, value in thing.get_params(deep=False).items()
    }


def _plain(value: Any) -> Any:
    """Convert a numpy scalar to a Python number; return other values unchanged."""
    return value.item() if isinstance(value, np.generic) else value
