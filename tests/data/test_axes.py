"""Data whose axes mean something else: channels first, and frames with one row per sample."""

import warnings

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from helpers import early
from stopwise.data.axes import check_not_long, warn_if_swapped


def smooth(n, steps, channels, seed=0):
    """Random walks (n, T, D): neighboring steps are similar, channels are not."""
    rng = np.random.default_rng(seed)
    walks = rng.standard_normal((n, steps, channels)).cumsum(1)
    return walks + 3 * rng.standard_normal((1, 1, channels)) * np.sqrt(steps)


@pytest.mark.parametrize("shape", [(100, 1, 96), (30, 3, 96), (30, 8, 40)])
def test_channels_first_is_warned_about(shape):
    n, channels, steps = shape
    with pytest.warns(UserWarning, match=r"pass X.transpose\(0, 2, 1\)"):
        warn_if_swapped(sw.SeriesSet(smooth(n, steps, channels).transpose(0, 2, 1)))


@pytest.mark.parametrize(
    "X",
    [
        smooth(30, 96, 3),
        smooth(30, 20, 40),
        np.random.default_rng(0).standard_normal((30, 20, 40)),
        np.zeros((30, 5, 8)),
        np.ones((30, 1)),
        np.ones((30, 1, 1)),
        [np.ones((1, 5)), np.ones((2, 5))],
    ],
    ids=["long", "wide", "noise", "constant", "2-D", "one channel", "list"],
)
def test_steps_first_is_not_warned_about(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_swapped(sw.SeriesSet(X))


def test_fit_warns_once_and_still_fits():
    X = smooth(40, 12, 1).transpose(0, 2, 1)  # (40, 1, 12)
    with pytest.warns(UserWarning, match="1 step.s. and 12 channels") as caught:
        early(order=0, max_epochs=1, polish=False).fit(X, np.arange(40) % 2)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def long_frame(names=("who", "hour", "pulse")):
    who, hour = np.repeat(np.arange(5), 4), np.tile(np.arange(4), 5)
    return pd.DataFrame(dict(zip(names, (who, hour, np.random.default_rng(0).standard_normal(20)))))


def test_frame_with_one_row_per_sample_is_refused():
    frame = long_frame()
    with pytest.raises(ValueError, match=r"Use data = sw.from_frame\(df, series="):
        early(order=0).fit(frame, np.zeros(len(frame)))


def test_telling_column_name_is_enough():
    frame = long_frame(("a", "Time", "pulse")).sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match="it has the column 'Time'"):
        check_not_long(frame)


def test_frame_with_one_row_per_series_is_accepted():
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((20, 6)))
    check_not_long(frame)
    assert sw.SeriesSet(frame).shape == (20, 6, 1)
