import warnings

import numpy as np
import pytest

import stopwise as sw
from helpers import early
from stopwise.data.padding import warn_if_padded
from stopwise.data.series import SeriesSet

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 20, 2))
LENGTHS = RNG.integers(8, 21, 200)
INSIDE = (np.arange(20) < LENGTHS[:, None])[..., None]  # (n, T, 1)


@pytest.mark.parametrize(
    "padded",
    [
        np.where(INSIDE, X, 0.0),
        np.where(INSIDE, X, np.nan),
        np.where(INSIDE, X, -999.0),
        np.where(INSIDE, X, X[np.arange(200), LENGTHS - 1][:, None]),  # the last sample is repeated
        np.where(INSIDE, X, 0.0)[..., 0],
    ],
    ids=["zeros", "NaN", "a constant", "the last sample", "one channel"],
)
def test_padding_without_lengths_is_warned_about(padded):
    with pytest.warns(
        UserWarning, match=r"[78]\d% of the series end with equal samples, up to 1[23].*lengths="
    ):
        warn_if_padded(SeriesSet(padded))
    warnings.simplefilter("error")
    warn_if_padded(SeriesSet(padded, lengths=LENGTHS))


@pytest.mark.parametrize(
    "series",
    [
        X,
        list(X[0:3]),
        np.where(RNG.random((200, 20, 1)) < 0.01, 1.0, 0.0),  # rare events
        np.repeat(X[:, :5], 4, axis=1),  # steps of four samples
        np.round(X[..., :1]),
        np.zeros((50, 20, 3)),
        X[:, :2],
        np.where(INSIDE | (np.arange(200) % 20 > 0)[:, None, None], X, 0.0),  # one series in twenty
    ],
    ids=["noise", "list", "events", "steps", "few values", "constant", "short", "few series"],
)
def test_other_series_are_not(series):
    warnings.simplefilter("error")
    warn_if_padded(SeriesSet(series))


def test_fit_warns():
    with pytest.warns(UserWarning, match="as if they were padded") as caught:
        early(order=0, max_epochs=1, polish=False).fit(np.where(INSIDE, X, 0.0), np.arange(200) % 2)
    assert caught[0].filename == __file__
    clf = early(order=0, max_epochs=1, polish=False)
    clf.fit(sw.SeriesSet(np.where(INSIDE, X, 0.0), lengths=LENGTHS), np.arange(200) % 2)
