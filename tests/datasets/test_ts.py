import numpy as np
import pytest

from stopwise.datasets import read

HEADER = """# Two kinds of steps.
%# Shortened.
@problemName Steps
@timeStamps false
@missing false
@univariate {univariate}
@equalLength {equal}
@classLabel {labels}
@data
"""


def ts(tmp_path, *lines, univariate="false", equal="false", labels="true walk Run"):
    path = tmp_path / "steps.ts"
    header = HEADER.format(univariate=univariate, equal=equal, labels=labels)
    path.write_text(header + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_univariate_series_of_equal_length(tmp_path):
    path = ts(tmp_path, "1,2.5,-3e2:walk", "", "4, 5 ,6:Run ", univariate="true", equal="true")
    data = read(path)
    assert data.X.tolist() == [[[1], [2.5], [-300]], [[4], [5], [6]]]
    assert data.y.tolist() == ["walk", "Run"]
    assert data.lengths.tolist() == [3, 3]


def test_multivariate_series_of_unequal_length_with_missing_values(tmp_path):
    data = read(ts(tmp_path, "1,2,3:4,?,6:walk", "7:8:Run", "NaN,1:2,3:walk"))
    assert repr(data) == "LabeledSeries(3 series of 1 to 3 steps, 2 classes)"
    np.testing.assert_array_equal(data.X[0], [[1, 4], [2, np.nan], [3, 6]])
    np.testing.assert_array_equal(data.X[1], [[7, 8]])
    np.testing.assert_array_equal(data.X[2], [[np.nan, 2], [1, 3]])


def test_integer_labels_and_files_without_labels(tmp_path):
    assert read(ts(tmp_path, "1,2:3", "1,2:-1", labels="true -1 3")).y.tolist() == [3, -1]
    data = read(ts(tmp_path, "1,2:3,4", "5,6:7,8", labels="false"))
    assert data.y is None
    assert data.X.tolist() == [[[1, 3], [2, 4]], [[5, 7], [6, 8]]]


BAD = {
    "number": (["1,2:walk", "1,x2:walk"], r"line 11, channel 1: expected numbers or \? .* got 'x2'"),
    "empty number": (["1,:walk"], "line 10, channel 1: expected numbers or"),
    "cut": (
        ["1,2:walk", "1,2:wa"],
        "line 11: the label is 'wa', which is not among the classes .*: walk, Run",
    ),
    "no label": (["1,2:walk", "1,2"], "line 11: expected channels and, after a colon, the label"),
    "channels": (["1:2:walk", "1:walk"], r"line 11: expected 2 channel\(s\), as in the first series; got 1"),
    "ragged": (["1,2:3:walk"], r"line 10: all channels must have the same length; got \[2, 1\]"),
    "nothing": ([], "no series after @data. It is truncated"),
}


@pytest.mark.parametrize(("lines", "message"), BAD.values(), ids=BAD)
def test_damaged_lines_raise(tmp_path, lines, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(ts(tmp_path, *lines))
    assert "steps.ts" in str(caught.value)


def test_lines_that_contradict_the_header_raise(tmp_path):
    with pytest.raises(
        ValueError, match="line 11: @equalLength is true and the first series has 2 steps; this"
    ):
        read(ts(tmp_path, "1,2:walk", "1,2,3:walk", equal="true"))
    with pytest.raises(ValueError, match="line 10: @univariate is true, but there are 2 channels"):
        read(ts(tmp_path, "1,2:3,4:walk", univariate="true"))
    with pytest.raises(ValueError, match=r"line 6: @univariate must be followed by true or false; got 'yes'"):
        read(ts(tmp_path, "1:walk", univariate="yes"))


def test_invalid_headers_raise(tmp_path):
    path = ts(tmp_path, "1:walk")
    text = path.read_text()
    path.write_text(text.replace("@timeStamps false", "@timeStamps true"))
    with pytest.raises(ValueError, match="line 4: series with timestamps are not supported"):
        read(path)
    path.write_text(text.replace("@classLabel true walk Run", "@targetlabel true"))
    with pytest.raises(ValueError, match="line 8: the targets are numbers"):
        read(path)
    path.write_text(text.replace("@data", ""))
    with pytest.raises(ValueError, match=r"line 10: expected metadata \(@...\) or a comment .*got '1:walk'"):
        read(path)
    path.write_text(text[: text.index("@data")])
    with pytest.raises(ValueError, match=r"steps.ts has no line @data. It is truncated"):
        read(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        read(path)
    with pytest.raises(FileNotFoundError, match=r"step.ts does not exist. Did you mean steps.ts\?"):
        read(tmp_path / "step.ts")
