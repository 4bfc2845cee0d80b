"""Helpers for the tests of `stopwise decide`."""

import csv
import io
import json
import subprocess
import sys

import numpy as np
from typer.testing import CliRunner

from stopwise.cli import app


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
