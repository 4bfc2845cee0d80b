"""Conformance checks for early classifiers and stopping rules.

`yield_checks(thing)` yields named functions. Each raises an AssertionError if a requirement is not met. Use
them to test a custom rule or network. The checks of rules are in `stopwise.rules.checks`.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import torch
from sklearn.base import clone

from stopwise.datasets import gaussian
from stopwise.estimator import EarlyClassifier
from stopwise.loading import load
from stopwise.rules import Rule
from stopwise.rules.checks import applicable_checks, check_same_decisions

__all__ = ["yield_checks"]

# The fitted clone of each estimator that is being checked.
_CLONES: WeakKeyDictionary[EarlyClassifier, EarlyClassifier] = WeakKeyDictionary()

Check = tuple[str, Callable[[], None]]


def yield_checks(thing: EarlyClassifier | Rule) -> Iterator[Check]:
    """Yield (name, function) pairs; a function raises an AssertionError if `thing` fails the check.

    Checks that do not apply to `thing` are not yielded.

    Parameters
    ----------
    thing
        A stopping rule or an `EarlyClassifier`. A classifier need not be fitted: a clone of it is fitted to
        a small data set.

    Yields
    ------
    name, check
        The name of the check and the function, which takes no arguments.

    Examples
    --------
    >>> import stopwise as sw
    >>> for name, check in yield_checks(sw.SPRT(3.0)):
    ...     check()
    """
    if isinstance(thing, Rule):
        checks: list[Callable[..., None]] = applicable_checks(thing)
    elif isinstance(thing, EarlyClassifier):
        checks, thing = ESTIMATOR_CHECKS, clone(thing)  # one clone for all checks, fitted once
    else:
        raise TypeError(f"`thing` must be a stopping rule or an EarlyClassifier; got {type(thing).__name__}.")
    for check in checks:
        yield check.__name__.removeprefix("check_"), partial(check, thing)


def check_prefix_causality(estimator: EarlyClassifier) -> None:
    """Check that later samples never change earlier scores."""
    clf, X, _ = _fitted(estimator)
    whole = clf.scores(X)
    for t in (1, 2, X.shape[1] // 2):
        changed = X.copy()
        changed[:, t:] = 100 - changed[:, t:]
        _close(clf.scores(changed)[:, :t], whole[:, :t], "changed future")
        _close(clf.scores(X[:, :t]), whole[:, :t], "no future")


def check_rows_are_independent(estimator: EarlyClassifier) -> None:
    """Check that the scores of a series do not depend on the other series in the batch or their lengths."""
    clf, X, _ = _fitted(estimator)
    whole = clf.scores(X)
    order = np.random.default_rng(0).permutation(len(X))[:11]
    _close(clf.scores(X[order]), whole[order], "subset")
    _close(clf.scores(X[3:4]), whole[3:4], "alone")
    unequal = clf.scores([X[0], X[1, :3], X[2, :5]])
    _close(unequal[1, :3], whole[1, :3], "among longer ones")
    assert np.isnan(unequal[1, 3:]).all(), "scores after the end of a series must be NaN"


def check_inputs_are_left_alone(estimator: EarlyClassifier) -> None:
    """Check that fitting and scoring change neither X, y nor the global random state of torch."""
    X, y = _data(estimator)
    kept, state = (X.copy(), y.copy()), torch.random.get_rng_state()
    clf = clone(estimator).fit(X, y)
    clf.decide(X)
    assert np.array_equal(X, kept[0], equal_nan=True)
    assert np.array_equal(y, kept[1])
    assert torch.equal(torch.random.get_rng_state(), state), "torch's random state was changed"


def check_the_same_seed_gives_the_same_result(estimator: EarlyClassifier) -> None:
    """Check that fitting a clone, or fitting again, gives identical scores."""
    clf, X, y = _fitted(estimator)
    first = clf.scores(X)
    assert np.array_equal(clone(clf).fit(X, y).scores(X), first), "clone"
    assert np.array_equal(clf.fit(X, y).scores(X), first), "second fit"


def check_labels_of_any_type(estimator: EarlyClassifier) -> None:
    """Check that labels can have any type: renaming them in the same order does not change the scores."""
    clf, X, y = _fitted(estimator)
    names = np.array(["ash", "birch", "cedar"])
    named = clone(clf).fit(X, names[y])
    assert np.array_equal(named.scores(X), clf.scores(X))
    assert (named.predict(X) == names[clf.predict(X)]).all()


def check_decisions_follow_the_rule(estimator: EarlyClassifier) -> None:
    """Check that `decide` applies the rule to the scores, and that `predict` agrees with it."""
    clf, X, _ = _fitted(estimator)
    d, expected = clf.decide(X), clf.rule_.with_prior(clf.prior_).decide(clf.scores(X))
    assert (d.times == expected.times).all()
    assert (d.labels == clf.classes_[expected.labels]).all()
    assert (clf.predict(X) == d.labels).all()
    probability = clf.predict_proba(X)
    assert np.allclose(probability.sum(1), 1)


def check_streams_equal_whole_series(estimator: EarlyClassifier) -> None:
    """Check that a stream gives the same scores and the same decision as the complete series."""
    clf, X, _ = _fitted(estimator)
    whole, decisions = clf.scores(X), clf.decide(X)
    for row in range(5):
        stream = clf.stream()
        for t, x in enumerate(X[row]):
            decision = stream.update(x)
            _close(stream.scores, whole[row, t], f"stream, step {t + 1}")
            if decision is not None:
                break
        decision = stream.finish()
        assert decision.time == decisions[row].time
        assert decision.label == decisions[row].label


def check_save_and_pickle_round_trip(estimator: EarlyClassifier) -> None:
    """Check that a saved or pickled classifier gives identical scores and decisions.

    A model that cannot be saved must say so and leave nothing behind.
    """
    clf, X, _ = _fitted(estimator)
    copies = [pickle.loads(pickle.dumps(clf))]
    with tempfile.TemporaryDirectory() as folder:
        if clf.model_.can_be_saved:
            clf.save(folder)
            # Not `model_.name`, which a subclass of a built-in model inherits.
            built_in = clf.model_.describe()["name"] is not None
            copies.append(load(folder, model=None if built_in else clone(clf.model_)))
        else:
            _check_saving_is_refused(clf, Path(folder))
    for other in copies:
        assert np.array_equal(other.scores(X), clf.scores(X))
        check_same_decisions(other.decide(X), clf.decide(X))


def _check_saving_is_refused(clf: EarlyClassifier, folder: Path) -> None:
    message = None
    try:
        clf.save(folder)
    except TypeError as error:
        message = str(error)
    assert message is not None, "the model was saved although it says that it cannot be"
    assert "cannot be saved" in message, "the error must say that the model cannot be saved"
    assert not any(folder.iterdir()), "a refused save must leave no files"


ESTIMATOR_CHECKS = [
    check_prefix_causality,
    check_rows_are_independent,
    check_inputs_are_left_alone,
    check_the_same_seed_gives_the_same_result,
    check_labels_of_any_type,
    check_decisions_follow_the_rule,
    check_streams_equal_whole_series,
    check_save_and_pickle_round_trip,
]


def _data(estimator: EarlyClassifier) -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = gaussian(n=45, classes=3, offset=1.5, channels=3, length=7, seed=0)
    if estimator.missing == "mask":
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    return X, y


def _fitted(estimator: EarlyClassifier) -> tuple[EarlyClassifier, np.ndarray, np.ndarray]:
    """Return a fitted clone and its data; the clone is fitted once for all checks of an estimator."""
    X, y = _data(estimator)
    if estimator not in _CLONES:
        _CLONES[estimator] = clone(estimator).fit(X, y)
    return _CLONES[estimator], X, y


def _close(actual: np.ndarray, expected: np.ndarray, what: str) -> None:
    size = np.abs(expected).max() + 1e-3
    gap = np.abs(actual - expected).max()
    assert gap <= 1e-5 * size, f"{what}: scores differ by {gap:.3g}; the largest score is {size:.3g}"
