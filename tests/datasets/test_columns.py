"""The choice of columns in files: channels, dropped columns, groups, identifiers, layout."""

import numpy as np
import pytest

from stopwise.datasets import read, write

HEADER = "series,time,label,patient,u,v\n"


def write_lines(path, count=6, patient=lambda i: i // 2, header=HEADER):
    rows = [f"{i},{t},{i % 2},{patient(i)},{i + t / 10},{-t}\n" for i in range(count) for t in range(3)]
    path.write_text(header + "".join(rows))
    return path


def test_groups_are_read_from_a_column(tmp_path):
    data = read(write_lines(tmp_path / "a.csv"), groups="patient")
    assert data.channels == ("u", "v")
    assert data.groups.tolist() == ["0", "0", "1", "1", "2", "2"]
    assert data.series.channel_names == ("u", "v")


def test_columns_are_dropped_or_chosen_in_order(tmp_path):
    path = write_lines(tmp_path / "a.csv")
    assert read(path, drop=["patient", "u"]).channels == ("v",)
    chosen = read(path, channels=["v", "u"])
    assert chosen.channels == ("v", "u")
    assert chosen.X[1, 2].tolist() == [-2.0, 1.2]


def test_text_column_can_be_dropped(tmp_path):
    path = write_lines(tmp_path / "a.csv", patient=lambda i: f"p{i}")
    with pytest.raises(ValueError, match="column patient: expected a number"):
        read(path)
    assert read(path, drop=["patient"]).channels == ("u", "v")


@pytest.mark.parametrize(
    ("name", "count", "value"),
    [("patient", 6, lambda i: i // 2), ("Subject_ID", 4, lambda i: i), ("code", 12, lambda i: 100 + i)],
)
def test_identifier_is_refused_as_a_channel(tmp_path, name, count, value):
    path = write_lines(tmp_path / "a.csv", count, value, HEADER.replace("patient", name))
    with pytest.raises(ValueError, match=rf"column '{name}' looks like an identifier.*--groups {name}"):
        read(path)
    assert read(path, channels=[name, "u"]).channels == (name, "u")  # named explicitly


@pytest.mark.parametrize("value", [lambda i: i % 3, lambda i: i + 0.5, lambda i: 7])
def test_constant_measurements_are_channels(tmp_path, value):
    path = write_lines(tmp_path / "a.csv", 12, value, HEADER.replace("patient", "age"))
    assert read(path).channels == ("age", "u", "v")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": ["w"]}, "`channels` names w, which is not a column. Available: patient, u, v"),
        ({"drop": ["w"]}, "`drop` names w"),
        ({"groups": "time"}, "`groups` names time"),
        ({"channels": ["u"], "drop": ["u"]}, "u cannot be a channel and also be dropped"),
        ({"layout": "channels-first"}, "`layout` can only be used with .npz and .npy"),
        ({"layout": "wide"}, "`layout` must be one of"),
    ],
)
def test_wrong_choices_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        read(write_lines(tmp_path / "a.csv"), **options)


def test_group_that_changes_within_a_series_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("series,time,label,g,u\na,0,x,1,0\na,1,x,2,0\n")
    with pytest.raises(ValueError, match="series 'a' has group '2' here but '1' on line 2"):
        read(path, groups="g")


@pytest.mark.parametrize("name", ["a.npz", "a"])
def test_channels_first_and_groups_in_arrays(tmp_path, name):
    X, y, persons = np.arange(24.0).reshape(2, 3, 4), np.array([0, 1]), np.array(["p", "q"])
    if name == "a.npz":
        np.savez(tmp_path / name, X=X, y=y, persons=persons)
    else:
        write(tmp_path / name, X, y)
        np.save(tmp_path / "a_persons.npy", persons)
    data = read(tmp_path / name, groups="persons", layout="channels-first")
    np.testing.assert_array_equal(data.X, X.transpose(0, 2, 1))
    assert data.groups.tolist() == ["p", "q"]
    with pytest.raises(ValueError, match=r"`channels` and `drop` can only be used with \.csv"):
        read(tmp_path / name, drop=["u"])


def test_groups_of_the_wrong_length_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros((2, 3, 1)), y=[0, 1], g=[1, 2, 3])
    with pytest.raises(ValueError, match=r"the groups must have shape .2,., one per series; got .3,."):
        read(tmp_path / "a.npz", groups="g")


def test_missing_steps_in_a_file_are_warned_about(tmp_path):
    path = tmp_path / "gap.csv"
    path.write_text("series,time,label,u\na,0,x,1\na,1,x,2\na,3,x,4\nb,5,y,1\nb,6,y,2\n")
    with pytest.warns(UserWarning, match="1 of 2 series have missing steps, such as series 'a'.*empty cells"):
        data = read(path)
    assert data.lengths.tolist() == [3, 2]
    path.write_text("series,time,label,u\na,0,x,1\na,1,x,2\na,2,x,\na,3,x,4\nb,5,y,1\nb,6,y,2\n")
    assert read(path).lengths.tolist() == [4, 2]  # no warning
