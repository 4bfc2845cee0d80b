"""Where evidence adds up sample by sample, the default is as precise as the accumulator alone."""

import numpy as np
import pytest

import stopwise as sw

WORLDS = {
    "gaussian": lambda n, seed: sw.datasets.gaussian(n, offset=1.0, channels=8, length=20, seed=seed),
    "autoregressive": lambda n, seed: sw.datasets.autoregressive(n, channels=4, length=20, seed=seed),
    "hidden Markov": lambda n, seed: sw.datasets.hidden_markov(n, seed=seed),
}


def llr_error(clf, X, truth):
    return float(np.abs(clf.llr(X) - (truth[..., :, None] - truth[..., None, :])).mean())


@pytest.mark.slow
@pytest.mark.parametrize("n", [1000, 4000])  # all folds are judged, and one
@pytest.mark.parametrize("name", WORLDS)
def test_the_default_is_as_precise_as_the_accumulator(name, n):
    X, y, _ = WORLDS[name](n, 0)
    X_test, _, truth = WORLDS[name](1000, 1)
    auto, alone = (sw.EarlyClassifier(model, progress=False).fit(X, y) for model in ("auto", "accumulator"))
    errors = [llr_error(clf, X_test, truth) for clf in (auto, alone)]
    assert errors[0] <= 1.05 * errors[1]
