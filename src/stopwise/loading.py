"""Loading a classifier from a model folder."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten

import numpy as np

from stopwise import models
from stopwise.estimator import EarlyClassifier
from stopwise.models import Model
from stopwise.models.registry import rebuild
from stopwise.persistence.description import check_custom_rule, check_scoring, parameters, restore
from stopwise.persistence.folder import ModelFolderError, load_model
from stopwise.rules import Rule


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
        The class of the stopping rule, if the rule is not part of stopwise. To use another rule than the
        saved one, assign to ``clf.rule_``.

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
    if rule is not None and not (isinstance(rule, type) and issubclass(rule, Rule)):
        raise TypeError(
            f"`rule` must be a class of stopping rules; got {rule!r}. To change the rule of a loaded "
            "classifier, assign to `clf.rule_`."
        )
    stored = load_model(path)
    about = stored.about
    try:
        with np.errstate(all="ignore"):  # numbers that are too large are reported by the checks
            scoring = check_scoring(about, stored.tensors)
            fitted = rebuild(about["model"], stored.tensors, model)
            check_custom_rule(about, rule)
            clf = EarlyClassifier(models.make(fitted), **parameters(about, rule))
            clf.model_, clf._scoring = fitted, scoring
            restore(clf, stored, rule)
    except ModelFolderError as error:
        raise ModelFolderError(f"{path}: {shorten(str(error), 500, placeholder=' …')}") from None
    except Exception as error:  # a wrong value makes the constructors fail in many ways
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise ModelFolderError(
            f"{path} does not describe a stopwise model: {shorten(reason, 500, placeholder=' …')}"
        ) from error
    return clf
