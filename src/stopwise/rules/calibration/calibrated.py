"""A sequential test whose thresholds were calibrated, and what that promises."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.rules.calibration.guarantee import Guarantee
from stopwise.rules.sprt import SPRT


class Calibrated(SPRT):
    """`SPRT` with thresholds that held-out series were asked for: it carries its guarantee.

    Made by `stopwise.rules.calibrate` and `EarlyClassifier.calibrate`. The guarantee speaks of the scores
    it was calibrated on, that is of one trained model.

    Parameters
    ----------
    threshold
        As in `SPRT`.
    guarantee
        What is promised: a `Guarantee`.
    per_step
        True if `threshold` has a leading axis of steps. Past the last of them the rule waits for the end of
        the series: no calibration series told anything about those steps.

    Examples
    --------
    >>> import stopwise as sw
    >>> _, y, scores = sw.datasets.gaussian(1000, offset=1.0, dim=2, seed=1)
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
        """Return `SPRT.margins`, and minus infinity past the steps that were calibrated, (..., K)."""
        if not self.per_step:
            return super().margins(scores, times)
        times, steps = np.asarray(times), len(np.asarray(self.threshold))
        margins = super().margins(scores, np.minimum(times, steps))
        return np.where((times <= steps)[..., None], margins, -np.inf)

    def without_guarantee(self) -> SPRT:
        """Return the bare test, for another model: there the guarantee means nothing."""
        return SPRT(self.threshold, per_step=self.per_step)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule and its guarantee as plain JSON values."""
        return super().to_dict() | {"guarantee": self.guarantee.to_dict()}
