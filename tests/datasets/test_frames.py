"""Series from data frames in long form."""

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from helpers import early

rng = np.random.default_rng(0)
DATES = pd.to_datetime(["2026-01-03", "2026-01-01", "2026-01-01", "2026-01-02", "2026-01-02"])


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
    assert values(read(frame(t=DATES))) == values(read(frame()))


def test_channels_can_be_chosen_and_ordered():
    assert read(frame(), channels=["v"]).channels == ("v",)
    assert values(read(frame(), channels=["v", "u"]))[1][0] == [1.0, 10]


@pytest.mark.parametrize("columns", [{}, {"t": [6, 0, 0, 2, 2]}, {"t": DATES}, {"u": [1, None, 3, 4, 5]}])
def test_polars_frames_give_the_same(columns):
    polars = pytest.importorskip("polars")
    expected = frame(**columns)
    found = read(polars.DataFrame(expected.to_dict("list")))
    assert str(values(found)) == str(values(read(expected)))
    assert found.y.tolist() == ["ill", "well"]
    assert found.groups.tolist() == [7, 8]


def test_the_errors_of_polars_frames_are_the_same():
    polars = pytest.importorskip("polars")
    for columns, message in (
        ({"t": [0, 0, 0, 1, 1]}, "series 'b' has two rows at 0"),
        ({"t": ["2", "10", "9", "1", "1"]}, "must hold numbers or dates"),
        ({"t": [None, 0, 0, 1, 1]}, "column 't' has 1 empty cells"),
        ({"u": list("abcde")}, "column 'u' must hold numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            read(polars.DataFrame(frame().to_dict("list") | columns))
    with pytest.raises(ValueError, match="seems to have one row per sample"):
        early().fit(polars.DataFrame({"series": [1, 1, 2, 2], "u": [1.0, 2, 3, 4]}), [0, 0, 1, 1])
    with pytest.raises(TypeError, match=r"`df` must be a data frame.*Collect a lazy frame"):
        read(polars.DataFrame(frame().to_dict("list")).lazy())


def test_what_is_no_frame_is_refused():
    with pytest.raises(TypeError, match="`df` must be a data frame, such as one of pandas or polars; got nd"):
        read(np.zeros((3, 4)))
    with pytest.raises(TypeError, match="`X` is a LabeledSeries: pass its `series`, and its `y`"):
        early().fit(read(frame()), ["ill", "well"])


@pytest.mark.parametrize(
    "times",
    [
        pd.to_datetime(["2026-01-04", "2026-01-01", "2026-01-01", "2026-01-02", "2026-01-02"]),
        [1.5, 0.0, 0.0, 0.5, 0.5],
        [1_700_000_000.03, 1_700_000_000.0, 1_700_000_000.0, 1_700_000_000.01, 1_700_000_000.01],
        pd.to_timedelta([3, 0, 0, 1, 1], "h"),
    ],
    ids=["dates", "fractions", "seconds since 1970", "durations"],
)
def test_missing_steps_of_any_regular_times_become_nan(times):
    data = read(frame(t=times))
    first = data.X.batch(np.array([0]))[0][0]
    assert np.isnan(first[2]).all()
    assert first[[0, 1, 3], 0].tolist() == [20, 21, 22]


def test_jitter_is_no_gap():
    data = read(frame(t=[2.2, 0.0, 0.0, 1.1, 0.9]))
    assert data.lengths.tolist() == [3, 2]
    with pytest.warns(UserWarning, match=r"between samples is 1.1 at the median and up to 2.7"):
        read(frame(t=[3.6, 0.0, 0.0, 1.1, 0.9]))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"t": [0, 0, 0, 1, 1]}, {}, "series 'b' has two rows at 0 in column 't'"),
        ({"t": [np.nan, 0, 0, 1, 1]}, {}, "`time`: column 't' has 1 empty cells"),
        ({"t": ["2", "10", "9", "1", "1"]}, {}, "column 't' must hold numbers or dates; got '2'. Convert"),
        ({"t": [True, False, False, True, True]}, {}, "column 't' must hold numbers or dates; got"),
        ({"y": ["ill", None, "ill", None, "ill"]}, {}, "`label`: column 'y' has empty cells"),
        ({"patient": [1, 2, 1, 2, 1]}, {}, "column 'patient' looks like an identifier.*groups='patient'"),
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
    with pytest.warns(UserWarning, match="`X` has no channel names, so its channels must be u, v, in this"):
        scores = clf.scores(X)
    np.testing.assert_array_equal(scores, clf.scores(data.X))


def test_decisions_as_a_frame():
    data = sw.from_frame(many("uv"), series="who", time="t", label="y")
    decisions = early(order=0, max_epochs=1, polish=False).fit(data.X, data.y).decide(data.X)
    table = decisions.to_frame()
    assert table.columns.tolist() == ["label", "time", "forced", "length"]
    assert table["time"].tolist() == decisions.times.tolist()
