"""`stopwise decide --state`: restarts, signals, locks, closed pipes, full disks and idle streams."""

import json
import os
import signal
import time
from contextlib import suppress

import pytest

from decide_helpers import ENDS, check, decide, lines, start


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


@pytest.mark.usefixtures("default_signals")
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


def test_sequence_numbers_survive_a_restart(folder, tmp_path):
    line = '{"key": "a", "x": [0, 0], "seq": 5}\n'
    decide(folder, line, "--state", tmp_path)
    _, err = decide(folder, line, "--state", tmp_path)
    assert "0 samples (0 after a decision), 1 late or repeated" in err


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


def wait_for(path):
    for _ in range(600):
        if os.path.exists(path):
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} was not created")
