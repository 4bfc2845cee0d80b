"""`stopwise decide`: decisions, invalid lines, interrupts and restarts."""

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


def decide(folder, text, *options):
    """Run the command in this process, with `text` as standard input."""
    result = CliRunner().invoke(app, ["decide", str(folder / "model"), *map(str, options)], input=text)
    assert result.exit_code == 0, result.output
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
    assert err == ""


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
    assert [line.split(":")[1] for line in err.splitlines()] == [f" line {n} skipped" for n in (4, 5, 6)]


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
def test_an_interrupt_saves_the_states(folder, tmp_path):
    with start(folder, "--state", tmp_path) as process:
        process.stdin.write('{"key": "a", "x": [0, 0]}\nnonsense\n')
        process.stdin.flush()
        process.stderr.readline()  # the invalid line was read, so the sample before it was read too
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert (tmp_path / "streams.safetensors").exists()


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


def wait_for(path):
    for _ in range(600):
        if os.path.exists(path):
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} was not created")
