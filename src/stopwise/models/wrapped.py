"""A classifier of another library on series of one length: its input, its fit, its outputs by class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from stopwise.validation import check_choice

FLAT, CHANNELS_FIRST = "flat", "channels_first"
SHAPES = ("auto", FLAT, CHANNELS_FIRST)
CHANNELS_FIRST_LIBRARY = "aeon"


def check_estimator(estimator: Any) -> None:
    """Raise a TypeError if `estimator` is not a classifier that gives one number per class."""
    if isinstance(estimator, type):
        raise TypeError(
            f"`estimator` must be an instance; got the class {estimator.__name__}. Pass "
            f"{estimator.__name__}()."
        )
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise TypeError(
            "`estimator` must be a classifier with the methods of scikit-learn: fit, get_params and "
            f"predict_proba; got {estimator!r:.100}."
        )
    if not hasattr(estimator, "predict_proba") and not hasattr(estimator, "decision_function"):
        raise TypeError(
            f"`estimator` must have predict_proba or decision_function; {type(estimator).__name__} has "
            "neither. Use another classifier, or wrap it as sklearn.calibration.CalibratedClassifierCV."
        )


def input_shape(estimator: Any, shape: str) -> str:
    """Return the shape of the input: as given, or for "auto", by the library of the estimator.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> input_shape(LogisticRegression(), "auto")
    'flat'
    """
    if check_choice("shape", shape, SHAPES) != "auto":
        return shape
    first = estimator
    while isinstance(first, Pipeline):
        first = first.steps[0][1]
    libraries = {kind.__module__.partition(".")[0] for kind in type(first).__mro__}
    return CHANNELS_FIRST if CHANNELS_FIRST_LIBRARY in libraries else FLAT


def seeded(estimator: Any, random_state: int) -> Any:
    """Return an unfitted copy in which every `random_state` that is None is set.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> seeded(LogisticRegression(), 3)
    LogisticRegression(random_state=3)
    """
    copy = clone(estimator)
    unset = {
        name: random_state
        for name, value in copy.get_params().items()
        if value is None and name.rpartition("__")[2] == "random_state"
    }
    return copy.set_params(**unset) if unset else copy


@dataclass(frozen=True)
class Wrapped:
    """A fitted classifier of another library.

    Parameters
    ----------
    estimator
        The fitted classifier; None if its training series were all of the same class.
    shape
        "flat" or "channels_first".
    classes
        K, the number of classes.
    """

    estimator: Any
    shape: str
    classes: int

    @classmethod
    def fit(cls, estimator: Any, shape: str, x: np.ndarray, y: np.ndarray, classes: int) -> Self:
        """Fit a copy of `estimator` to series x (n, t, C) of classes y (n,)."""
        if len(np.unique(y)) < 2:
            return cls(None, shape, classes)
        copy = clone(estimator)
        with _named_errors(copy, f"{len(x)} series of length {x.shape[1]}"):
            copy.fit(_shaped(x, shape), y)
        return cls(copy, shape, classes)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Return one number (n, K) per class for series x (n, t, C): the larger, the more likely.

        These are logarithms of probabilities (−∞ for 0, and for classes without training series), or values
        of the decision function (the lowest of them for classes without training series). All are zero if
        the classifier knows only one class.
        """
        if self.estimator is None:
            return np.zeros((len(x), self.classes))
        known = np.asarray(self.estimator.classes_, dtype=int)
        with _named_errors(self.estimator, f"series of length {x.shape[1]}"):
            values = np.asarray(self._method(_shaped(x, self.shape)), dtype=np.float64)
        if values.ndim == 1:  # a decision between two classes
            values = np.stack([-values / 2, values / 2], axis=1)
        self._check(values, len(known))
        if self.probabilities:
            with np.errstate(divide="ignore"):
                values = np.log(np.maximum(values, 0.0))
        least = -np.inf if self.probabilities else values.min(axis=1, keepdims=True)
        outputs = np.broadcast_to(least, (len(x), self.classes)).copy()
        outputs[:, known] = values
        return outputs

    @property
    def probabilities(self) -> bool:
        """Whether the outputs are logarithms of probabilities."""
        return hasattr(self.estimator, "predict_proba")

    @property
    def _method(self) -> Callable[[np.ndarray], Any]:
        return self.estimator.predict_proba if self.probabilities else self.estimator.decision_function

    def _check(self, values: np.ndarray, known: int) -> None:
        """Raise a ValueError if the values are not finite numbers (n, known classes)."""
        name = type(self.estimator).__name__
        if values.ndim != 2 or values.shape[1] != known:
            raise ValueError(
                f"`estimator` {name} must give one number per class, shape (n, {known}); got shape "
                f'{values.shape}. For SVC, use decision_function_shape="ovr".'
            )
        if not np.isfinite(values).all():
            raise ValueError(f"`estimator` {name} must give finite numbers; got NaN or infinity.")


@contextmanager
def _named_errors(estimator: Any, given: str) -> Iterator[None]:
    """Raise errors of the estimator as a ValueError that names it and what it was given."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"`estimator` {type(estimator).__name__} failed on {given}: {str(error)[:300].rstrip('. ')}. "
            "Choose other `lengths` or another estimator."
        ) from error


def _shaped(x: np.ndarray, shape: str) -> np.ndarray:
    """Return series x (n, t, C) as (n, t·C) or (n, C, t), in double precision."""
    if shape == FLAT:
        return x.reshape(len(x), -1).astype(np.float64)
    return np.ascontiguousarray(x.transpose(0, 2, 1), dtype=np.float64)
