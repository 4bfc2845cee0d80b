"""A sequential test with calibrated thresholds and a guarantee."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from stopwise.rules.base import Rule
from stopwise.rules.calibration.guarantee import Guarantee
from stopwise.rules.sprt import SPRT


class Calibrated(SPRT):
    """An `SPRT` with thresholds calibrated on held-out series, and a guarantee.

    Created by `stopwise.rules.calibrate` and `EarlyClassifier.calibrate`. The guarantee is valid only for the
    trained model whose scores were used in the calibration, and for the prior that was used.

    Parameters
    ----------
    threshold
        The thresholds, as in `SPRT`.
    guarantee
        A `Guarantee`, or the dict that `Guarantee.to_dict` returned.
    per_step
        Whether `threshold` has a leading axis of steps. After the last of these steps the rule waits for the
        end of the series, because no calibration series reached the later steps.

    Examples
    --------
    >>> import stopwise as sw
    >>> _, y, scores = sw.datasets.gaussian(1000, offset=1.0, channels=2, seed=1)
    >>> rule = sw.rules.calibrate(scores, y, error_rate=0.05)
    >>> rule.threshold
    2.4
    >>> print(rule.guarantee)
    With confidence 95 %, at most 5 % of new series are decided wrongly (calibrated on 1000 series; mean
    stopping time 3.24 of 50 samples). Holds if new series come from the same source as the calibration
    series.
    """

    guarantee: Guarantee

    def __init__(self, threshold: Any, guarantee: Guarantee, *, per_step: bool = False) -> None:
        super().__init__(threshold, per_step=per_step)
        self.guarantee = Guarantee.of(guarantee)

    def margins(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return `SPRT.margins`, and minus infinity after the last calibrated step, (..., K).

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Steps, counted from 1; broadcastable to the leading dimensions of `scores`.
        """
        if not self.per_step:
            return super().margins(scores, times)
        times, steps = np.asarray(times), len(np.asarray(self.threshold))
        margins = super().margins(scores, np.minimum(times, steps))
        return np.where((times <= steps)[..., None], margins, -np.inf)

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters in place; new thresholds require a new `guarantee`.

        Parameters
        ----------
        **params
            New values by name, validated by the constructor. If a value is invalid, the rule is unchanged.
        """
        if params.keys() & {"threshold", "per_step"} and "guarantee" not in params:
            raise ValueError(
                "the guarantee of a Calibrated rule holds for its own thresholds only. Give the `guarantee` "
                "of the new thresholds too, or change the rule that rule.without_guarantee() returns."
            )
        return Rule.set_params(self, **params)

    def without_guarantee(self) -> SPRT:
        """Return an `SPRT` with the same thresholds, for example to use it with another model."""
        plain = SPRT(self.threshold, per_step=self.per_step)
        return plain if self._bound_prior is None else plain.with_prior(self._bound_prior)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule and its guarantee as a dict of plain JSON values."""
        return super().to_dict() | {"guarantee": self.guarantee.to_dict()}
