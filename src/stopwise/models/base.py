"""What every model promises: it learns from examples, scores every prefix, and can be stored."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from torch import Tensor

from stopwise.data.examples import Examples
from stopwise.models.rescoring import RescoringStep
from stopwise.models.step import Step
from stopwise.persistence.digests import digest_tensors

OnEpoch = Callable[[dict[str, float]], None]


class Model(BaseEstimator, ABC):
    """A model turns the samples so far into scores, whose differences are log-likelihood ratios.

    A model of your own subclasses this and implements `fit` and `scores`; to be saved, also `tensors` and
    `restore`. `EarlyClassifier(model=MyModel())` does the rest. A network of your own needs less: see
    `stopwise.models.Network`.

    The constructor stores its arguments under their own names and does nothing else, as in scikit-learn, so
    that `get_params`, `set_params`, `clone` and `GridSearchCV` work. What `fit` learns ends in `_`.

    Attributes
    ----------
    report_
        What fitting did, as plain JSON values.
    held_out_scores_
        (n, T, K) scores of the training series from fits that did not see them, where the model cross-fits;
        else None.
    classes_count_, channels_
        K, and the numbers the model sees of a sample.
    """

    # What the command line and saved files call it; None for a model of the user's own.
    name: ClassVar[str | None] = None

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
        """Learn from examples.

        Parameters
        ----------
        examples
            Labeled series, as the model sees them.
        validation
            Further series to choose settings on; None: a model that needs some takes them from `examples`,
            whole groups together.
        random_state
            Seed: the same seed gives the same result on the same machine.
        progress
            As for `EarlyClassifier`.
        checkpoint
            A file from which an interrupted fit resumes.
        on_epoch
            Called with the record of each training epoch.
        """

    @abstractmethod
    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return the scores (B, T, K) of series x (B, T, C); those at step t depend on samples up to t."""

    def step(self, xp: Any = np) -> Step:
        """Return the step that streams advance by, on numpy or torch.

        A model without a step of its own streams by scoring all samples kept so far: right, and slow.
        """
        if xp is not np:
            raise TypeError(
                f"{type(self).__name__} has no step of its own, so it cannot be exported. Implement `step`."
            )
        return RescoringStep(self, self.classes_count_, self.channels_)

    @property
    def batch_size(self) -> int:
        """How many series `scores` is given at a time."""
        return 100

    def describe(self) -> dict[str, Any]:
        """Return the fitted model as plain JSON values: its name, parameters and what `fit` learned."""
        # A subclass of a named model is a model of the user's own, although it inherits the name.
        name = vars(type(self)).get("name")
        return {
            "name": name,
            "class": type(self).__name__,
            "params": plain_params(self) if name else {},
            "fitted": self.fitted() | {"classes": self.classes_count_, "channels": self.channels_},
            "report": self.report_,
        }

    def digest(self, text: str = "") -> str:
        """Return the SHA-256 of what the model learned and of a text: states of streams carry it.

        A model that cannot be saved gets one of its own each time: its states are good in this process only.
        """
        try:
            return digest_tensors(self.tensors(), text)
        except TypeError:
            return secrets.token_hex(32)

    def fitted(self) -> dict[str, Any]:
        """Return what `restore` needs beside the tensors, as plain JSON values."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Return the numbers that `fit` learned, by name."""
        raise TypeError(
            f"{type(self).__name__} cannot be saved: it does not implement `tensors` and `restore`."
        )

    def restore(self, fitted: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
        """Set what `fit` learned from what `fitted` and `tensors` returned."""
        raise TypeError(f"{type(self).__name__} cannot be loaded: it does not implement `restore`.")


def plain_params(thing: BaseEstimator) -> dict[str, Any]:
    """Return parameters as plain JSON values, those of nested objects as nested dicts.

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
    """Return a numpy number as Python's."""
    return value.item() if isinstance(value, np.generic) else value
