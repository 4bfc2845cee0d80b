"""`stopwise decide`: decisions on lines of samples, and lines that cannot be used."""

import json

import numpy as np
import pytest

from decide_helpers import check, decide, lines, start


def test_keyed_streams_are_decided_like_complete_series(folder, clf, X):
    printed, err = decide(folder, lines(X))
    check(printed, clf, X)
    assert err == (
        f"stopwise: 48 samples ({48 - sum(one['time'] for one in printed)} after a decision), 0 late or "
        f"repeated, 6 decisions ({sum(one['forced'] for one in printed)} forced), 0 streams dropped, 0 lines "
        "rejected\n"
    )
    assert {(one["schema"], one["model"]) for one in printed} == {(1, clf.streams().digest)}


def test_csv_file_without_keys(folder, clf, X, tmp_path):
    np.savetxt(tmp_path / "one.csv", X[0], delimiter=",", header="u,v", comments="")
    (printed,), _ = decide(folder, "", "--input", tmp_path / "one.csv")
    decision = clf.decide(X[:1])[0]
    assert (printed["label"], printed["time"], printed["forced"]) == (
        decision.label,
        decision.time,
        decision.forced,
    )
    assert "key" not in printed


def test_invalid_lines_are_reported_and_skipped(folder, clf, X):
    good = lines(X).splitlines(keepends=True)
    bad = ["oops\n", '{"key": "s0", "x": [1, 2, 3]}\n', '{"key": "nobody", "end": true}\n']
    mixed = [*good[:3], *bad, *good[3:]]
    printed, err = decide(folder, "".join(mixed))
    check(printed, clf, X)
    *skipped, counts = err.splitlines()
    assert [line.split(":")[1] for line in skipped] == [f" line {n} skipped" for n in (4, 5, 6)]
    assert counts.endswith("3 lines rejected")


def test_strict_stops_at_the_first_invalid_line(folder, tmp_path, refusal):
    samples = tmp_path / "samples.jsonl"
    samples.write_text('{"x": [1, 2]}\noops\n')
    assert "line 2" in refusal("decide", folder / "model", "--input", samples, "--strict")


def test_an_end_line_forces_the_decision(folder):
    printed, _ = decide(folder, '{"key": "a", "x": [0, 0]}\n{"key": "a", "end": true}\n')
    assert printed[0]["forced"]


def test_a_decision_is_printed_before_the_next_line_arrives(folder):
    process = start(folder)
    sure = json.dumps({"key": "a", "x": [30.0, 0.0]}) + "\n"
    process.stdin.write(sure)
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["key"] == "a"  # while standard input is still open
    process.communicate()
    assert process.returncode == 0


BAD_LINES = [
    b"[" * 100_000,
    b"[1" + b"0" * 399 + b", 1]",
    b"[1" + b"0" * 5000 + b", 1]",
    b"\xff",
    b"[1, \xff]",
    b"[" + b"1," * 1_000_000 + b"1]",
    b'{"x": [1, 2], "key": {}}',
    b'{"x": [1e300, 0]}',
    b'{"x": [1e37, 1e37]}',
    b"\x00",
    b'{"x": {"u": 1, "v": 2}}',
    b'{"x": [[1], [2]]}',
    b'{"x": []}',
    b"null",
    b'{"key": "\\ud800", "end": true}',
]


@pytest.mark.parametrize("piped", [True, False])
def test_no_line_ends_a_run(folder, clf, X, tmp_path, piped):
    good = lines(X).encode().splitlines(keepends=True)
    data = b"".join([*good[:20], *(line + b"\n" for line in BAD_LINES), *good[20:]])
    (tmp_path / "samples").write_bytes(data)
    options = [] if piped else ["--input", tmp_path / "samples"]
    printed, err = decide(folder, data if piped else None, *options)
    check(printed, clf, X)
    *skipped, counts = err.splitlines()
    assert [line.split(":")[1] for line in skipped] == [
        f" line {21 + i} skipped" for i in range(len(BAD_LINES))
    ]
    assert counts.endswith(f"{len(BAD_LINES)} lines rejected")


