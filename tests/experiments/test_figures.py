"""End-to-end reproductions, at sizes that take seconds."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from stopwise import plots
from stopwise.cli import app
from stopwise.datasets import gaussian
from stopwise.experiments import fig2, guarantees, models, presets
from stopwise.experiments.conditions import BY_TRUTH, CONDITIONS, job, name_of, values
from stopwise.experiments.limits import limit
from stopwise.experiments.models import tuned
from stopwise.experiments.result_file import read_records
from stopwise.experiments.runs import TEST_SEED, run
from stopwise.metrics import llr_error
from stopwise.models import Training
from stopwise.models.networks.training import order_search as orders
from stopwise.rules import SPRT

TINY = presets.Preset(
    channels=3, length=4, train=40, validation=20, test=20, epochs=1, checks=2, large=80, data_steps=1,
    repeats=1, small_repeats=1, main_repeats=2, search_train=20, search_epochs=1,
)  # fmt: skip


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
FAMILIES = [
    {"fig2": 2, "fig1": 4, "fig5": 3, "main": 4, "alpha": 1},
    {"drift": 1},
    {"precision": 7},
    {"guarantees": 1},
]


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
    refused = CliRunner().invoke(app, ["reproduce", "fig1", "--world", "a2"])
    assert refused.exit_code == 2
    assert "can only be used with fig2, main, drift," in refused.output


def test_unknown_figure_or_preset_raises():
    assert "'fig1'" in str(CliRunner().invoke(app, ["reproduce", "fig9"]).exception)
    assert "'quick'" in str(CliRunner().invoke(app, ["reproduce", "fig1", "--preset", "big"]).exception)


def test_paper_preset_has_the_sizes_of_the_paper():
    paper = presets.preset("paper")
    assert (paper.channels, paper.length) == (128, 50)
    assert (paper.train, paper.validation, paper.test) == (80_000, 10_000, 10_000)
    assert (paper.large, paper.repeats, paper.small_repeats, paper.main_repeats) == (1_000_000, 10, 10, 10)
    assert presets.PRESETS["medium"].repeats == 5
    assert presets.PRESETS["medium"].small_repeats == 3


def test_numbers_of_series_are_compared_at_equal_steps():
    """One million series train for as many steps as 80 000, at the size of the paper."""
    paper, found = presets.preset("paper"), {}
    few, large = (next(one for one in CONDITIONS if one.name == name) for name in ("few", "large"))
    jobs = [job("a2", {}, "TANDEMformer", one, 0, found, paper).arguments for one in (few, large)]
    assert [one["sizes"]["train"] for one in jobs] == [80_000, 1_000_000]
    assert jobs[0]["settings"] == jobs[1]["settings"]
    settings = jobs[0]["settings"]
    assert settings["training.max_epochs"] * settings["training.epoch_series"] == 6400 * presets.BATCH
    assert Training().batch_size == presets.BATCH


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
    results[name_of("a2", "TANDEMformer", "decay-0.001", 0)]["by_truth"] = {"llr_error": 0.5}
    assert values(results, "a2", "TANDEMformer", "decay-0.001", f"{BY_TRUTH}llr_error") == [0.5]


def test_second_choice_of_the_epoch_is_shown_if_all_runs_of_a_world_have_it():
    results = {
        "a2_TANDEMformer_main_0": {"llr_error": 1.0, "by_truth": {}},
        "a2_TANDEMformer_main_1": {"diverged": "inf"},
        "a1_TANDEMformer_main_0": {"llr_error": 1.0, "by_truth": {}},
        "a1_TANDEMformer_main_1": {"llr_error": 1.0},
    }
    assert fig2.has_second_choice(results, "a2")
    assert not fig2.has_second_choice(results, "a1")


def test_every_condition_runs_with_its_models():
    world = {"kind": "gaussian", "channels": 3, "length": 4}
    sizes = {"train": 20, "validation": 10, "test": 10}
    for condition in CONDITIONS:
        for model in condition.model_names:
            settings = tuned(model, {"training.max_epochs": 1}, condition.changes)
            assert run(world, sizes, settings)["llr_error"] > 0


def test_diverged_run_is_reported():
    result = run(
        {"kind": "gaussian", "channels": 2, "length": 3},
        {"train": 20, "validation": 10, "test": 10},
        {"model": "b2bsqrt", "order": None, "training.learning_rate": 1e30, "training.max_epochs": 3},
    )
    assert "diverged" in result


SMALL_WORLD = {"kind": "gaussian", "channels": 2, "length": 6, "offset": 2.0}
SMALL_SIZES = {"train": 200, "validation": 100, "test": 80}


def test_run_reports_both_choices_of_the_epoch(monkeypatch):
    settings = {"model": "b2bsqrt", "order": None, "llre_ratio": 1.0, "polish": False, "hidden": 8}
    settings |= {"training.learning_rate": 0.1, "training.max_epochs": 6, "training.epoch_series": 100}
    result = run(SMALL_WORLD, SMALL_SIZES, settings)
    watched, by_truth = result["watched"], result["by_truth"]
    assert watched["validation_loss"] == pytest.approx(result["training_validation_losses"], abs=1e-6)
    assert len(watched["llr_error"]) == len(watched["slope"]) == 6
    best = int(np.argmin(watched["llr_error"])) + 1
    assert by_truth["epoch"] in (best, None)
    # The error on validation series of the chosen weights is the smallest: draw the test series from there.
    monkeypatch.setattr("stopwise.experiments.runs.TEST_SEED", 2)
    again = run(SMALL_WORLD, SMALL_SIZES | {"test": 100}, settings)
    assert again["by_truth"]["llr_error"] == pytest.approx(min(watched["llr_error"]), rel=1e-4)


def test_export_writes_scores_labels_and_stopping_times(tiny, tmp_path):
    command = ["reproduce", "fig5", "--out", str(tmp_path), "--workers", "1"]
    assert CliRunner().invoke(app, command).exit_code == 0
    before = read_records(tmp_path / "quick.jsonl")
    # Finished runs have no scores on disk, so that they run again; the results are the same.
    folder = tmp_path / "scores"
    result = CliRunner().invoke(app, [*command, "--export", str(folder)])
    assert result.exit_code == 0, result.output
    after = read_records(tmp_path / "quick.jsonl")
    for name in after:
        if not name.startswith("a2-3classes"):
            continue
        with np.load(folder / f"{name}.npz") as stored:
            found = dict(stored)
        _, y, truth = gaussian(20, seed=TEST_SEED, channels=3, length=4, offset=2.0, classes=3)
        assert (found["labels"] == y).all()
        assert np.allclose(found["true_scores"], truth)
        assert llr_error(found["scores"].astype(float), truth).mean_abs == pytest.approx(
            before[name]["result"]["llr_error"], rel=1e-4
        )
        for threshold, times, labels in zip(found["thresholds"], found["stopping_times"], found["decided"]):
            decisions = SPRT(float(threshold)).decide(found["scores"].astype(float))
            assert (decisions.times == times).all()
            assert (decisions.labels == labels).all()
    written = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert len(written) == len(models.MODELS)
    assert CliRunner().invoke(app, [*command, "--export", str(folder)]).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == written


OWN_MODEL = """
import stopwise as sw
MODELS = {"small tanh": lambda training: sw.models.TanhTandem(order=1, hidden=4, llre_ratio=1.0,
                                                              polish=False, training=training)}
