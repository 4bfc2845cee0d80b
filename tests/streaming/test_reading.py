"""From lines to samples: JSON, CSV, columns by name, and lines that cannot be used."""

import math

import pytest

from stopwise.streaming.csv_lines import Columns
from stopwise.streaming.lines import Line, Malformed
from stopwise.streaming.reading import read_samples
from stopwise.streaming.sample_lines import Key, Sample

TWO = Columns(2)
NAMED = Columns(2, names=["u", "v"])


def read(*lines, columns=TWO, form="auto"):
    return list(read_samples([Line(n, text) for n, text in enumerate(lines, 1)], columns, form=form))


def sample(line, key, x, **more):
    return Sample(line, Key.of(key), x, **more)


def test_json_with_and_without_keys():
    assert read('{"key": "a", "x": [1, 2.5]}', '{"x": [3]}', "[4, 5]", '{"key": 7, "x": 2}') == [
        sample(1, "a", [1.0, 2.5]),
        sample(2, None, [3.0]),
        sample(3, None, [4.0, 5.0]),
        sample(4, 7, [2.0]),
    ]


def test_end_lines_with_and_without_a_sample():
    assert read('{"key": "a", "end": true}', '{"x": [1], "end": true}', '{"x": [1], "end": false}') == [
        sample(1, "a", None, end=True),
        sample(2, None, [1.0], end=True),
        sample(3, None, [1.0]),
    ]


def test_sequence_numbers_and_other_fields():
    assert read('{"x": [1], "seq": 7, "ts": "12:00", "site": {"id": 3}}') == [
        sample(1, None, [1.0], seq=7, extra={"ts": "12:00", "site": {"id": 3}})
    ]


def test_channels_by_name_in_json():
    assert read('{"x": {"v": 2, "u": null}}')[0].x["v"] == 2.0


def test_keys_are_compared_with_their_type():
    keys = [Key.of(value) for value in (None, "", "1", 1, 1.0, "None")]
    assert len(set(keys)) == len(keys)
    assert Key.of(1) == Key.of(1)


def test_missing_values_become_nan():
    assert math.isnan(read('{"x": [null]}')[0].x[0])
    assert math.isnan(read("u,v", "1,")[0].x[1])


def test_csv_with_and_without_header_and_key():
    assert read("u,v", "1,2", "3,4") == [sample(2, None, [1.0, 2.0]), sample(3, None, [3.0, 4.0])]
    assert read("1,2", "3,4") == [sample(1, None, [1.0, 2.0]), sample(2, None, [3.0, 4.0])]
    assert read("u,key,v", '1,"a, b",2') == [sample(2, "a, b", [1.0, 2.0])]


def test_csv_columns_are_matched_by_name():
    assert read("v,key,u", "2,a,1", columns=NAMED) == [sample(2, "a", [1.0, 2.0])]
    for header, reason in (("v,u,w", "unknown: w; missing: none"), ("v,w", "unknown: w; missing: u")):
        first, second = read(header, "1,2,3"[: len(header)], columns=NAMED)
        assert reason in first.reason
        assert second == Malformed(2, "there is no valid header; line 1 was refused")


def test_csv_columns_with_a_meaning_of_their_own():
    assert read("key,seq,end,u,v", "a,3,,1,2", "a,4,true,1,2") == [
        sample(2, "a", [1.0, 2.0], seq=3),
        sample(3, "a", [1.0, 2.0], seq=4, end=True),
    ]
    long = read("series,time,label,u,v", "a,0.5,yes,1,2")
    assert long == [sample(2, "a", [1.0, 2.0], seq=0.5, extra={"label": "yes"})]
    chosen = Columns(2, names=["u", "v"], drop=["comment"], echo=["ts"], chosen=True)
    assert read("ts,u,v,comment", "12:00,1,2,none", columns=chosen) == [
        sample(2, None, [1.0, 2.0], extra={"ts": "12:00"})
    ]
    assert "there is no column comment" in read("ts,u,v", columns=chosen)[0].reason
    with pytest.raises(ValueError, match="can only be used with CSV; the input is JSON"):
        read("[1, 2]", columns=chosen)


