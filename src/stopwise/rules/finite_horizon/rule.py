"""The cheapest rule for a deadline: the cost of a sample weighed against the loss of an error."""

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

# Rows worked on at once: their regressors stay in the processor's cache.
CHUNK_ROWS = 4096


class FiniteHorizon(Rule):
    """Stop when one more sample costs more than it is expected to save, and at the deadline in any case.

    `FiniteHorizon.fit` learns the rule from scores of held-out series. From the deadline back it learns the
    expected cost of waiting as a concave function of the posterior; the rule stops at the first step where
    the expected loss of deciding now is not above that, and takes the class of the least expected loss.

    No rule costs less on average, up to the error of estimating it from finitely many series, if the scores
    are the true log-likelihood ratios and carry all that the past says about the future (independent samples
    are an example). Inaccurate scores do little harm if labels are given: the posteriors are then also
    calibrated at every step, and among several such rules, including a constant limit on the expected loss,
    one that would clearly have cost the held-out series less is preferred. There is no guarantee of an error
    rate.

    From the deadline on every step is decided; a series that ends before gets a forced decision. Both use
    the prior given to `fit`: a prior bound by `with_prior` is ignored.

    The constructor takes what `fit` found, so that a rule can be saved and read.

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
    >>> [rule.step([0.0, 2.1], time) is not None for time in (1, 9)]  # less evidence is needed late
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
            # With a deadline of one step there is never a choice to wait.
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
            (n, T, K) scores of every prefix; values past a series' end are ignored.
        y
            (n,) class indices. None: the scores are taken to be exact, and the classes to occur with the
            shares of `prior`.
        lengths
            (n,) lengths of the series; None: up to the first NaN, as in `EarlyClassifier.scores`.
        cost
            The cost of one sample, > 0, in the units of `loss`.
        loss
            The loss of a wrong decision, or (K, K) with the loss of deciding l for a series of class k in
            row k, column l.
        prior
            (K,) shares of the classes where the rule is used; None: equal shares. The shares in `y` do not
            matter.
        horizon
            The deadline, the last step at which to decide. None: the last one that at least 30 series reach.

        Examples
        --------
        >>> from stopwise.datasets import gaussian
        >>> X, y, scores = gaussian(n=400, offset=0.5, channels=2, length=20, seed=0)
        >>> rule = FiniteHorizon.fit(scores, y, cost=0.01, loss=[[0, 1], [10, 0]])  # missing class 1 costs 10
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
        """Return the expected cost of waiting minus the expected loss of each class, (..., K)."""
        risks, waiting = self._costs(scores, times)
        # At the deadline waiting is not possible: the class of the least loss has margin 0.
        least = risks.min(-1)
        return np.where(np.isfinite(waiting), waiting, least)[..., None] - risks

    def best_guess(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the class of the least expected loss, (...)."""
        scores, times = self._broadcast(scores, times)
        return self._risks(self._posterior(scores, times)).argmin(-1)

    def __repr__(self) -> str:
        # The tables are too large to print.
        return f"FiniteHorizon(cost={self.cost:g}, horizon={self.horizon}, {len(self.loss)} classes)"

    def _costs(self, scores: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the expected loss of each class (..., K) and the expected cost of waiting (...).

        By products and sums, not by matrix products: the bits of a row must not depend on other rows.
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
                f"this FiniteHorizon was fitted on scores of {len(self.loss)} classes; got "
                f"{scores.shape[-1]}. Fit it on scores of the classifier it is used with."
            )
        return scores, np.broadcast_to(np.asarray(times), scores.shape[:-1])
