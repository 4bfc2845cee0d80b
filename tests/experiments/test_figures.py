"""The reproductions, end to end, at a size that takes seconds."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from stopwise.cli import app
from stopwise.experiments import fig2, guarantees, models, presets
from stopwise.experiments.conditions import CONDITIONS, name_of, values
from stopwise.experiments.limits import limit
from stopwise.experiments.models import MODELS, tuned
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
        monkeypatch.setitem(model["settings"], "max_epochs", 2)


PICTURES = {"fig1": 2, "fig2": 1, "fig5": 3, "main": 2, "precision": 7, "guarantees": 1}


@pytest.mark.parametrize("figure", PICTURES)
def test_a_figure_is_made_and_a_finished_one_is_only_drawn_again(figure, tiny, tmp_path):
    command = ["reproduce", figure, "--out", str(tmp_path), "--workers", "1"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert len(list(tmp_path.glob("*.png"))) == PICTURES[figure]
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*/*.json")}
    assert made
    assert CliRunner().invoke(app, command).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*/*.json")} == made
    if figure == "fig2":
        check_table(tmp_path)


def check_table(folder):
    """The table of figure 2 has the means of the runs."""
    table = json.loads((folder / "fig2-quick.json").read_text())
    for shown, condition, repeats in (("off", "main", 2), ("on", "norm", 1)):
        cell = table["a2"]["panels"]["LayerNorm"][shown]["B2Bsqrt-TANDEM"]
        files = [folder / "quick" / f"a2_B2Bsqrt-TANDEM_{condition}_{i}.json" for i in range(repeats)]
        runs = [json.loads(file.read_text())["result"]["llr_error"] for file in files]
        assert cell["mean"] == pytest.approx(np.mean(runs), abs=1e-4)
        assert cell["runs"] == repeats


def test_pooling_is_tested_against_its_rivals():
    runs = {"NSP": [2.0, 2.1], "GAP": [20.0, 20.1], "token": [19.0, 19.2]}
    panels = {"pooling": {name: {"TANDEMformer": errors} for name, errors in runs.items()}}
    assert fig2._tests(panels)["pooling"]["NSP"]["TANDEMformer"] < 0.001
    assert fig2._starred(fig2._tests(panels)) == {"pooling": ["NSP"]}


@pytest.mark.parametrize(("figure", "one", "other"), [("main", "a1", "a2"), ("precision", "ar1", "ar2")])
def test_one_world_alone_leaves_the_others_in_the_table(figure, one, other, tiny, tmp_path):
    (tmp_path / f"{figure}-quick.json").write_text(json.dumps({other: "as it was"}))
    command = ["reproduce", figure, "--world", one, "--out", str(tmp_path), "--workers", "1"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    table = json.loads((tmp_path / f"{figure}-quick.json").read_text())
    assert table[other] == "as it was"
    assert set(table) == {one, other}


def test_a_world_that_is_not_there_is_told(tiny, tmp_path):
    for figure in ("main", "precision"):
        command = ["reproduce", figure, "--world", "a3", "--out", str(tmp_path)]
        assert "`--world` must be one of" in str(CliRunner().invoke(app, command).exception)
    refused = CliRunner().invoke(app, ["reproduce", "fig2", "--world", "a2"])
    assert refused.exit_code == 2
    assert "main and precision alone" in refused.output


def test_an_unknown_figure_or_preset_is_told():
    assert "'fig1'" in str(CliRunner().invoke(app, ["reproduce", "fig9"]).exception)
    assert "'quick'" in str(CliRunner().invoke(app, ["reproduce", "fig1", "--preset", "big"]).exception)


def test_the_paper_preset_has_the_papers_sizes():
    paper = presets.preset("paper")
    assert (paper.dim, paper.length, paper.train, paper.validation, paper.test) == (
        128,
        50,
        80_000,
        10_000,
        10_000,
    )
    assert (paper.large, paper.repeats, paper.main_repeats) == (1_000_000, 10, 10)


def test_conditions_join_what_the_search_found_and_what_is_changed():
    found = {"learning_rate": 0.01, "model_params": {"window": 4}}
    settings = tuned("accumulator", found, model_params={"layer_norm": True})
    assert settings["model_params"] == {"body": "window", "window": 4, "layer_norm": True}
    assert settings["order"] is None
    assert MODELS["accumulator"]["model_params"] == {"body": "window", "window": 1}


def test_names_of_conditions_are_not_taken_for_each_other():
    results = {
        name_of("a2", "TANDEMformer", "decay-0.001", 0): {"llr_error": 1.0},
        name_of("a2", "TANDEMformer", "decay-0.001", 10): {"llr_error": 2.0},
        name_of("a2", "TANDEMformer", "decay-0.0001", 0): {"llr_error": 9.0},
        name_of("a2", "TANDEMformer", "decay-0.001", 2): {"diverged": "inf"},
    }
    assert values(results, "a2", "TANDEMformer", "decay-0.001", "llr_error") == [1.0, 2.0]


def test_every_condition_is_one_the_models_take():
    world = {"kind": "gaussian", "dim": 3, "length": 4}
    sizes = {"train": 20, "validation": 10, "test": 10}
    for condition in CONDITIONS:
        for model in condition.models:
            settings = tuned(model, {}, max_epochs=1, **condition.changes)
            assert run(world, sizes, settings)["llr_error"] > 0


def test_a_diverged_run_is_told_and_not_hidden():
    told = run(
        {"kind": "gaussian", "dim": 2, "length": 3},
        {"train": 20, "validation": 10, "test": 10},
        {"model": "b2bsqrt", "order": None, "learning_rate": 1e30, "max_epochs": 3},
    )
    assert "diverged" in told


def test_a_search_never_sees_test_series():
    told = run(
        {"kind": "gaussian", "dim": 2, "length": 3},
        {"train": 20, "validation": 10},
        {"order": 0, "max_epochs": 1},
        judge="validation",
    )
    assert "llr_error" not in told


@pytest.mark.parametrize("kind", ["longest", "single"])
def test_the_limit_falls_with_the_number_of_series(kind):
    few, many = (limit(kind, 1.0, dim=4, length=10, train=n, test=500)["llr_error"] for n in (300, 10_000))
    assert many < few / 2
