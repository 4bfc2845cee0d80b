import numpy as np
import pytest
import sklearn

import stopwise as sw
from notebook_html import HOSTILE, read


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = sw.datasets.gaussian(n=400, offset=1.0, channels=2, length=6, seed=0)
    names = np.array([HOSTILE, "walk"])[y]
    clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X[:100], names[:100])
    return clf, X[100:], names[100:]


def test_a_classifier_shows_what_was_learned(fitted):
    clf, X, y = fitted
    text = read(clf)
    for expected in ("fitted", HOSTILE, "walk (", "up to 6 steps, 2 channels", "SPRT(error_rate=0.05)"):
        assert expected in text
    assert "Guarantee none" in text
    clf.calibrate(X, y, error_rate=0.2)
    assert str(clf.rule_.guarantee) in read(clf)
    bundle = clf._repr_mimebundle_()
    assert bundle == {"text/plain": repr(clf), "text/html": clf._repr_html_()}
    assert "not fitted" in read(sw.EarlyClassifier("prefix", prior={HOSTILE: 0.5, "walk": 0.5}))


def test_the_models_that_were_tried_are_shown(fitted):
    clf = fitted[0]
    report = clf.model_.report_
    try:
        clf.model_.report_ = {"tried": [{"model": HOSTILE, "loss": 0.12345, "weight": 1.0}]}
        assert f"{HOSTILE} 0.1235 1" in read(clf)
    finally:
        clf.model_.report_ = report


def test_the_setting_of_scikit_learn_turns_html_off(fitted):
    with sklearn.config_context(display="text"):
        assert "text/html" not in fitted[0]._repr_mimebundle_()
        assert not hasattr(fitted[0], "_repr_html_")
