"""Metrics of decisions: error rates, earliness, and cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.decision import Decisions
from stopwise.validation import check_class_indices, check_integer, check_real


def error_rates(labels: Any, y: Any, classes: int) -> tuple[float, np.ndarray]:
    """Return the macro error rate and the error rate of each class.

    The macro error rate is the mean of the class error rates over the classes that occur in `y`. Rare and
    frequent classes have the same weight.

    Parameters
    ----------
    labels
        (n,) predicted class indices.
    y
        (n,) true class indices.
    classes
        Number of classes K.

    Returns
    -------
    macro
        The macro error rate.
    per_class
        (K,) error rate of each class, NaN for classes that do not occur in `y`.

    Examples
    --------
    >>> error_rates([0, 0, 0, 1], [0, 0, 0, 0], classes=2)
    (0.25, array([0.25,  nan]))
    >>> error_rates([0, 0, 0, 0], [0, 0, 0, 1], classes=2)
    (0.5, array([0., 1.]))
    """
    classes = check_integer("classes", classes, 2)
    labels = _check_predicted(labels, classes)
    y = check_class_indices(y, len(labels), classes)
    totals = np.bincount(y, minlength=classes)
    wrong = np.bincount(y[labels != y], minlength=classes)
    per_class = np.full(classes, np.nan)
    np.divide(wrong, totals, out=per_class, where=totals > 0)
    return float(per_class[totals > 0].mean()), per_class


def earliness(decisions: Decisions) -> float:
    """Return the mean fraction of a series that is seen before its decision.

    Values near 0 mean early decisions; 1 means that all decisions are made at the end of the series.

    Parameters
    ----------
    decisions
        The decisions, as returned by `Rule.decide`.

    Examples
    --------
    >>> from stopwise.rules import FixedTime
    >>> earliness(FixedTime(2).decide([[[1.0, 0.0]] * 8]))
    0.25
    """
    _check_decisions(decisions)
    return float((decisions.times / decisions.lengths).mean())


def harmonic_mean(accuracy: float, earliness: float) -> float:
    """Return the harmonic mean of accuracy and 1 - earliness; 0 if both are 0.

    Parameters
    ----------
    accuracy
        Fraction of correct decisions, in [0, 1].
    earliness
        Mean fraction of a series that was seen, in [0, 1].

    Examples
    --------
    >>> harmonic_mean(accuracy=0.9, earliness=0.4)
    0.72
    """
    accuracy = check_real("accuracy", accuracy, 0, 1)
    saved = 1 - check_real("earliness", earliness, 0, 1)
    return 2 * accuracy * saved / (accuracy + saved) if accuracy + saved else 0.0


def average_cost(decisions: Decisions, y: Any, *, cost: float, loss: Any = 1.0) -> float:
    """Return the mean total cost of a decision: its loss plus `cost` per sample used.

    Parameters
    ----------
    decisions
        The decisions, as returned by `Rule.decide`; labels are class indices.
    y
        (n,) true class indices.
    cost
        The cost of one sample.
    loss
        The loss of a wrong decision, or (K, K) with true classes as rows and predicted classes as columns.

    Examples
    --------
    >>> from stopwise.rules import FixedTime
    >>> decisions = FixedTime(2).decide([[[1.0, 0.0]] * 8] * 2)  # class 0 twice, after 2 samples
    >>> average_cost(decisions, [0, 1], cost=0.1)
    0.7
    >>> average_cost(decisions, [0, 1], cost=0.1, loss=[[0, 1], [20, 0]])
    10.2
    """
    _check_decisions(decisions)
    classes = decisions.scores.shape[-1]
    labels = _check_predicted(decisions.labels, classes, name="decisions.labels")
    y = check_class_indices(y, len(labels), classes)
    cost = check_real("cost", cost, 0, open_high=True)
    losses = _check_loss(loss, classes)[y, labels]
    return float((losses + cost * decisions.times).mean())


def summarize(decisions: Decisions, y: Any, classes: int) -> dict[str, Any]:
    """Return common metrics of decisions as a dict of plain numbers.

    Parameters
    ----------
    decisions
        The decisions, as returned by `Rule.decide`; labels are class indices.
    y
        (n,) true class indices.
    classes
        Number of classes K.

    Returns
    -------
    summary
        A dict with the keys `macro_error` (mean error rate of the classes), `class_error` (K numbers, NaN
        for classes that do not occur), `accuracy` (share of all series), `mean_time`, `std_time`, `forced`
        (fraction of forced decisions), `earliness` and `harmonic_mean`.

    Examples
    --------
    >>> from stopwise.rules import FixedTime
    >>> summary = summarize(FixedTime(2).decide([[[1.0, 0.0]] * 8] * 4), [0, 0, 0, 1], classes=2)
    >>> summary["macro_error"], summary["accuracy"], summary["mean_time"], summary["class_error"]
    (0.5, 0.75, 2.0, [0.0, 1.0])
    """
    _check_decisions(decisions)
    macro, per_class = error_rates(decisions.labels, y, classes)
    accuracy = float((decisions.labels == np.asarray(y)).mean())
    early = earliness(decisions)
    return {
        "macro_error": macro,
        "class_error": per_class.tolist(),
        "accuracy": accuracy,
        "mean_time": float(decisions.times.mean()),
        "std_time": float(decisions.times.std()),
        "forced": float(decisions.forced.mean()),
        "earliness": early,
        "harmonic_mean": harmonic_mean(accuracy, early),
    }


def _check_decisions(decisions: Any) -> None:
    if not isinstance(decisions, Decisions):
        raise TypeError(
            "`decisions` must be a Decisions object, as returned by rule.decide(); got "
            f"{type(decisions).__name__}."
        )
    if not len(decisions):
        raise ValueError("`decisions` is empty; pass at least one decision.")


def _check_predicted(labels: Any, classes: int, name: str = "labels") -> np.ndarray:
    array = np.asarray(labels)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"`{name}` must have shape (n,) with n >= 1; got shape {array.shape}.")
    return check_class_indices(array, len(array), classes, name=name)


def _check_loss(loss: Any, classes: int) -> np.ndarray:
    if np.isscalar(loss):
        return check_real("loss", loss, 0, open_high=True) * (1 - np.eye(classes))
    matrix = np.asarray(loss)
    if matrix.shape != (classes, classes):
        raise ValueError(
            f"`loss` must be a number or have shape ({classes}, {classes}), true classes by predicted "
            f"classes; got shape {matrix.shape}."
        )
    if not np.isfinite(matrix).all():
        raise ValueError("`loss` must be finite; it contains NaN or infinity.")
    return matrix
