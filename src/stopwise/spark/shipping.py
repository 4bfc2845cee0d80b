"""How a classifier reaches the workers of Spark, and how decisions come back as rows."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from stopwise.estimator import EarlyClassifier
from stopwise.loading import load

LABEL_TYPES = {"i": "bigint", "u": "bigint", "f": "double", "b": "boolean"}  # others: string


class Shipped:
    """A fitted classifier that is pickled with a query; every worker unpacks it once.

    All workers use the classifier of the moment when the query was made. Reading a model folder on the
    workers would mix two models if the folder were replaced while the query runs.
    """

    def __init__(self, clf: EarlyClassifier) -> None:
        from pyspark import cloudpickle  # also takes models that are defined in a script

        self._data: bytes = cloudpickle.dumps(clf)

    def unpack(self) -> EarlyClassifier:
        """Return the classifier."""
        return _unpacked(self._data)


@lru_cache(maxsize=4)
def _unpacked(data: bytes) -> EarlyClassifier:
    from pyspark import cloudpickle

    return cloudpickle.loads(data)


def as_classifier(model: EarlyClassifier | str | Path) -> EarlyClassifier:
    """Return a fitted classifier; load it if `model` is a folder."""
    if isinstance(model, str | Path):
        return load(model)
    if not isinstance(model, EarlyClassifier):
        raise TypeError(
            "`model` must be a fitted EarlyClassifier or the folder of a saved one; got "
            f"{type(model).__name__}."
        )
    check_is_fitted(model, "inputs_")
    return model


def label_type(classes: np.ndarray) -> str:
    """Return the Spark type of labels.

    Examples
    --------
    >>> label_type(np.array([0, 1])), label_type(np.array(["no", "yes"]))
    ('bigint', 'string')
    """
    return LABEL_TYPES.get(classes.dtype.kind, "string")


def plain_label(label: Any, kind: str) -> Any:
    """Return a label as a value of the Spark type `kind`."""
    if kind == "string":
        return str(label)
    return label.item() if isinstance(label, np.generic) else label
