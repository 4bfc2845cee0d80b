"""Reading lines with bounded memory, whatever the bytes are."""

import io
import os
import tracemalloc

import pytest

from stopwise.streaming.lines import Line, Malformed, Pause, read_lines


def read(data, **options):
    return list(read_lines(io.BytesIO(data), **options))


def test_lines_are_numbered_and_empty_ones_skipped():
    assert read(b"\n  \na\r\n\nb") == [Line(3, "a"), Line(5, "b")]
    assert read(b"") == read(b"\n\n") == []


def test_a_byte_order_mark_is_skipped():
    assert read(b"\xef\xbb\xbf[1]\n") == [Line(1, "[1]")]


def test_a_line_that_is_not_text_is_reported():
    assert read(b"a\n\xff\xfe\nb\n") == [
        Line(1, "a"),
        Malformed(2, "not UTF-8 text (byte 0xff at 1)"),
        Line(3, "b"),
    ]


@pytest.mark.parametrize("length", [101, 70_000, 200_000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nc"])
def test_a_line_that_is_too_long_is_skipped(length, end):
    last = [Line(3, "c")] if end == b"\nc" else []
    found = read(b"a\n" + b"x" * length + end, max_line=100)
    assert found == [Line(1, "a"), Malformed(2, "longer than 100 bytes (see --max-line)"), *last]
    assert read(b"x" * 100 + end, max_line=100)[0] == Line(1, "x" * 100)


def test_a_long_line_is_not_held_in_memory(tmp_path):
    (tmp_path / "long").write_bytes(b"[" * 50_000_000 + b"\n[1]\n")
    tracemalloc.start()
    with open(tmp_path / "long", "rb") as file:
        found = list(read_lines(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [type(item) for item in found] == [Malformed, Line]
    assert peak < 5_000_000


def test_a_line_is_processed_before_the_next_one_arrives():
    out, into = os.pipe()
    with open(out, "rb") as file, open(into, "wb", buffering=0) as writer:
        lines = read_lines(file, pause=0.01)
        assert next(lines) == Pause()
        writer.write(b"one\ntw")
        assert next(lines) == Line(1, "one")
        assert next(lines) == Pause()
        writer.write(b"o\n")
        assert next(lines) == Line(2, "two")
