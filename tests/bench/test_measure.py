"""Measurements of the benchmark, and the command `stopwise bench`."""

import json
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from stopwise import cli
from stopwise.bench import figures
from stopwise.bench.measure import Figure, child_peak_megabytes, race


def test_race_measures_the_slower_function_as_slower():
    ours, theirs = race(lambda: time.sleep(0.004), lambda: time.sleep(0.001), turns=5, warm_up=1)
    assert ours.shape == theirs.shape == (5,)
    assert np.median(ours) > np.median(theirs)


def test_peak_memory_excludes_the_setup():
    held = child_peak_megabytes("import numpy as np; x = np.ones(12_500_000)", "y = np.ones(6_250_000)")
    assert 40 < held < 70  # 50 MB; the 100 MB of the setup are not counted


def test_failing_child_process_raises_with_its_error():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        child_peak_megabytes("", "1 / 0")


@pytest.mark.parametrize(
    ("better", "value", "passed", "aimed"),
    [
        ("lower", 1.2, True, False),
        ("lower", 0.9, True, True),
        ("higher", 0.9, False, False),
        ("lower", 2, False, False),
    ],
)
def test_figure_is_compared_with_bar_and_aim(better, value, passed, aimed):
    figure = Figure("f", value, value, value, bar=1.5 if better == "lower" else 1.0, aim=1.0, better=better)
    assert figure.passed is passed
    assert figure.reaches(figure.aim) is aimed


def bench(monkeypatch, tmp_path, value):
    monkeypatch.setattr(
        figures, "FIGURES", {"made-up": lambda: Figure("Made up", value, 0.5, 2, 1.5, 1, "lower")}
    )
    result = CliRunner().invoke(cli.app, ["bench", "--json", str(tmp_path / "bench.json")])
    return result, json.loads((tmp_path / "bench.json").read_text())


def test_command_writes_the_figures(monkeypatch, tmp_path):
    result, reported = bench(monkeypatch, tmp_path, 1.25)
    assert result.exit_code == 0
    assert "1.25" in result.output
    figure = reported["figures"][0]
    assert {name: figure[name] for name in ("name", "value", "bar", "aim", "better")} == {
        "name": "made-up",
        "value": 1.25,
        "bar": 1.5,
        "aim": 1,
        "better": "lower",
    }
    assert reported["machine"]["torch"]


def test_missed_bar_gives_exit_code_1(monkeypatch, tmp_path):
    assert bench(monkeypatch, tmp_path, 1.75)[0].exit_code == 1


def test_values_of_an_earlier_version_are_kept_and_shown(monkeypatch, tmp_path):
    before = {"version": "0.1.0", "value": 2.5, "low": 2.0, "high": 3.0, "note": ""}
    rows = [{"name": "made-up", "value": 9.0, "before": before}, {"name": "other", "value": 7.0}]
    (tmp_path / "bench.json").write_text(json.dumps({"figures": rows, "machine": {}}))
    for value in (1.25, 1.0):
        result, reported = bench(monkeypatch, tmp_path, value)
        assert "2.5 ×" in result.output
        assert f"0.1.0 {value / 2.5 - 1:+.0%}" in result.output
        figures = {figure["name"]: figure for figure in reported["figures"]}
        assert (figures["made-up"]["value"], figures["made-up"]["before"]) == (value, before)
        assert figures["other"] == rows[1]


def test_there_is_no_column_without_an_earlier_version(monkeypatch, tmp_path):
    for _ in range(2):
        result, reported = bench(monkeypatch, tmp_path, 1.25)
        assert "before" not in result.output
        assert "before" not in reported["figures"][0]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"figures": [{}]}', '{"figures": [{"name": "f", "before": {}}]}']
)
def test_another_file_is_not_overwritten(monkeypatch, tmp_path, text):
    (tmp_path / "bench.json").write_text(text)
    monkeypatch.setattr(figures, "FIGURES", {"made-up": lambda: pytest.fail("measured")})
    result = CliRunner().invoke(cli.app, ["bench", "--out", str(tmp_path / "bench.json")])
    assert "one that `stopwise bench` wrote" in str(result.exception)
    assert (tmp_path / "bench.json").read_text() == text


def test_unknown_figure_raises():
    result = CliRunner().invoke(cli.app, ["bench", "--only", "sat-tim"])
    assert "Did you mean 'sat-time'" in str(result.exception)
