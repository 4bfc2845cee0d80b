"""A trained model and series, for the tests of `stopwise decide`."""

import numpy as np
import pytest

import stopwise as sw
from helpers import early


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("decide")
    X, y, _ = sw.datasets.gaussian(200, offset=1.0, channels=2, length=8, seed=0)
    rule = sw.SPRT(2.5)
    early(order=1, max_epochs=2, rule=rule).fit(X, np.array(["no", "yes"])[y]).save(path / "model")
    return path


@pytest.fixture(scope="session")
def clf(folder):
    return sw.load(folder / "model")


@pytest.fixture(scope="session")
def X():
    return sw.datasets.gaussian(6, offset=1.0, channels=2, length=8, seed=1)[0]
