"""The stopping rule of least expected cost, given a deadline, a cost per sample and a loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.special import softmax

from stopwise.rules.arrays import frozen_floats
from stopwise.rules.base import Rule
from stopwise.rules.finite_horizon import backward
from stopwise.rules.finite_horizon.concave import knots_for, tents
from stopwise.rules.finite_horizon.held_out import check_loss, held_out_scores
from stopwise.rules.finite_horizon.posteriors import apply_curve
from stopwise.validation import check_real

# Rows per chunk: small enough for the regressors to stay in the CPU cache.
CHUNK_ROWS = 4096


class FiniteHorizon(Rule):
    """Stop when waiting is expected to cost more than deciding now, and at a deadline at the latest.

    `FiniteHorizon.fit` learns the rule from scores of held-out series by backward induction: from the
    deadline to the first step, it learns the expected cost of waiting as a concave function of the posterior.
    The rule stops at the first step where the expected loss of deciding now does not exceed the expected cost
    of waiting. It accepts the class of least expected loss.

    The rule has the least average cost of all rules, up to estimation error, if the scores are the true
    log-likelihood ratios and contain all information of the past about future samples (for example, if the
    samples are independent). If labels are given, inaccurate scores do little harm. In this case, `fit` also
    calibrates the posteriors at every step and compares several rules, including a constant limit on the
    expected loss; it prefers a rule that has a clearly lower cost on the held-out series. The rule does not
    guarantee an error rate.

    From the deadline on, every step is decided. A series that ends before the deadline gets a forced
    decision. Both use the prior passed to `fit`; a prior bound by `with_prior` is ignored.

    Use `fit` to create a rule. The constructor takes the learned arrays, so that a rule can be saved and
    loaded.

    Parameters
    ----------
    cost
        The cost of one sample.
    loss
        (K, K) loss, with true classes as rows and decided classes as columns, minus the minimum of each row.
    bends, slopes, shift
        (T, M), (T, M + 1) and (T, K) calibration of the posteriors, where T is the deadline. The posterior at
        step t is `softmax(curve_t(S) + shift_t)` with an increasing, piecewise linear curve.
    knots
        (J,) log-odds of the peaks of the tent functions.
    value
        (T - 1, F) weights >= 0 of the concave functions that give the cost of waiting: K weights of the
        posterior itself, then J weights per class of its tent functions (with two classes, only those of
        class 1).

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
    >>> [rule.step([0.0, 2.1], time) is not None for time in (1, 9)]  # less evidence is needed later
    [False, True]
    """

    def __init__(
        self, cost: float, loss: Any, bends: Any, slopes: Any, shift: Any, knots: Any, value: Any
    ) -> None:
        self.cost = check_real("cost", cost, 0, open_low=True, open_high=True)
        self.loss = check_loss(loss)
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
            # With a deadline of one step, waiting is never possible.
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
        """The deadline T: every series is decided at this step at the latest."""
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
            (n, T, K) scores of every prefix, n >= 10; values past the end of a series are ignored.
        y
            (n,) class indices. If None, the scores are assumed to be exact, and the class proportions of the
            series are assumed to be `prior`.
        lengths
            (n,) lengths of the series. If None, a series ends before its first NaN, as in the scores that
            `EarlyClassifier.scores` returns.
        cost
            The cost of one sample, > 0, in the same units as `loss`.
        loss
            The loss of a wrong decision, or (K, K) with true classes as rows and decided classes as columns.
        prior
            (K,) class probabilities of the data that the rule is applied to; None means equal probabilities.
            The class proportions in `y` do not matter.
        horizon
            The deadline, the last step at which a decision is made. None means the last step that at least
            30 series reach, or 10 if there are fewer than 30 series.

        Returns
        -------
        rule
            The learned rule.

        Examples
        --------
        >>> from stopwise.datasets import gaussian
        >>> X, y, scores = gaussian(n=400, offset=0.5, channels=2, length=20, seed=0)
        >>> rule = FiniteHorizon.fit(scores, y, cost=0.01, loss=[[0, 1], [10, 0]])  # missing class 1 costs 10
        >>> rule.decide(scores[:1, :1]).labels  # little evidence: the decision with the lower loss
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
        """Learn one rule for each of several costs, in little more time than for one cost.

        Parameters
        ----------
        scores, y, lengths, loss, prior, horizon
            As in `fit`.
        costs
            Costs of one sample, one per rule.

        Returns
        -------
        rules
            A list with one rule per cost.

        Examples
        --------
        >>> from stopwise.datasets import gaussian
        >>> X, y, scores = gaussian(n=400, offset=0.5, channels=2, length=20, seed=0)
        >>> rules = FiniteHorizon.path(scores, y, costs=[0.001, 0.01, 0.1])
        >>> [round(float(rule.decide(scores).times.mean())) for rule in rules]
        [14, 9, 1]
        """
        held_out = held_out_scores(scores, y, lengths, loss, prior, horizon)
        checked = np.array([check_real("cost", c, 0, open_low=True, open_high=True) for c in costs])
        knots = knots_for(len(held_out.loss))
        return [
            cls(cost, held_out.loss, found.bends, found.slopes, found.shift, knots, value)
            for cost, (found, value) in zip(checked.tolist(), backward.cheapest(held_out, checked))
        ]

    def margins(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the expected cost of waiting minus the expected loss of each class, (..., K).

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Steps, counted from 1; broadcastable to the leading dimensions of `scores`.
        """
        risks, waiting = self._costs(scores, times)
        # At the deadline waiting is not possible: the class of least expected loss has margin 0.
        least = risks.min(-1)
        return np.where(np.isfinite(waiting), waiting, least)[..., None] - risks

    def best_guess(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the class of least expected loss, (...).

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Steps, counted from 1; broadcastable to the leading dimensions of `scores`.
        """
        scores, times = self._broadcast(scores, times)
        return self._risks(self._posterior(scores, times)).argmin(-1)

    def __repr__(self) -> str:
        # The tables are too large to print.
        return f"FiniteHorizon(cost={self.cost:g}, horizon={self.horizon}, {len(self.loss)} classes)"

    def _costs(self, scores: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the expected loss of each class (..., K) and the expected cost of waiting (...).

        Uses elementwise products and sums instead of matrix products, so that the result of a row does not
        depend on the other rows, not even by rounding.
        """
        scores, times = self._broadcast(scores, times)
        shape, classes = scores.shape[:-1], scores.shape[-1]
        posterior = self._posterior(scores, times).reshape(-1, classes)
        flat = times.reshape(-1)
        waiting = np.full(len(flat), np.inf)
        early = np.flatnonzero(flat < self.horizon)
        for start in range(0, len(early), CHUNK_ROWS):
            rows = early[start : start + CHUNK_ROWS]
            waiting[rows] = (tents(posterior[rows], self.knots) * self.value[flat[rows] - 1]).sum(-1)
        return self._risks(posterior).reshape(*shape, classes), waiting.reshape(shape)

    def _risks(self, posterior: np.ndarray) -> np.ndarray:
        """Return the expected loss of each class, (..., K)."""
        return (posterior[..., None] * self.loss).sum(-2)

    def _posterior(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        at = np.minimum(times, self.horizon) - 1
        return softmax(apply_curve(scores, self.bends[at], self.slopes[at]) + self.shift[at], axis=-1)

    def _broadcast(self, scores: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = np.asarray(scores, dtype=np.float64)
        if scores.shape[-1] != len(self.loss):
            raise ValueError(
                f"this FiniteHorizon was fitted on scores of {len(self.loss)} classes; got scores of "
                f"{scores.shape[-1]} classes. Fit it on scores of the classifier that it is used with."
            )
        return scores, np.broadcast_to(np.asarray(times), scores.shape[:-1])
