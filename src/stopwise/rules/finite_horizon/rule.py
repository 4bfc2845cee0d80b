"""The cheapest rule for a deadline: what a sample costs weighed against what a mistake costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from stopwise.rules.arrays import check_prior, frozen_floats
from stopwise.rules.base import Rule
from stopwise.rules.finite_horizon import backward
from stopwise.rules.finite_horizon.concave import knots_for, tents
from stopwise.rules.finite_horizon.posteriors import softmax, stretch
from stopwise.validation import check_class_indices, check_integer, check_real, check_scores

# Fewer series than this tell nothing about what waiting costs.
MIN_SERIES = 30
# Rows worked on at once: their regressors stay in the processor's cache.
CHUNK_ROWS = 4096


class FiniteHorizon(Rule):
    """Stop when one more sample costs more than it is expected to save, and at the deadline in any case.

    `FiniteHorizon.fit` learns it from scores of held-out series. From the deadline back it learns, as a
    concave function of the posterior, what waiting is expected to cost; the rule stops at the first step
    where the expected loss of deciding now is no more than that, and takes the class of the least
    expected loss. If the scores are the true log-likelihood ratios of a world in which they tell all that
    the past tells of the future (independent samples, for one), no rule costs less on average, but for what
    finitely many series leave open. Scores that are off do little harm if labels are given: the posteriors
    are then also calibrated step by step, and of several such rules, a constant bar among them, one that
    would clearly have cost the held-out series less is preferred. It promises no error rate.

    From the deadline on every step is decided; a series that ends before is decided by force.

    The constructor takes what `fit` found; it is there so that a rule can be saved and read.

    Parameters
    ----------
    cost
        The cost of one sample.
    loss
        (K, K) loss of deciding the class of the column for a series of the row's class, in excess of the
        least loss of its row.
    bends, slopes, shift
        (T, M), (T, M + 1) and (T, K): the posterior at step t is `softmax(curve_t(S) + shift_t)`, the curve
        piecewise linear and rising; T is the deadline.
    knots
        (J,) log-odds at which the tents peak.
    value
        (T - 1, F) weights >= 0 of the concave functions: K of p itself, then J of each class's tents (of
        class 1 only if there are two).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(2000) % 2
    >>> llr = (0.5 * (2 * y[:, None] - 1) + rng.normal(size=(2000, 10))).cumsum(1)  # mean ±0.5, variance 1
    >>> scores = np.stack([0 * llr, llr], -1)
    >>> rule = FiniteHorizon.fit(scores, y, cost=0.02)
    >>> rule
    FiniteHorizon(cost=0.02, horizon=10, 2 classes)
    >>> [rule.step([0.0, 2.1], time) is not None for time in (1, 9)]  # content with less late
    [False, True]
    """

    def __init__(
        self, cost: float, loss: Any, bends: Any, slopes: Any, shift: Any, knots: Any, value: Any
    ) -> None:
        self.cost = check_real("cost", cost, 0, open_low=True, open_high=True)
        self.loss = _check_loss(loss)
        self.bends, self.slopes = frozen_floats("bends", bends), frozen_floats("slopes", slopes)
        self.shift, self.knots = frozen_floats("shift", shift), frozen_floats("knots", knots)
        self.value = frozen_floats("value", value)
        classes, steps = len(self.loss), len(np.atleast_1d(self.shift))
        pieces = np.atleast_1d(self.bends).shape[-1] + 1
        features = classes + self.knots.size * (1 if classes == 2 else classes)
        expected = {
            "bends": (steps, pieces - 1),
            "slopes": (steps, pieces),
            "shift": (max(steps, 1), classes),
            "knots": (self.knots.size,),
            # With a deadline of one step nothing is ever weighed.
            "value": (steps - 1, features) if steps > 1 else self.value.shape,
        }
        for name, shape in expected.items():
            array = getattr(self, name)
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError(
                    f"`{name}` must be finite and have shape {shape}; got shape {array.shape}. "
                    "Use FiniteHorizon.fit to learn a rule from scores."
                )

    @property
    def horizon(self) -> int:
        """The deadline T: at this step every series is decided."""
        return len(self.shift)

    @classmethod
    def fit(
        cls,
        scores: Any,
        y: Any = None,
        lengths: Any = None,
        *,
        cost: float,
        loss: Any = 1.0,
        prior: Any = None,
        horizon: int | None = None,
    ) -> Self:
        """Learn the rule from scores of series that the classifier was not trained on.

        Parameters
        ----------
        scores
            (n, T, K) scores of every prefix; what lies past a series' end is ignored.
        y
            (n,) class indices. None: the scores are believed to be exact, and the classes to come in the
            shares of `prior`.
        lengths
            (n,) lengths of the series; None: up to the first NaN, as `EarlyClassifier.scores` marks it.
        cost
            The cost of one sample, > 0, in the units of `loss`.
        loss
            The loss of a wrong decision, or (K, K) with the loss of deciding l for a series of class k in
            row k, column l.
        prior
            (K,) how often each class occurs where the rule will be used; None: equally often. How often it
            occurs in `y` does not matter.
        horizon
            The deadline: the last step at which to decide. None: the last that at least 30 series reach.

        Examples
        --------
        >>> from stopwise.datasets import gaussian
        >>> X, y, scores = gaussian(n=400, offset=0.5, dim=2, length=20, seed=0)
        >>> rule = FiniteHorizon.fit(scores, y, cost=0.01, loss=[[0, 1], [10, 0]])  # missing class 1 is dear
        >>> rule.decide(scores[:1, :1]).labels  # hardly any evidence: the safe answer
        array([1])
        """
        return cls.path(scores, y, lengths, costs=[cost], loss=loss, prior=prior, horizon=horizon)[0]

    @classmethod
    def path(
        cls,
        scores: Any,
        y: Any = None,
        lengths: Any = None,
        *,
        costs: Sequence[float],
        loss: Any = 1.0,
        prior: Any = None,
        horizon: int | None = None,
    ) -> list[Self]:
        """Learn one rule for each of `costs`, in little more time than one rule takes.

        Parameters
        ----------
        scores, y, lengths, loss, prior, horizon
            As in `fit`.
        costs
            The costs of one sample.

        Examples
        --------
        >>> from stopwise.datasets import gaussian
        >>> X, y, scores = gaussian(n=400, offset=0.5, dim=2, length=20, seed=0)
        >>> rules = FiniteHorizon.path(scores, y, costs=[0.001, 0.01, 0.1])
        >>> [round(float(rule.decide(scores).times.mean())) for rule in rules]
        [14, 9, 1]
        """
        evidence = _evidence(scores, y, lengths, loss, prior, horizon)
        checked = np.array([check_real("cost", c, 0, open_low=True, open_high=True) for c in costs])
        knots = knots_for(len(evidence.loss))
        return [
            cls(cost, evidence.loss, how.bends, how.slopes, how.shift, knots, value)
            for cost, (how, value) in zip(checked.tolist(), backward.cheapest(evidence, checked))
        ]

    def margins(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the expected cost of waiting minus the expected loss of each class, (..., K)."""
        risks, waiting = self._costs(scores, times)
        # At the deadline waiting is out of the question: the least loss has margin 0.
        least = risks.min(-1)
        return np.where(np.isfinite(waiting), waiting, least)[..., None] - risks

    def best_guess(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the class of the least expected loss, (...)."""
        scores, times = self._broadcast(scores, times)
        return (self._posterior(scores, times) @ self.loss).argmin(-1)

    def __repr__(self) -> str:
        # The tables help nobody on a screen.
        return f"FiniteHorizon(cost={self.cost:g}, horizon={self.horizon}, {len(self.loss)} classes)"

    def _costs(self, scores: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the expected loss of each class (..., K) and the expected cost of waiting (...)."""
        scores, times = self._broadcast(scores, times)
        shape, classes = scores.shape[:-1], scores.shape[-1]
        posterior = self._posterior(scores, times).reshape(-1, classes)
        flat = times.reshape(-1)
        waiting = np.full(len(flat), np.inf)
        early = np.flatnonzero(flat < self.horizon)
        for start in range(0, len(early), CHUNK_ROWS):
            rows = early[start : start + CHUNK_ROWS]
            # A product and a sum, not a matrix product: a row's bits must not depend on its company.
            waiting[rows] = (tents(posterior[rows], self.knots) * self.value[flat[rows] - 1]).sum(-1)
        risks = (posterior[:, :, None] * self.loss).sum(1)
        return risks.reshape(*shape, classes), waiting.reshape(shape)

    def _posterior(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        at = np.minimum(times, self.horizon) - 1
        return softmax(stretch(scores, self.bends[at], self.slopes[at]) + self.shift[at])

    def _broadcast(self, scores: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = np.asarray(scores, dtype=np.float64)
        if scores.shape[-1] != len(self.loss):
            raise ValueError(
                f"this FiniteHorizon was fitted on scores of {len(self.loss)} classes; got "
                f"{scores.shape[-1]}. Fit it on scores of the classifier it is used with."
            )
        return scores, np.broadcast_to(np.asarray(times), scores.shape[:-1])


def _evidence(scores: Any, y: Any, lengths: Any, loss: Any, prior: Any, horizon: Any) -> backward.Evidence:
    array = np.asarray(scores)
    if lengths is None and array.ndim == 3 and array.dtype.kind == "f":
        lengths = np.maximum(np.isfinite(array).all(-1).cumprod(1).sum(1), 1)
    array, lengths = check_scores(array, lengths)
    n, _, classes = array.shape
    if np.isscalar(loss):
        loss = check_real("loss", loss, 0, open_low=True, open_high=True) * (1 - np.eye(classes))
    matrix = _check_loss(loss, classes)
    # What a series costs whatever is decided changes no decision.
    matrix = _check_loss(matrix - matrix.min(1, keepdims=True), classes)
    steps = _check_horizon(horizon, lengths)
    shares = np.full(classes, 1 / classes) if prior is None else check_prior(prior, classes)
    labels, weights = None, np.ones(n)
    if y is not None:
        labels = check_class_indices(y, n, classes)
        counts = np.bincount(labels, minlength=classes)
        if not counts.all():
            raise ValueError(
                f"`y` must hold series of every class; classes {np.flatnonzero(counts == 0).tolist()} have "
                "none. Hold out more series, the same share of each class."
            )
        weights = (shares * n / counts)[labels]
    return backward.Evidence(
        array[:, :steps], np.minimum(lengths, steps), labels, weights, np.log(shares), matrix
    )


def _check_horizon(horizon: Any, lengths: np.ndarray) -> int:
    if len(lengths) < MIN_SERIES:
        raise ValueError(
            f"`scores` must hold at least {MIN_SERIES} series to learn from; got {len(lengths)}. "
            "Hold out more, or use SPRT or Tapering, which learn nothing."
        )
    enough = int(np.sort(lengths)[-MIN_SERIES])
    if horizon is None:
        return enough
    steps = check_integer("horizon", horizon, 1)
    if steps > enough:
        raise ValueError(
            f"`horizon` must be a step that at least {MIN_SERIES} series reach, here {enough} at most; got "
            f"{steps}. Hold out more series or longer ones, or lower `horizon`."
        )
    return steps


def _check_loss(loss: Any, classes: int | None = None) -> np.ndarray:
    matrix = frozen_floats("loss", loss)
    square = matrix.ndim == 2 and len(matrix) == matrix.shape[1] >= 2
    if not square or (classes is not None and len(matrix) != classes):
        wanted = "(K, K)" if classes is None else f"({classes}, {classes})"
        raise ValueError(
            f"`loss` must be one number or have shape {wanted}, true by decided class; "
            f"got shape {matrix.shape}."
        )
    if not (np.isfinite(matrix).all() and (matrix >= 0).all() and matrix.any()):
        raise ValueError(
            "`loss` must be finite, >= 0 and differ between decisions; a gain is written as the loss of not "
            "having it."
        )
    return matrix
