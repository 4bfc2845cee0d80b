"""Reading samples from valid and invalid lines."""

import math

import pytest

from stopwise.streaming.lines import Malformed, Sample, read_samples


def read(*lines):
    return list(read_samples(lines))


def test_json_with_and_without_keys():
    assert read('{"key": "a", "x": [1, 2.5]}', '{"x": [3]}', "[4, 5]", '{"key": 7, "x": 2}') == [
        Sample(1, "a", [1.0, 2.5]),
        Sample(2, None, [3.0]),
        Sample(3, None, [4.0, 5.0]),
        Sample(4, 7, [2.0]),
    ]


def test_end_lines():
    assert read('{"key": "a", "end": true}') == [Sample(1, "a", None)]


def test_missing_values_become_nan():
    assert math.isnan(read('{"x": [null]}')[0].x[0])
    assert math.isnan(read("u,v", "1,")[0].x[1])


def test_csv_with_and_without_header_and_key():
    assert read("u,v", "1,2", "3,4") == [Sample(2, None, [1.0, 2.0]), Sample(3, None, [3.0, 4.0])]
    assert read("1,2", "3,4") == [Sample(1, None, [1.0, 2.0]), Sample(2, None, [3.0, 4.0])]
    assert read("u,key,v", '1,"a, b",2') == [Sample(2, "a, b", [1.0, 2.0])]


def test_empty_lines_are_skipped_but_counted():
    assert read("", "  ", "[1]", "", "[2]") == [Sample(3, None, [1.0]), Sample(5, None, [2.0])]
    assert read() == []
    assert read("", "") == []


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["[1]", "{"], "not JSON"),
        (["[1]", '"word"'], "expected"),
        (["[1]", '{"x": ["1"]}'], "list of numbers"),
        (["[1]", '{"x": [true]}'], "list of numbers"),
        (["[1]", '{"y": [1]}'], "list of numbers"),
        (["[1]", '{"key": [1], "x": [1]}'], "key must be"),
        (["[1]", '{"key": true, "x": [1]}'], "key must be"),
        (["u,v", "1"], "expected 2 fields"),
        (["u,v", "1,word"], "not a number: 'word'"),
        (["1,2", "1,word"], "not a number"),
    ],
)
def test_a_malformed_line_is_reported_with_its_number(lines, reason):
    result = read(*lines)[-1]
    assert isinstance(result, Malformed)
    assert result.line == 2
    assert reason in result.reason


def test_a_line_is_processed_before_the_next_one_is_read():
    def lines():
        yield "[1]\n"
        raise RuntimeError("the second line must not be read yet")

    assert next(read_samples(lines())) == Sample(1, None, [1.0])
