"""Calibration of the scores at one step."""

import numpy as np
import pytest

from stopwise.rules.finite_horizon.backward import Calibration
from stopwise.rules.finite_horizon.posteriors import fit_step


def test_calibration_recovers_the_scale_and_shift_of_the_scores(world):
    scores, y = world(20_000, steps=4)
    at = 3 * scores[:, -1] + [0.0, 1.5]
    bends, slopes, shift = fit_step(at, y, np.ones(len(y)), np.log([0.5, 0.5]))
    assert slopes[1:-1] == pytest.approx(1 / 3, abs=0.06)
    llr = np.linspace(-2, 2, 9)
    distorted = np.stack([0 * llr, 3 * llr + 1.5], -1)
    found = Calibration(bends[None], slopes[None], shift[None])
    assert found.posterior(distorted, 0)[:, 1] == pytest.approx(1 / (1 + np.exp(-llr)), abs=0.03)
