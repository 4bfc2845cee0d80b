"""How the decision on one series comes about: leads of the classes, what the rule asks for, the decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from stopwise.data.series import SeriesSet
from stopwise.decision import Decision
from stopwise.plots.classes import class_indices, class_names
from stopwise.rules import SPRT, MaxProbability, Rule, SlopedProbability, Tapering


class Classifier(Protocol):
    """What the plots of a decision use of a fitted `EarlyClassifier`."""

    classes_: np.ndarray
    prior_: np.ndarray
    channel_names_: Any

    @property
    def rule_(self) -> Rule:
        """The stopping rule."""

    def scores(self, X: Any) -> np.ndarray:
        """Return the scores (n, T, K)."""


class Story(NamedTuple):
    """The decision on one series.

    Parameters
    ----------
    x
        (T, D) the samples.
    leads
        (T, K) log-likelihood ratio of each class over its best rival.
    leading
        (T,) the class that is closest to being accepted.
    needed
        (T,) the lead that the rule asks of that class; NaN where it asks for none.
    decision
        The decision, with a class index as label.
    names
        Names of the K classes.
    truth
        Index of the true class, or None.
    channels
        Names of the D channels, or None.
    """

    x: np.ndarray
    leads: np.ndarray
    leading: np.ndarray
    needed: np.ndarray
    decision: Decision
    names: Sequence[str]
    truth: int | None
    channels: Sequence[str] | None

    @property
    def correct(self) -> bool | None:
        """Whether the decision is correct, or None if the true class is not known."""
        return None if self.truth is None else self.truth == self.decision.label


def tell(clf: Classifier, x: Any, label: Any) -> Story:
    """Return the story of the series `x`, (T, D) or (T,), whose true label is `label` or None."""
    if not hasattr(clf, "rule_"):
        raise ValueError(
            f"`clf` must be a fitted EarlyClassifier; got {clf!r:.60}. Call clf.fit(X, y) before plotting."
        )
    values = _samples(x, clf.channel_names_)
    if values.ndim not in (1, 2) or not values.size:
        raise ValueError(
            f"`x` must be one series, (T, D) or (T,); got shape {values.shape}. Pass a single "
            "one, as in X[0]."
        )
    series = SeriesSet([values.reshape(len(values), -1)], channel_names=clf.channel_names_)
    scores = np.asarray(clf.scores(series)[0], dtype=np.float64)  # (T, K)
    count, labels = scores.shape[1], clf.classes_.tolist()
    truth = None if label is None else int(class_indices([label], 1, count, labels)[0])
    rule = clf.rule_.with_prior(clf.prior_)
    margins = rule.margins(scores, np.arange(1, len(scores) + 1))  # (T, K)
    leads = np.stack([scores[:, k] - np.delete(scores, k, axis=1).max(1) for k in range(count)], axis=1)
    leading = np.where(np.isfinite(margins).all(1), margins.argmax(1), scores.argmax(1))
    steps = np.arange(len(scores))
    needed = np.full(len(scores), np.nan)
    # The margins of other rules are not differences of log-likelihood ratios.
    if isinstance(rule, SPRT | Tapering | MaxProbability | SlopedProbability):
        needed = leads[steps, leading] - margins[steps, leading]
    needed = np.where(np.isfinite(needed), needed, np.nan)
    names = class_names(labels, count)
    decision = rule.decide(scores[None])[0]
    return Story(
        values.reshape(len(values), -1), leads, leading, needed, decision, names, truth, clf.channel_names_
    )


def _samples(x: Any, channels: Sequence[str] | None) -> np.ndarray:
    """Return the samples of one series, an array or a `SeriesSet`, with channels in the order of training."""
    if not isinstance(x, SeriesSet):
        return np.asarray(x)
    if len(x) != 1:
        raise ValueError(f"`x` must be one series; got a SeriesSet of {len(x)}. Pass one, as in X[0].")
    if channels is not None and x.channel_names is not None:
        x = x.with_channels(channels)
    batch, lengths = x.batch(np.array([0]))
    return np.asarray(batch[0, : lengths[0]])