"""


def test_model_from_a_file_joins_the_figures(tiny, tmp_path):
    (tmp_path / "own.py").write_text(OWN_MODEL)
    known = set(models.MODELS)
    command = ["reproduce", "main", "--world", "a2", "--out", str(tmp_path), "--workers", "1"]
    result = CliRunner().invoke(app, [*command, "--add", str(tmp_path / "own.py")])
    assert result.exit_code == 0, result.output
    table = json.loads((tmp_path / "main-quick.json").read_text())["a2"]
    assert set(table["models"]) == known | {"small tanh"}
    assert "small tanh" in table["p"]
    assert set(models.MODELS) == known
    record = read_records(tmp_path / "quick.jsonl")[name_of("a2", "small tanh", "main", 0)]
    assert record["arguments"]["settings"]["training.learning_rate"] in models.RATES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MODELS = 3", "must define MODELS"),
        ("", "must define MODELS"),
        ("MODELS = {'accumulator': print}", "which exists"),
        (None, "must be a Python file"),
    ],
)
def test_bad_file_of_models_raises(text, message, tmp_path):
    path = tmp_path / "own.py"
    if text is not None:
        path.write_text(text)
    result = CliRunner().invoke(app, ["reproduce", "main", "--add", str(path), "--out", str(tmp_path)])
    assert message in str(result.exception)


def test_drift_runs_one_condition_and_keeps_the_others(tiny, tmp_path):
    command = ["reproduce", "drift", "--out", str(tmp_path), "--workers", "1", "--condition"]
    for condition in ("rate-0.001", "alpha-10"):
        result = CliRunner().invoke(app, [*command, condition, "--repeats", "2"])
        assert result.exit_code == 0, result.output
    table = json.loads((tmp_path / "drift-a2-quick.json").read_text())
    assert {name: row["runs"] for name, row in table.items()} == {"rate-0.001": 2, "alpha-10": 2}
    records = read_records(tmp_path / "drift-a2-quick.jsonl")
    runs = [records[f"alpha-10_{i}"]["result"]["by_truth"]["llr_error"] for i in (0, 1)]
    assert table["alpha-10"]["by_truth"]["llr_error"]["mean"] == pytest.approx(np.mean(runs))
    assert records["alpha-10_0"]["arguments"]["settings"]["alpha"] == 10
    assert {one["arguments"]["world"]["offset"] for one in records.values()} == {2.0}


def test_drift_of_another_world_has_files_of_its_own(tiny, tmp_path):
    command = ["reproduce", "drift", "--out", str(tmp_path), "--workers", "1", "--condition", "rate-0.001"]
    refused = CliRunner().invoke(app, [*command, "--world", "a1", "--world", "a3"])
    assert "`--world` must be one of" in str(refused.exception)
    assert not list(tmp_path.iterdir())  # the error comes before the first run
    scores = ["--export", str(tmp_path / "scores")]
    assert CliRunner().invoke(app, [*command, "--world", "a1", *scores]).exit_code == 0
    assert {path.name for path in tmp_path.glob("drift-*")} == {
        f"drift-a1-quick.{kind}" for kind in ("json", "jsonl", "png", "svg")
    }
    (record,) = read_records(tmp_path / "drift-a1-quick.jsonl").values()
    assert record["arguments"]["world"]["offset"] == 1.0
    assert [path.name for path in (tmp_path / "scores").iterdir()] == ["a1_rate-0.001_0.npz"]


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


def test_conditions_without_runs_are_not_drawn():
    runs, none = {"accumulator": [1.0]}, {"accumulator": []}
    cells = {"a2": {"weight decay": {"0": runs, "0.1": none, "1": none}}}
    cells["a1"] = {"weight decay": {"0": none, "0.1": none, "1": runs}}
    shown = fig2._with_runs(cells)
    assert {world: list(panels["weight decay"]) for world, panels in shown.items()} == {
        "a2": ["0", "1"],
        "a1": ["0", "1"],
    }
