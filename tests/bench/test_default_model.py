"""Tests of the figures of the default model, with sizes that take seconds. Their values are not checked."""

import numpy as np
import pytest

from stopwise.bench import default_model


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(default_model, "CLASSES", 3)
    monkeypatch.setattr(default_model, "SHAPES", 30)
    monkeypatch.setattr(default_model, "STEPS", 12)
    monkeypatch.setattr(default_model, "LONG", 30)
    monkeypatch.setattr(default_model, "STREAMS", 2)


@pytest.mark.parametrize("work", default_model.DEFAULT, ids=lambda work: work.__name__)
def test_figure_is_measured(work):
    figure = work()
    assert np.isfinite(figure.value)
    assert figure.better == "lower"
    assert figure.unit == ("ms" if "stream" in figure.name else "s")
    assert figure.aim <= figure.bar
    assert figure.note


def test_outlines_differ_between_classes_and_between_series():
    X, y = default_model.outlines(60)
    assert X.shape == (60, 12)
    assert sorted(set(y)) == [0, 1, 2]
    means = np.array([X[y == k].mean(axis=0) for k in range(3)])
    assert np.abs(means[0] - means[1]).max() > 0.5
    assert X[y == 0].std(axis=0).min() > 0.1