def test_a_csv_field_that_is_too_long_does_not_end_a_run(folder):
    (printed,), err = decide(folder, "u,v\n0,0\n0," + "9" * 140_000 + "\n0,0\n")
    assert (printed["time"], err.count("skipped")) == (2, 1)


@pytest.mark.parametrize(
    "text", [b"oops\n", b"\xff\xfe[\x001\x00\n", b"[1]\n[2, 3, 4]\n", b"w,z\nx,y\n", b"{}\n"]
)
def test_the_exit_code_is_1_if_nothing_could_be_used(folder, text):
    printed, err = decide(folder, text, code=1)
    assert printed == []
    assert "0 samples" in err


def test_an_empty_input_is_no_error(folder):
    assert decide(folder, "")[0] == []


def test_a_byte_order_mark_does_not_hide_the_json(folder, clf, X):
    printed, err = decide(folder, b"\xef\xbb\xbf" + lines(X).encode())
    check(printed, clf, X)
    assert "skipped" not in err


def test_a_sample_on_the_last_line_of_a_stream_is_used(folder):
    (printed,), _ = decide(folder, '{"key": "a", "x": [0, 0]}\n{"key": "a", "x": [0, 0], "end": true}\n')
    assert (printed["time"], printed["forced"]) == (2, True)


def test_keys_that_look_alike_are_different_streams(folder):
    keys = ["", "1", 1, 1.0]
    text = "".join(json.dumps({"key": key, "x": [0, 0]}) + "\n" for key in keys) + "[0, 0]\n"
    printed, _ = decide(folder, text)
    assert [one["time"] for one in printed] == [1] * 5
    assert [repr(one.get("key")) for one in printed] == [*map(repr, keys), "None"]


def test_other_fields_are_copied_to_the_decision(folder):
    sure = {"x": [30.0, 0.0], "ts": "12:00", "label": "truth", "site": {"id": 3}}
    (printed,), _ = decide(folder, json.dumps(sure) + "\n")
    assert (printed["ts"], printed["input_label"], printed["site"]) == ("12:00", "truth", {"id": 3})
    assert printed["label"] in ("no", "yes")


def test_late_and_repeated_samples_are_ignored_and_counted(folder, clf, X):
    samples = [{"key": "s0", "x": (0.01 * x).tolist(), "seq": t} for t, x in enumerate(X[0])]
    order = [0, 1, 1, 2, 0, 3, 4, 4, 5, 6, 7]
    (printed,), err = decide(folder, "".join(json.dumps(samples[t]) + "\n" for t in order))
    assert (printed["time"], printed["forced"]) == (8, True)
    np.testing.assert_allclose(printed["scores"], clf.scores(0.01 * X[:1])[0, -1], atol=1e-4)
    assert "3 late or repeated" in err


def test_rearmed_streams_decide_again(folder):
    sure = json.dumps({"key": "a", "x": [30.0, 0.0]}) + "\n"
    assert len(decide(folder, 3 * sure)[0]) == 1
    assert len(decide(folder, 3 * sure, "--rearm")[0]) == 3


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (["--output-format", "xml"], "`--output-format` must be one of 'json', 'csv'"),
        (["--input-format", "xml"], "`--input-format` must be one of"),
        (["--on-idle", "wait"], "`--on-idle` must be one of 'force', 'drop'"),
        (["--on-idle", "drop"], "--on-idle can only be used with --idle"),
        (["--idle", "0"], "`--idle` must be in"),
        (["--max-line", "1"], "`--max-line` must be >= 100"),
        (["--channels", "u"], "--channels must name the 2 channel(s) of the model"),
        (["--drop", "u", "--echo", "u"], "u occurs twice"),
        (["--layout", "channels-first"], "--layout can only be used with .npz and .npy files"),
        (["--input", "absent.jsonl"], "absent.jsonl does not exist"),
        (["--input", "."], ". is a folder"),
    ],
)
def test_wrong_options_are_refused(folder, refusal, options, reported):
    assert reported in refusal("decide", folder / "model", *options)
