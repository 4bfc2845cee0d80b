"""Small classifiers of every model for the campaigns of attacks on model folders.

The small campaigns run with the quick tests. The large ones are marked slow; `pytest -m slow -s` prints their
counts.
"""

import numpy as np
import pytest

import stopwise as sw
from helpers import early

X, Y, _ = sw.datasets.gaussian(300, offset=2.0, channels=2, length=6, seed=0)
NAMES = np.array(["no", "yes"])[Y]
SMALL = {"tandemformer": {"heads": 1, "head_size": 4, "feed_forward": 4, "mlp": 4}}
MODELS = sorted(sw.models.MODELS)
QUICK, SLOW = [("accumulator", False)], [pytest.param(name, True, marks=pytest.mark.slow) for name in MODELS]
each_model = pytest.mark.parametrize(("name", "full"), QUICK + SLOW)


def fit(name):
    own = SMALL.get(name, {"hidden": 4}) | {"order": 1, "max_epochs": 6, "polish": False}
    clf = early(name, learning_rate=0.1, **own).fit(X[:100], NAMES[:100])
    return clf.calibrate(X[100:], NAMES[100:], error_rate=0.5)
