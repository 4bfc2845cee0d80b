"""Shifting and scaling of the channels."""

import numpy as np
import pytest

import stopwise as sw
from stopwise.data.inputs import check_standardize, moments
from stopwise.data.series import Series

X = np.random.default_rng(0).normal([5.0, -1.0, 0.0], [3.0, 0.1, 1.0], size=(50, 8, 3)).astype(np.float32)
Y = np.arange(50) % 2


def test_each_channel_has_its_own_deviation():
    mean, deviation = moments(Series(X), True, "error", 0)
    np.testing.assert_allclose(mean, X.mean((0, 1)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(deviation, X.std((0, 1)), rtol=1e-5)


def test_together_means_one_deviation_of_all():
    mean, deviation = moments(Series(X), "together", "error", 0)
    np.testing.assert_allclose(mean, X.mean((0, 1)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(deviation, (X - X.mean((0, 1))).std(), rtol=1e-5)


@pytest.mark.parametrize("how", [True, "together"])
def test_what_never_varies_is_not_blown_up(how):
    constant = np.full((4, 5, 2), 7.0)
    constant[..., 1] = np.nan  # never observed
    mean, deviation = moments(Series(constant), how, "mask", 0)
    np.testing.assert_array_equal(mean, [7, 0])
    np.testing.assert_array_equal(deviation, 1)


def test_a_constant_channel_beside_others_has_deviation_1():
    part = X.copy()
    part[..., 1] = -2.5
    assert moments(Series(part), True, "error", 0)[1][1] == 1
    assert moments(Series(part), "together", "error", 0)[1][1] == pytest.approx(
        np.sqrt((part.std((0, 1)) ** 2).mean()), rel=1e-5
    )


def test_without_standardising_nothing_is_read():
    class Unread(Series):
        def batch(self, rows, missing="error"):
            raise AssertionError

    mean, deviation = moments(Unread(X), False, "error", 0)
    np.testing.assert_array_equal(mean, 0)
    np.testing.assert_array_equal(deviation, 1)


@pytest.mark.parametrize("missing", ["error", "mask"])
def test_the_network_scales_by_what_was_asked_for_and_keeps_it(missing, tmp_path):
    clf = sw.EarlyClassifier(order=0, max_epochs=1, standardize="together", missing=missing)
    clf.fit(X, Y, validation_data=(X, Y)).save(tmp_path / "model")
    scale = clf.net_.scale.numpy()
    np.testing.assert_allclose(scale[:3], 1 / (X - X.mean((0, 1))).std(), rtol=1e-5)
    np.testing.assert_array_equal(scale[3:], 1)  # the channels that tell what was observed
    again = sw.load(tmp_path / "model")
    assert again.standardize == "together"
    np.testing.assert_array_equal(again.scores(X), clf.scores(X))


@pytest.mark.parametrize("wrong", ["channel", None, 2])
def test_another_word_is_told(wrong):
    with pytest.raises(ValueError, match=r"`standardize` must be True .*'together'.* or False; got"):
        check_standardize(wrong)
    with pytest.raises(ValueError, match="standardize"):
        sw.EarlyClassifier(standardize=wrong).fit(X, Y)
