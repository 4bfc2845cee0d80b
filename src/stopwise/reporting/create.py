"""`report`: a report on a classifier and labeled series."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.atomic import atomic_write
from stopwise.data.labels import known_indices
from stopwise.estimator import EarlyClassifier
from stopwise.reporting.content import numbers
from stopwise.reporting.html import framed, page
from stopwise.reporting.origin import describe_origin, describe_training
from stopwise.reporting.promise import limits
from stopwise.reporting.summary import promise_as_text, rule_as_text, sentences, tiles
from stopwise.rules import Calibrated, FiniteHorizon
from stopwise.rules.finite_horizon.held_out import check_loss
from stopwise.rules.fitting import loss_table
from stopwise.validation import check_real

TITLE = "Early classification report"


class Report:
    """A report as one HTML page; notebooks show it.

    Created by `stopwise.report`. The page is self-contained: it needs no network and no Python.

    Parameters
    ----------
    html
        The page.

    Attributes
    ----------
    html
        The page.

    Examples
    --------
    >>> Report("<!doctype html><title>Empty</title>")
    Report(0.0 MB)
    """

    def __init__(self, html: str) -> None:
        self.html = html

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file.

        Parameters
        ----------
        path
            The file, usually with the suffix .html. Its folder must exist.

        Returns
        -------
        path
            The path of the file.
        """
        with atomic_write(Path(path)) as [temporary]:
            temporary.write_bytes(self._bytes())
        return Path(path)

    def _bytes(self) -> bytes:
        # Names may contain halves of character pairs, which have no UTF-8 form.
        return self.html.encode("utf-8", "xmlcharrefreplace")

    def _repr_html_(self) -> str:
        return framed(self.html)

    def __repr__(self) -> str:
        return f"Report({len(self._bytes()) / 1e6:.1f} MB)"


def report(
    clf: EarlyClassifier, X: Any, y: Any, *, cost: float | None = None, loss: Any = None, title: str = TITLE
) -> Report:
    """Create a report on a fitted classifier, for people who need no Python to read it.

    The page has a summary in plain words, the exact speed-accuracy curve with a slider for the threshold,
    confusions, stopping times and errors by class, example series, the reliability of the probabilities, the
    history of the training, and the digests and versions behind the numbers.

    At every position of the slider, the page shows exactly the decisions of ``SPRT(threshold)`` with the
    classifier's prior.

    Parameters
    ----------
    clf
        A fitted classifier.
    X
        Series that were used neither in `fit` nor to choose the rule, in any form that `fit` accepts.
    y
        (n,) their labels.
    cost
        Cost of a sample, in the units of `loss`; readers can change it on the page. None: that of the rule if
        it has one; otherwise, waiting for the longest series costs 1.
    loss
        The loss of a wrong decision, as in `EarlyClassifier.fit_rule`. None: that of the rule if it has one,
        otherwise 1.
    title
        Title of the page.

    Returns
    -------
    report
        A `Report`. ``report.save("report.html")`` writes it, and a notebook shows it.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=300, offset=1.0, channels=3, length=10, seed=0)
    >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X[:100], y[:100])
    >>> page = sw.report(clf, X[100:], y[100:])
    >>> page.html[:15], len(page.html) < 5_000_000
    ('<!doctype html>', True)
    """
    if not isinstance(clf, EarlyClassifier):
        raise TypeError(f"`clf` must be a fitted EarlyClassifier; got {type(clf).__name__}.")
    if not isinstance(title, str):
        raise TypeError(f"`title` must be a text; got {title!r}.")
    series = clf._checked_series(X)
    indices = known_indices("`y`", y, len(series), clf.classes_)
    names = [str(name) for name in clf.classes_.tolist()]
    price, losses = _prices(clf, cost, loss, series.steps)
    rule, lengths = clf.rule_.with_prior(clf.prior_), series.lengths
    scores = clf.scores(series)
    decisions = rule.decide(scores, lengths)
    promised = limits(rule, scores, indices, lengths) if isinstance(rule, Calibrated) else None
    at_end = rule.best_guess(scores[np.arange(len(series)), lengths - 1], lengths)
    seen = 0 if clf._seen is None else int(clf._seen.matches(series).sum())
    model = clf.model_.name or type(clf.model_).__name__
    made = {
        "classes": names,
        "cost": price,
        "loss": losses,
        "training": describe_training(clf),
        "origin": describe_origin(clf, series, indices),
    }
    return Report(
        page(
            title,
            f"{model} model, {len(series)} series, {len(names)} classes, {datetime.now(UTC):%Y-%m-%d}",
            tiles(decisions, indices, len(names), promised),
            [
                *sentences(decisions, at_end, indices, names, seen),
                rule_as_text(rule, len(names)),
                *promise_as_text(rule, promised),
            ],
            made | numbers(rule, decisions, scores, indices, lengths, clf.prior_),
        )
    )


def _prices(clf: EarlyClassifier, cost: float | None, loss: Any, steps: int) -> tuple[float, Any]:
    """Return the cost of a sample and the losses (K, K) by true and decided class, as lists."""
    rule, classes = clf.rule_, len(clf.classes_)
    own = rule if isinstance(rule, FiniteHorizon) else None
    if loss is None:
        table: Any = 1.0 if own is None else own.loss
    else:
        table = loss_table(loss, clf.classes_.tolist(), classes)
    if np.ndim(table) == 0:
        table = check_real("loss", table, 0, open_low=True, open_high=True) * (1 - np.eye(classes))
    if cost is None:
        cost = 1 / steps if own is None else own.cost
    return check_real("cost", cost, 0, open_high=True), check_loss(table, classes).tolist()
