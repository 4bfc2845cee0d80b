"""Series from data frames in long form."""

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from helpers import early

rng = np.random.default_rng(0)


def frame(**columns):
    return pd.DataFrame(
        {
            "who": ["b", "a", "b", "a", "b"],
            "t": [2, 0, 0, 1, 1],
            "u": [22.0, 10, 20, 11, 21],
            "v": [2.2, 1.0, 2.0, 1.1, 2.1],
            "y": ["ill", "well", "ill", "well", "ill"],
            "ward": [7, 8, 7, 8, 7],
        }
        | columns
    )


def read(df, **options):
    return sw.from_frame(df, **{"series": "who", "time": "t", "label": "y", "groups": "ward"} | options)


def values(data):
    return [data.X.batch(np.array([i]))[0][0].tolist() for i in range(len(data))]


def test_rows_in_any_order_are_sorted_by_time():
    data = read(frame())
    assert data.names == ("b", "a")
    assert data.channels == data.X.channel_names == ("u", "v")
    assert values(data) == [[[20, 2.0], [21, 2.1], [22, 2.2]], [[10, 1.0], [11, 1.1]]]
    assert data.y.tolist() == ["ill", "well"]
    assert data.groups.tolist() == [7, 8]
    shuffled = read(frame().sample(frac=1, random_state=1))
    assert sorted(map(str, values(shuffled))) == sorted(map(str, values(data)))


def test_missing_steps_become_nan():
    data = read(frame(t=[6, 0, 0, 2, 2]))  # a grid of 2: series b has no sample at 4
    first = data.X.batch(np.array([0]))[0][0]
    assert np.isnan(first[2]).all()
    assert first[[0, 1, 3], 0].tolist() == [20, 21, 22]


def test_irregular_times_are_used_in_order_with_a_warning():
    with pytest.warns(UserWarning, match="the times are irregular .5 samples on a grid of"):
        data = read(frame(t=[1000, 0, 0, 7, 1]))
    assert data.lengths.tolist() == [3, 2]


def test_dates_are_sorted():
    dates = pd.to_datetime(["2026-01-03", "2026-01-01", "2026-01-01", "2026-01-02", "2026-01-02"])
    assert values(read(frame(t=dates))) == values(read(frame()))


def test_channels_can_be_chosen_and_ordered():
    assert read(frame(), channels=["v"]).channels == ("v",)
    assert values(read(frame(), channels=["v", "u"]))[1][0] == [1.0, 10]


def test_polars_frames_give_the_same():
    polars = pytest.importorskip("polars")
    assert values(read(polars.from_pandas(frame()))) == values(read(frame()))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"t": [0, 0, 0, 1, 1]}, {}, "series 'b' has two rows at 0 in column 't'"),
        ({"t": [np.nan, 0, 0, 1, 1]}, {}, "series 'b' has a row without a time"),
        ({"y": ["ill", "well", "well", "well", "ill"]}, {}, "series 'b' has 'ill' and 'well'"),
        ({"ward": [7, 8, 7, 8, 9]}, {}, "`groups`: column 'ward' must be the same"),
        ({"u": list("abcde")}, {}, "column 'u' must hold numbers"),
        ({"who": ["b", None, "b", "a", "b"]}, {}, "column 'who' has empty cells"),
        ({}, {"time": "hour"}, "`time` must be a column of the data frame; got 'hour'. It has who, t, u"),
        ({}, {"channels": ["y"]}, "`channels` must be columns that are not used otherwise; got .'y'."),
        ({}, {"channels": []}, "`channels` must be columns"),
    ],
)
def test_wrong_frames_are_refused(columns, options, message):
    with pytest.raises(ValueError, match=message):
        read(frame(**columns), **options)


def test_empty_frame_is_refused():
    with pytest.raises(ValueError, match="`df` must have at least one row"):
        read(frame().iloc[:0])


def many(order):
    n, T = 40, 6
    who, t = np.repeat(np.arange(n), T), np.tile(np.arange(T), n)
    y = np.repeat(np.arange(n) % 2, T)
    columns = {"u": y + 0.1 * rng.standard_normal(n * T), "v": 5 + rng.standard_normal(n * T)}
    return pd.DataFrame({"who": who, "t": t, "y": y} | {name: columns[name] for name in order})


def test_classifier_matches_channels_by_name(tmp_path):
    df = many("uv")
    data = sw.from_frame(df, series="who", time="t", label="y")
    clf = early(order=0, max_epochs=3, polish=False).fit(data.X, data.y)
    assert clf.channel_names_ == ("u", "v")
    swapped = sw.from_frame(df, series="who", time="t", label="y", channels=["v", "u"])
    np.testing.assert_array_equal(clf.scores(swapped.X), clf.scores(data.X))
    clf.save(tmp_path)
    again = sw.load(tmp_path)
    assert again.channel_names_ == ("u", "v")
    np.testing.assert_array_equal(again.scores(swapped.X), clf.scores(data.X))


def test_unknown_and_missing_channels_are_refused():
    data = sw.from_frame(many("uv"), series="who", time="t", label="y")
    clf = early(order=0, max_epochs=1, polish=False).fit(data.X, data.y)
    other = sw.SeriesSet(np.zeros((2, 6, 2)), channel_names=["u", "w"])
    with pytest.raises(ValueError, match=r"channels u, v, .* it has u, w .unknown: w; missing: v"):
        clf.decide(other)


def test_arrays_without_names_are_taken_by_position():
    data = sw.from_frame(many("uv"), series="who", time="t", label="y")
    clf = early(order=0, max_epochs=1, polish=False).fit(data.X, data.y)
    X = data.X.batch(np.arange(len(data)))[0]
    np.testing.assert_array_equal(clf.scores(X), clf.scores(data.X))


def test_decisions_as_a_frame():
    data = sw.from_frame(many("uv"), series="who", time="t", label="y")
    decisions = early(order=0, max_epochs=1, polish=False).fit(data.X, data.y).decide(data.X)
    table = decisions.to_frame()
    assert table.columns.tolist() == ["label", "time", "forced", "length"]
    assert table["time"].tolist() == decisions.times.tolist()
