"""The methods of `EarlyClassifier` that set its stopping rule: `calibrate` and `fit_rule`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from stopwise import rules
from stopwise.data.fingerprints import Fingerprints
from stopwise.data.fresh import independent
from stopwise.data.held_out import HeldOut
from stopwise.data.labels import by_index, known_indices
from stopwise.data.series import SeriesSet
from stopwise.models import Model
from stopwise.rules import Rule


class RuleFittingMixin:
    """Setting the stopping rule of a fitted classifier, from fresh series or from held-out scores."""

    classes_: np.ndarray
    prior_: np.ndarray
    model_: Model
    rule_: Rule
    random_state: int
    _seen: Fingerprints | None  # None if the classifier was saved without fingerprints
    _held_out: HeldOut | None = None
    _held_out_lost = False  # whether the classifier was saved without the held-out scores that it had

    @abstractmethod
    def scores(self, X: Any) -> np.ndarray:
        """Return the scores (n, T, K) of all classes after every sample."""

    @abstractmethod
    def _checked_series(self, X: Any) -> SeriesSet:
        """Return X as a `SeriesSet`; raise an error if its channels differ from training."""

    def calibrate(
        self,
        X: Any = None,
        y: Any = None,
        *,
        error_rate: float | Mapping[Any, float] | None = None,
        accuracy_gap: float | Mapping[Any, float] | None = None,
        confidence: float = 0.95,
        per_class: bool = False,
        conditional: bool = False,
        copies: str = "once",
    ) -> Self:
        """Set a stopping rule with a guaranteed error rate, calibrated on series unseen in training.

        The rule stops as early as the guarantee allows. The guarantee holds with probability `confidence`
        over draws of the calibration series, even if the scores are wrong, provided that new series come
        from the same source. `print(clf.rule_.guarantee)` shows it. Exactly one of `error_rate` and
        `accuracy_gap` is required.

        Parameters
        ----------
        X
            Calibration series that were not used in `fit`: at least 59 for an error rate of 5 % with the
            default confidence. Series that equal a training series are left out with a warning; if they are
            more than 5 %, an error is raised. Held-out scores of the training series give no guarantee,
            because settings of the model were chosen with them.
        y
            (n,) labels of the calibration series.
        error_rate
            Maximum share of new series that are decided wrongly; or a dict {label: share} with the maximum
            for each of these classes.
        accuracy_gap
            Maximum share of new series that are decided wrongly but would have been decided correctly at
            their end; or a dict {label: share}.
        confidence
            Probability that the guarantee holds.
        per_class
            True: the guarantee holds for each class separately, among the series of that class.
        conditional
            With `accuracy_gap`. True: for every step t, the guarantee holds among the series that are
            decided by step t.
        copies
            "once": series that are copies of each other, up to tiny changes, count as one, with a warning.
            "all": equal series are independent draws, which happens if series are short and have few
            distinct values.

        Returns
        -------
        clf
            The classifier itself, with the calibrated rule as ``rule_``.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=500, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X[:100], y[:100])
        >>> clf.calibrate(X[100:], y[100:], error_rate=0.1).rule_.guarantee.confidence
        0.95
        """
        check_is_fitted(self)
        if X is None or y is None:
            raise ValueError(
                "`X` and `y` are needed: a guarantee requires series that were not used in fit(). Held-out "
                "scores of the training series are not enough, because settings were chosen with them."
            )
        series, indices, counted = self._fresh_series(X, y, copies)
        self.rule_ = rules.calibrate(
            self.scores(series),
            indices,
            series.lengths,
            error_rate=by_index("`error_rate`", error_rate, self.classes_),
            accuracy_gap=by_index("`accuracy_gap`", accuracy_gap, self.classes_),
            confidence=confidence,
            per_class=per_class,
            conditional=conditional,
            counted=counted,
            prior=self.prior_,
            classes=self.classes_.tolist(),
            random_state=self.random_state,
        )
        return self

    def fit_rule(
        self,
        X: Any = None,
        y: Any = None,
        *,
        cost: float | None = None,
        mean_time: float | None = None,
        objective: str | None = None,
        loss: Any = None,
        method: str | None = None,
        copies: str = "once",
    ) -> Self:
        """Set the stopping rule that is best for a goal, without a guaranteed error rate.

        Exactly one of `cost`, `mean_time` and `objective` is the goal.

        Parameters
        ----------
        X
            Series that were not used in `fit`, handled as in `calibrate`. None: use the held-out scores of
            the training series. Models that cross-fit have them, such as `Prefix`; a loaded classifier has
            them if it was saved with ``held_out=True``.
        y
            (n,) labels of these series.
        cost
            Cost of a sample, in the units of `loss`. The rule is the one of least cost, by `method`.
        mean_time
            Maximum mean number of samples before a decision. The rule is an `SPRT`.
        objective
            "harmonic_mean": maximize the harmonic mean of accuracy and 1 − earliness. The rule is an `SPRT`.
        loss
            With `cost`: the loss of a wrong decision. One number (default 1), or a dict
            {(true label, decided label): loss}. If the labels are the integers 0 to K − 1, also a (K, K)
            table by true class (row) and decided class (column).
        method
            With `cost`. "line": the rule is a `SlopedProbability`, which needs few series. "finite_horizon":
            a `FiniteHorizon`, which can weigh the losses of different errors. None: "line" if `loss` is one
            number.
        copies
            As in `calibrate`.

        Returns
        -------
        clf
            The classifier itself, with the fitted rule as ``rule_``.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=300, offset=1.0, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X[:100], y[:100])
        >>> clf = clf.fit_rule(X[100:], y[100:], mean_time=3)
        >>> bool(clf.decide(X[100:]).times.mean() <= 3)
        True
        """
        goal = {"cost": cost, "mean_time": mean_time, "objective": objective, "loss": loss, "method": method}
        self._fit_rule(X, y, copies, goal)
        return self

    def _fit_rule(
        self, X: Any, y: Any, copies: str, goal: dict[str, Any]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Set the rule; return scores, class indices and lengths of the series that it was fitted to."""
        check_is_fitted(self)
        if X is None and y is None and self._held_out is not None:
            scores, indices, lengths = self._held_out
        elif X is None or y is None:
            missing = "`X` and `y` are" if X is None and y is None else f"`{'X' if X is None else 'y'}` is"
            why = f": {self._why_not_held_out()}" if self._held_out is None else "."
            raise ValueError(
                f"{missing} needed{why} Pass series that were not used in fit(), as `X` and `y`."
            )
        else:
            series, indices, counted = self._fresh_series(X, y, copies)
            series, indices, lengths = series[counted], indices[counted], series[counted].lengths
            scores = self.scores(series)
        self.rule_ = rules.fit_rule(
            scores, indices, lengths, prior=self.prior_, classes=self.classes_.tolist(), **goal
        )
        return scores, indices, lengths

    @property
    def has_held_out_scores(self) -> bool:
        """Whether `fit_rule` can use held-out scores of the training series instead of further series."""
        return self._held_out is not None

    def _why_not_held_out(self) -> str:
        """Return a sentence that says why there are no held-out scores of the training series."""
        name = type(self.model_).__name__
        if self._held_out_lost:
            return (
                f"this {name} was saved without the held-out scores of its training series. To keep them, "
                "use clf.save(path, held_out=True) after fit()."
            )
        return (
            f"this {name} has no held-out scores of its training series; only models that cross-fit have "
            "them, such as Prefix with up to 20 000 series."
        )

    def _fresh_series(self, X: Any, y: Any, copies: str) -> tuple[SeriesSet, np.ndarray, np.ndarray]:
        """Return series, class indices and which series count as independent draws."""
        series = self._checked_series(X)
        indices = known_indices("`y`", y, len(series), self.classes_)
        return series, indices, independent(series, self._seen, copies)