def test_a_channel_may_have_a_reserved_name():
    assert read("end,key,k", "2,1,a", columns=Columns(2, names=["key", "end"], drop=["k"])) == [
        sample(2, None, [1.0, 2.0])
    ]


@pytest.mark.parametrize("garbage", ["oops", 'key": 1}', '"x": [1, 2]}', "{", "a,b", "1,2,3", "#", '"'])
def test_garbage_before_json_is_reported_and_the_json_is_read(garbage):
    *bad, first, second = read(garbage, "[1, 2]", "[3, 4]")
    assert [(type(item), item.line) for item in bad] == [(Malformed, 1)]
    assert (first, second) == (sample(2, None, [1.0, 2.0]), sample(3, None, [3.0, 4.0]))


def test_a_line_of_json_does_not_end_an_input_in_csv():
    assert [item.x for item in read("u,v", "1,2", "[3, 4]", "5,6")] == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_garbage_before_a_csv_header_is_reported():
    assert read("oops", "v,u", "2,1", columns=NAMED)[1:] == [sample(3, None, [1.0, 2.0])]


def test_the_format_can_be_set():
    assert isinstance(read("1,2", form="json")[0], Malformed)
    assert read("key,u,v", "[a],1,2", form="csv") == [sample(2, "[a]", [1.0, 2.0])]


def test_json_lines_stay_json():
    assert [type(item) for item in read("[1, 2]", "3,4", "u,v", "[5, 6]")] == [
        Sample,
        Malformed,
        Malformed,
        Sample,
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ('"word"', "expected"),
        ('{"x": ["1"]}', "list of numbers"),
        ('{"x": [true]}', "list of numbers"),
        ('{"x": {"u": "1"}}', "list of numbers"),
        ('{"y": [1]}', "it is missing"),
        ('{"key": [1], "x": [1]}', "key must be"),
        ('{"key": true, "x": [1]}', "key must be"),
        ('{"key": NaN, "x": [1]}', "key must be"),
        ('{"key": "' + "k" * 1001 + '", "x": [1]}', "at most 1000 characters"),
        ('{"x": [1], "end": 1}', '"end" must be true or false; got 1'),
        ('{"x": [1], "end": 1.0}', '"end" must be true or false; got 1.0'),
        ('{"x": [1], "seq": "7"}', '"seq" must be a finite number'),
        ('{"x": [1], "seq": Infinity}', '"seq" must be a finite number'),
        ('{"x": [1], "x": [2]}', "a name occurs twice"),
        ('{"x": {"u": 1, "u": 2}}', "a name occurs twice"),
        ("[" * 100_000, "too many levels"),
        ('{"x": [1], "ts": ' + "[" * 50 + "]" * 50 + "}", "more than 20 levels"),
        ("[1" + "0" * 400 + "]", "a number is too large"),
        ('{"x": [1], "seq": 1' + "0" * 400 + "}", "a number is too large"),
        ("[1" + "0" * 5000 + "]", "4300"),
    ],
)
def test_json_that_cannot_be_used_is_reported_with_its_line(line, reason):
    result = read("[1, 2]", line)[-1]
    assert isinstance(result, Malformed)
    assert result.line == 2
    assert reason in result.reason


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["u,v", "1"], "expected 2 fields"),
        (["u,v", "1,word"], "not a number: 'word'"),
        (["u,v", "1,1_0"], "not a number: '1_0'"),
        (["u,v", '1,"2'], "not CSV"),
        (["u,v", "1," + "2" * 140_000], "not CSV"),
        (["1,2", "1,word"], "not a number"),
        (["u,v,seq", "1,2,x"], "not a number"),
        (["u,v,end", "1,2,yes"], "end must be"),
        (["1", "u,u"], "distinct names"),
        (["1", "u,"], "distinct names"),
    ],
)
def test_csv_that_cannot_be_used_is_reported_with_its_line(lines, reason):
    result = read(*lines)[-1]
    assert isinstance(result, Malformed)
    assert result.line == 2
    assert reason in result.reason


def test_a_sample_is_processed_before_the_next_line_is_read():
    def lines():
        yield Line(1, "[1]")
        raise RuntimeError("the second line must not be read yet")

    assert next(read_samples(lines(), TWO)) == sample(1, None, [1.0])
