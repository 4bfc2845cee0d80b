"""End-to-end reproductions, at sizes that take seconds."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from stopwise import plots
from stopwise.cli import app
from stopwise.experiments import fig2, guarantees, models, presets
from stopwise.experiments.conditions import CONDITIONS, name_of, values
from stopwise.experiments.limits import limit
from stopwise.experiments.models import tuned
from stopwise.experiments.result_file import read_records
from stopwise.experiments.runs import run
from stopwise.models.networks.training import order_search as orders

TINY = presets.Preset(3, 4, 40, 20, 20, 1, 80, 1, 2, 20, 1)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(presets.PRESETS, "quick", TINY)
    monkeypatch.setattr(models, "RATES", (3e-3, 1e-3))
    monkeypatch.setattr(orders, "CANDIDATES", (0, 1))
    monkeypatch.setitem(guarantees.SIZES, "quick", (80, 400, 300, 2))
    monkeypatch.setitem(guarantees.WORLD, "offset", 2.0)
    for model in guarantees.MODELS.values():
        monkeypatch.setitem(model["settings"], "training.max_epochs", 2)


# Each dict lists figures that share runs, with their numbers of pictures.
FAMILIES = [{"fig2": 1, "fig1": 2, "fig5": 3, "main": 2}, {"precision": 7}, {"guarantees": 1}]


@pytest.mark.parametrize("figures", FAMILIES, ids=" ".join)
def test_figures_are_drawn_and_finished_runs_are_not_repeated(figures, tiny, tmp_path, monkeypatch):
    def reproduce(figure):
        command = ["reproduce", figure, "--out", str(tmp_path), "--workers", "1"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output

    for figure, pictures in figures.items():
        before = set(tmp_path.glob("*.png"))
        reproduce(figure)
        assert len(set(tmp_path.glob("*.png")) - before) == pictures
    results = {path: path.read_bytes() for path in tmp_path.glob("*.jsonl")}
    assert results
    monkeypatch.setattr(plots, "save", lambda figure, stem: [stem])  # drawing is the slow part
    for figure in figures:
        reproduce(figure)
    assert {path: path.read_bytes() for path in tmp_path.glob("*.jsonl")} == results
    if "fig2" in figures:
        check_table(tmp_path)


def check_table(folder):
    """Check that the table of figure 2 holds the means of the runs."""
    table = json.loads((folder / "fig2-quick.json").read_text())
    records = read_records(folder / "quick.jsonl")
    for shown, condition, repeats in (("off", "main", 2), ("on", "norm", 1)):
        cell = table["a2"]["panels"]["LayerNorm"][shown]["B2Bsqrt-TANDEM"]
        names = [name_of("a2", "B2Bsqrt-TANDEM", condition, i) for i in range(repeats)]
        runs = [records[name]["result"]["llr_error"] for name in names]
        assert cell["mean"] == pytest.approx(np.mean(runs), abs=1e-4)
        assert cell["runs"] == repeats


def test_pooling_is_compared_with_the_other_poolings():
    runs = {"NSP": [2.0, 2.1], "GAP": [20.0, 20.1], "token": [19.0, 19.2]}
    panels = {"pooling": {name: {"TANDEMformer": errors} for name, errors in runs.items()}}
    assert fig2._tests(panels)["pooling"]["NSP"]["TANDEMformer"] < 0.001
    assert fig2._starred(fig2._tests(panels)) == {"pooling": ["NSP"]}


@pytest.mark.parametrize(("figure", "one", "other"), [("main", "a1", "a2"), ("precision", "ar1", "ar2")])
def test_running_one_world_keeps_the_others_in_the_table(figure, one, other, tiny, tmp_path):
    (tmp_path / f"{figure}-quick.json").write_text(json.dumps({other: "as it was"}))
    command = ["reproduce", figure, "--world", one, "--out", str(tmp_path), "--workers", "1"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    table = json.loads((tmp_path / f"{figure}-quick.json").read_text())
    assert table[other] == "as it was"
    assert set(table) == {one, other}


def test_unknown_world_raises(tiny, tmp_path):
    for figure in ("main", "precision"):
        command = ["reproduce", figure, "--world", "a3", "--out", str(tmp_path)]
        assert "`--world` must be one of" in str(CliRunner().invoke(app, command).exception)
    refused = CliRunner().invoke(app, ["reproduce", "fig2", "--world", "a2"])
    assert refused.exit_code == 2
    assert "can only be used with main and precision" in refused.output


def test_unknown_figure_or_preset_raises():
    assert "'fig1'" in str(CliRunner().invoke(app, ["reproduce", "fig9"]).exception)
    assert "'quick'" in str(CliRunner().invoke(app, ["reproduce", "fig1", "--preset", "big"]).exception)


def test_paper_preset_has_the_sizes_of_the_paper():
    paper = presets.preset("paper")
    assert (paper.channels, paper.length) == (128, 50)
    assert (paper.train, paper.validation, paper.test) == (80_000, 10_000, 10_000)
    assert (paper.large, paper.repeats, paper.main_repeats) == (1_000_000, 10, 10)


def test_later_settings_override_earlier_ones():
    found = {"training.learning_rate": 0.01, "order": 3}
    settings = tuned("accumulator", found, {"layer_norm": True, "polish": False})
    changes = {"training.learning_rate": 0.01, "order": 3, "layer_norm": True, "polish": False}
    assert settings == models.MODELS["accumulator"] | changes
    assert models.MODELS["accumulator"]["order"] == 0


def test_conditions_with_a_common_prefix_are_not_confused():
    results = {
        name_of("a2", "TANDEMformer", "decay-0.001", 0): {"llr_error": 1.0},
        name_of("a2", "TANDEMformer", "decay-0.001", 10): {"llr_error": 2.0},
        name_of("a2", "TANDEMformer", "decay-0.0001", 0): {"llr_error": 9.0},
        name_of("a2", "TANDEMformer", "decay-0.001", 2): {"diverged": "inf"},
    }
    assert values(results, "a2", "TANDEMformer", "decay-0.001", "llr_error") == [1.0, 2.0]


def test_every_condition_runs_with_its_models():
    world = {"kind": "gaussian", "channels": 3, "length": 4}
    sizes = {"train": 20, "validation": 10, "test": 10}
    for condition in CONDITIONS:
        for model in condition.models:
            settings = tuned(model, {"training.max_epochs": 1}, condition.changes)
            assert run(world, sizes, settings)["llr_error"] > 0


def test_diverged_run_is_reported():
    result = run(
        {"kind": "gaussian", "channels": 2, "length": 3},
        {"train": 20, "validation": 10, "test": 10},
        {"model": "b2bsqrt", "order": None, "training.learning_rate": 1e30, "training.max_epochs": 3},
    )
    assert "diverged" in result


def test_search_does_not_use_test_series():
    result = run(
        {"kind": "gaussian", "channels": 2, "length": 3},
        {"train": 20, "validation": 10},
        {"model": "accumulator", "order": 0, "training.max_epochs": 1},
        judge="validation",
    )
    assert "llr_error" not in result


@pytest.mark.parametrize(("order", "expected"), [(1, 1), (None, 3)])
def test_infinite_order_is_reported_as_the_longest(order, expected):
    result = run(
        {"kind": "gaussian", "channels": 2, "length": 4},
        {"train": 20, "validation": 10},
        {"model": "accumulator", "order": order, "training.max_epochs": 1},
        judge="validation",
    )
    assert result["order"] == expected


@pytest.mark.parametrize("kind", ["longest", "single"])
def test_limit_decreases_with_the_number_of_series(kind):
    few, many = (
        limit(kind, 1.0, channels=4, length=10, train=n, test=500)["llr_error"] for n in (300, 10_000)
    )
    assert many < few / 2
