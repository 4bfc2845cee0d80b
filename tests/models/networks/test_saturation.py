"""Saturation: the log-likelihood ratios of the tanh LSTM stop growing; those of the other models do not.

In Gaussian data with offset 2, the true log-likelihood ratio grows to about 200 over 50 samples.
"""

import numpy as np
import pytest

from helpers import NETWORKS
from stopwise.data.examples import Examples
from stopwise.data.inputs import InputReader, Inputs
from stopwise.data.series import SeriesSet
from stopwise.datasets import gaussian
from stopwise.metrics import llr_error
from stopwise.models import MODELS, PAPER_GAUSSIAN, Training

WORLD = 2, 2.0, 32, 50  # classes, offset, channels, steps
TRAINING = {"max_epochs": 15, "patience": None}
SLOW = {"learning_rate": 3e-3, "schedule": "constant"}


def never_beyond(scores, threshold):
    """Return the fraction of two-class series whose log-likelihood ratio stays below a threshold."""
    ratio = np.abs(scores[..., 1] - scores[..., 0])  # (n, T)
    return (ratio.max(axis=1) < threshold).mean()


@pytest.mark.slow
def test_only_tanh_model_saturates():
    X, y, _ = gaussian(4000, *WORLD, 0)
    new, _, truth = gaussian(2000, *WORLD, 1)
    series, fresh = SeriesSet(X), SeriesSet(new)
    inputs = Inputs.learn(series)
    data = Examples(InputReader(series, inputs), y, 2, series.channels, series.lengths)
    parts = [inputs.read(fresh, rows)[0] for rows in np.array_split(np.arange(2000), 20)]
    scores = {}
    for name in NETWORKS:
        # The models of the paper use its settings; the accumulator uses its defaults.
        settings, training = ({}, TRAINING) if name == "accumulator" else (PAPER_GAUSSIAN, TRAINING | SLOW)
        model = MODELS[name](**settings, training=Training(**training)).fit(data)
        scores[name] = np.concatenate([model.scores(part) for part in parts])
    errors = {name: llr_error(own, truth) for name, own in scores.items()}
    assert errors["tanh"].slope < 0.3
    for name in ("b2bsqrt", "tandemformer", "accumulator"):
        assert errors[name].slope > 0.6, name
        assert errors[name].mean_abs < errors["tanh"].mean_abs / 2, name
    # The bounded logits of the tanh model never reach a large threshold.
    assert never_beyond(scores["tanh"], 30.0) > 0.95
    assert never_beyond(truth, 30.0) < 0.05
