"""`stopwise decide`: decisions, invalid lines, interrupts and restarts."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest
from typer.testing import CliRunner

import stopwise as sw
from helpers import early
from stopwise.cli import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("decide")
    X, y, _ = sw.datasets.gaussian(200, offset=1.0, channels=2, length=8, seed=0)
    rule = sw.SPRT(2.5)
    early(order=1, max_epochs=2, rule=rule).fit(X, np.array(["no", "yes"])[y]).save(path / "model")
    return path


@pytest.fixture(scope="module")
def clf(folder):
    return sw.load(folder / "model")


@pytest.fixture(scope="module")
def X():
    return sw.datasets.gaussian(6, offset=1.0, channels=2, length=8, seed=1)[0]


def start(folder, *options):
    command = [sys.executable, "-m", "stopwise", "decide", str(folder / "model"), *map(str, options)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def decide(folder, text, *options, code=0):
    """Run the command in this process, with `text` as standard input."""
    result = CliRunner().invoke(app, ["decide", str(folder / "model"), *map(str, options)], input=text)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    if "csv" in options:
        return list(csv.DictReader(io.StringIO(result.stdout))), result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def lines(X):
    """Return the samples of all series as JSON lines, ordered by time."""
    places = [(t, i) for t in range(X.shape[1]) for i in range(len(X))]
    return "".join(json.dumps({"key": f"s{i}", "x": X[i, t].tolist()}) + "\n" for t, i in places)


ENDS = "".join(f'{{"key": "s{i}", "end": true}}\n' for i in range(6))


def check(printed, clf, X):
    expected = clf.decide(X)
    assert {one["key"] for one in printed} == {f"s{i}" for i in range(len(X))}
    for one in printed:
        decision = expected[int(one["key"][1:])]
        assert (one["label"], one["time"], one["forced"]) == (decision.label, decision.time, decision.forced)
        np.testing.assert_allclose(one["scores"], decision.scores, rtol=1e-4, atol=1e-4)


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


def test_a_restart_resumes_from_the_saved_states(folder, clf, X, tmp_path):
    text = lines(X).splitlines(keepends=True)
    first, _ = decide(folder, "".join(text[:15]), "--state", tmp_path)
    rest, err = decide(folder, "".join(text[15:]) + ENDS, "--state", tmp_path)
    check(first + rest, clf, X)
    assert "resuming 6 streams as they were after sample 15" in err


def test_a_killed_run_loses_only_samples_after_the_last_save(folder, clf, X, tmp_path):
    text = lines(X).splitlines(keepends=True)
    process = start(folder, "--state", tmp_path, "--save-every", 6)
    process.stdin.write("".join(text[:14]))
    process.stdin.flush()
    wait_for(tmp_path / "streams.safetensors")
    time.sleep(1.0)
    process.kill()
    first = [json.loads(line) for line in process.communicate()[0].splitlines()]
    rest, err = decide(folder, "".join(text[12:]) + ENDS, "--state", tmp_path)
    assert "after sample 12" in err
    printed = {one["key"]: one for one in rest} | {one["key"]: one for one in first}
    check(list(printed.values()), clf, X)


@pytest.mark.usefixtures("default_sigint")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_the_states(folder, tmp_path, number):
    with start(folder, "--state", tmp_path) as process:
        process.stdin.write('{"key": "a", "x": [0, 0]}\nnonsense\n')
        process.stdin.flush()
        process.stderr.readline()  # the invalid line was read, so the sample before it was read too
        process.send_signal(number)
        assert process.wait(timeout=60) == 128 + number
        counts, message = process.stderr.read().splitlines()
    assert counts.startswith("stopwise: 1 samples")
    assert message == "stopwise: interrupted"
    _, err = decide(folder, "", "--state", tmp_path)
    assert "resuming 1 streams as they were after sample 1" in err


def test_a_second_run_on_the_same_states_is_refused(folder, tmp_path, refusal):
    with start(folder, "--state", tmp_path / "states") as process:
        process.stdin.write('{"key": "a", "x": [0, 0]}\nnonsense\n')
        process.stdin.flush()
        process.stderr.readline()
        (tmp_path / "samples.jsonl").write_text("[1, 2]\n")
        options = ["--input", tmp_path / "samples.jsonl", "--state", tmp_path / "states"]
        assert "is in use by another process" in refusal("decide", folder / "model", *options)
        process.kill()  # the kernel releases the lock
        process.wait(timeout=60)
    decide(folder, "[1, 2]\n", "--state", tmp_path / "states")


def test_decisions_that_could_not_be_written_are_written_by_the_next_run(folder, tmp_path):
    with start(folder, "--state", tmp_path) as process:
        process.stdout.close()
        process.stdin.write(json.dumps({"key": "a", "x": [30.0, 0.0]}) + "\n")
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    (printed,), _ = decide(folder, "", "--state", tmp_path)
    assert printed["key"] == "a"
    assert decide(folder, "", "--state", tmp_path)[0] == []


def test_a_save_that_fails_does_not_end_the_run(folder, clf, X, tmp_path, monkeypatch):
    from stopwise.persistence import tensors

    write, calls = tensors.write, []

    def full_disk(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        write(*arguments)

    monkeypatch.setattr(tensors, "write", full_disk)
    printed, err = decide(folder, lines(X) + ENDS, "--state", tmp_path, "--save-every", 10)
    check(printed, clf, X)
    assert err.count("could not be saved") == 1
    assert len(calls) == 6


def test_a_closed_output_pipe_exits_with_code_0(folder):
    with start(folder) as process:
        process.stdout.close()
        sure = "".join(json.dumps({"key": i, "x": [30.0, 0.0]}) + "\n" for i in range(50))
        with suppress(BrokenPipeError):
            process.stdin.write(sure)
            process.stdin.flush()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""
        with suppress(BrokenPipeError):
            process.stdin.close()


def test_a_damaged_state_raises_and_is_not_overwritten(folder, tmp_path, refusal):
    (tmp_path / "samples.jsonl").write_text('{"x": [0, 0]}\n')
    (tmp_path / "streams.safetensors").write_bytes(b"rubbish")
    options = ["--input", tmp_path / "samples.jsonl", "--state", tmp_path]
    assert "damaged" in refusal("decide", folder / "model", *options)
    assert (tmp_path / "streams.safetensors").read_bytes() == b"rubbish"


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


def test_sequence_numbers_survive_a_restart(folder, tmp_path):
    line = '{"key": "a", "x": [0, 0], "seq": 5}\n'
    decide(folder, line, "--state", tmp_path)
    _, err = decide(folder, line, "--state", tmp_path)
    assert "0 samples (0 after a decision), 1 late or repeated" in err


def test_rearmed_streams_decide_again(folder):
    sure = json.dumps({"key": "a", "x": [30.0, 0.0]}) + "\n"
    assert len(decide(folder, 3 * sure)[0]) == 1
    assert len(decide(folder, 3 * sure, "--rearm")[0]) == 3


@pytest.mark.parametrize(("what", "printed"), [("force", True), ("drop", False)])
def test_idle_streams_are_forced_or_dropped_while_no_line_arrives(folder, what, printed):
    with start(folder, "--idle", 0.2, "--on-idle", what) as process:
        process.stdin.write('{"key": "a", "x": [0, 0]}\n')
        process.stdin.flush()
        if printed:
            assert json.loads(process.stdout.readline())["forced"]  # while standard input is still open
        else:
            assert "was dropped after 1 samples: it was idle" in process.stderr.readline()
        process.stdin.close()
        assert process.wait(timeout=60) == 0
        assert ("1 streams dropped" in process.stderr.read()) is not printed


def test_decisions_as_csv(folder, clf, X):
    text = lines(X).replace('"key": "s0"', '"ts": 7, "key": "s0"')
    rows, _ = decide(folder, text, "--output-format", "csv")
    printed, _ = decide(folder, text)
    for row, one in zip(rows, printed, strict=True):
        assert (row["key"], row["label"], int(row["time"])) == (one["key"], one["label"], one["time"])
        assert row["forced"] == str(one["forced"]).lower()
        assert [float(row["score_no"]), float(row["score_yes"])] == one["scores"]
        assert (row["model"], row["schema"]) == (one["model"], "1")
        assert row["input"] == ('{"ts": 7}' if row["key"] == "s0" else "")


@pytest.mark.parametrize("name", ["all.csv", "all.npz", "all_X.npy", "all"])
def test_files_of_series_are_decided_like_streams(folder, clf, X, tmp_path, name):
    y = np.arange(6) % 2
    sw.datasets.write(tmp_path / name, X, y)
    printed, err = decide(folder, None, "--input", tmp_path / name)
    for i, (one, decision) in enumerate(zip(printed, clf.decide(X), strict=True)):
        assert str(one["key"]) == str(i)
        assert (one["label"], one["time"], one["forced"]) == (decision.label, decision.time, decision.forced)
        assert one["input_label"] == y[i]
    assert err.startswith("stopwise: 48 samples (")


def test_a_ts_file_and_series_that_cannot_be_used(folder, clf, X, tmp_path):
    rows = [":".join(",".join(map(str, channel)) for channel in x.T) for x in X]
    rows[2] = "?" + rows[2][rows[2].index(",") :]
    (tmp_path / "all.ts").write_text("@classLabel false\n@data\n" + "\n".join(rows))
    printed, err = decide(folder, None, "--input", tmp_path / "all.ts")
    assert [one["key"] for one in printed] == [0, 1, 3, 4, 5]
    assert "series 2 skipped: `X` must be finite" in err
    assert err.endswith("1 lines rejected\n")


def test_long_form_csv_as_lines(folder, clf, X, tmp_path):
    sw.datasets.write(tmp_path / "all.csv", X)
    printed, _ = decide(folder, (tmp_path / "all.csv").read_text())
    assert {int(one["key"]): one["time"] for one in printed} == dict(enumerate(clf.decide(X).times.tolist()))


def test_channels_are_matched_by_name(X, tmp_path):
    names, (train, y, _) = ["acc_x", "acc_y"], sw.datasets.gaussian(60, channels=2, length=8, seed=0)
    clf = early(order=0, max_epochs=1, rule=sw.SPRT(50.0)).fit(sw.SeriesSet(train, channel_names=names), y)
    clf.save(tmp_path / "model")
    expected = clf.scores(X[:1])[0, -1]
    swapped = "".join(json.dumps({"x": {"acc_y": v, "acc_x": u}}) + "\n" for u, v in X[0].tolist())
    table = "acc_y,ts,acc_x\n" + "".join(f"{v},now,{u}\n" for u, v in X[0].tolist())
    for text, options in ((swapped, []), (table, ["--echo", "ts"]), (table, ["--drop", "ts"])):
        (printed,), _ = decide(tmp_path, text, *options)
        np.testing.assert_allclose(printed["scores"], expected, atol=1e-4)
    for text, reason in (
        ('{"x": {"acc_x": 1, "acc_z": 2}}', "unknown: acc_z; missing: acc_y"),
        ("acc_x,acc_z\n1,2\n", "unknown: acc_z; missing: acc_y"),
        (table, "unknown: ts; missing: none"),
    ):
        assert reason in decide(tmp_path, text, code=1)[1]


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (["--output-format", "xml"], "`--output-format` must be one of 'json', 'csv'"),
        (["--input-format", "xml"], "`--input-format` must be one of"),
        (["--on-idle", "wait"], "`--on-idle` must be one of 'force', 'drop'"),
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


def test_options_of_streams_are_refused_for_files_of_series(folder, X, tmp_path, refusal):
    sw.datasets.write(tmp_path / "all.npz", X)
    options = ["--input", tmp_path / "all.npz", "--rearm"]
    assert "can only be used with lines of samples" in refusal("decide", folder / "model", *options)


def wait_for(path):
    for _ in range(600):
        if os.path.exists(path):
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} was not created")
