"""Result files: incomplete lines are ignored, also with concurrent or interrupted writers."""

import json
import multiprocessing
import os

import pytest

from stopwise.experiments.result_file import append_record, read_records


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.jsonl"


def test_missing_file_has_no_records(path):
    assert read_records(path) == {}


def test_record_is_one_compact_line(path):
    append_record(path, {"name": "a", "result": {"curve": [1, 2]}})
    assert path.read_text() == '{"name":"a","result":{"curve":[1,2]}}\n'


def test_last_record_with_a_name_is_returned(path):
    for value in (1, 2):
        append_record(path, {"name": "a", "value": value})
    append_record(path, {"name": "b", "value": 3})
    assert {name: record["value"] for name, record in read_records(path).items()} == {"a": 2, "b": 3}


@pytest.mark.parametrize("kept", range(1, 30, 4))
def test_line_after_a_truncated_one_is_read(path, kept):
    append_record(path, {"name": "a", "value": 1})
    complete = path.read_bytes()
    path.write_bytes(complete + b'{"name":"b","value":2222222222}'[:kept])
    assert list(read_records(path)) == ["a"]
    append_record(path, {"name": "c", "value": 3})
    assert list(read_records(path)) == ["a", "c"]


@pytest.mark.parametrize("line", [b"", b"5", b"[]", b"{}", b"null", b'{"name": []}', b"\xff\xfe"])
def test_invalid_lines_are_ignored(path, line):
    path.write_bytes(line + b"\n")
    append_record(path, {"name": "a"})
    assert list(read_records(path)) == ["a"]


def test_value_that_is_not_json_leaves_the_file_unchanged(path):
    append_record(path, {"name": "a"})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        append_record(path, {"name": "b", "error": float("nan")})
    assert path.read_bytes() == before


def test_full_disk_raises_and_later_lines_are_intact(path, monkeypatch):
    append_record(path, {"name": "a"})
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:5]))
        with pytest.raises(OSError, match="the disk is full"):
            append_record(path, {"name": "b"})
    append_record(path, {"name": "c"})
    assert list(read_records(path)) == ["a", "c"]


def append_many(path, writer, count):
    for i in range(count):
        append_record(path, {"name": f"{writer}-{i}", "long": [writer] * 2000})


def test_concurrent_processes_do_not_interleave_lines(path):
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=append_many, args=(path, writer, 100)) for writer in (1, 2)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0, 0]
    lines = [line for line in path.read_bytes().split(b"\n") if line]
    assert len([json.loads(line) for line in lines]) == 200
    assert read_records(path).keys() == {f"{writer}-{i}" for writer in (1, 2) for i in range(100)}
