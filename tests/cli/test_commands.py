"""The commands `train`, `evaluate` and `demo`, and error messages."""

import json
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

import stopwise as sw
from stopwise.experiments import demo, demo_speakers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli")
    for name, seed in (("train", 0), ("test", 1)):
        X, y, _ = sw.datasets.gaussian(200, offset=1.5, channels=3, length=8, seed=seed)
        sw.datasets.write(path / f"{name}.npz", X, np.array(["left", "right"])[y])
        sw.datasets.write(path / f"{name}.csv", X, np.array(["left", "right"])[y])
        sw.datasets.write(path / f"{name}_X.npy", X, y)
    return path


@pytest.fixture(scope="module")
def model(run, folder):
    run(
        "train",
        folder / "train.npz",
        "-o",
        folder / "model",
        "--model",
        "accumulator",
        "--set",
        "order=0",
        "--set",
        "training.learning_rate=0.03",
    )
    return folder / "model"


def test_train_prints_a_summary_and_the_next_command(run, folder):
    printed = run(
        "train",
        folder / "train.csv",
        "-o",
        folder / "other",
        "--model",
        "accumulator",
        "--set",
        "order=0",
        "--set",
        "training.max_epochs=2",
    )
    assert "Trained on 200 series of 2 classes: order 0, 2 epochs" in printed
    assert "stopwise evaluate" in printed


def test_train_on_npy_files_with_json_output(run, folder):
    printed = run(
        "train",
        folder / "train_X.npy",
        "-o",
        folder / "third",
        "--model",
        "accumulator",
        "--set",
        "training.max_epochs=1",
        "--json",
    )
    assert json.loads(printed)["classes"] == [0, 1]


@pytest.mark.parametrize(("word", "setting"), [("each", True), ("together", "together"), ("none", False)])
def test_train_standardize_option(run, folder, tmp_path, word, setting):
    run(
        "train",
        folder / "train.npz",
        "-o",
        tmp_path,
        "--model",
        "accumulator",
        "--set",
        "order=0",
        "--set",
        "training.max_epochs=1",
        "--standardize",
        word,
    )
    assert sw.load(tmp_path).standardize == setting


def test_train_lists_the_options_of_a_model(run):
    listed = " ".join(run("train", "--model", "tandemformer", "--options").split())
    assert all(name in listed for name in ("order", "head_size", "training.gradient_clip", '"nsp"'))
    assert "alpha" not in listed


def test_train_passes_settings_and_prior_to_the_model(run, folder, tmp_path):
    settings = ("--set", "order=1", "--set", "training.max_epochs=1", "--set", "loss=lllr")
    for prior in (("--prior", "left=0.25", "--prior", "right=0.75"), ("--prior", "left=0.25, right=0.75")):
        options = ("--model", "tanh", *settings, *prior, "--seed", 3, "--force")
        run("train", folder / "train.npz", "-o", tmp_path, *options)
        assert sw.load(tmp_path).prior == {"left": 0.25, "right": 0.75}
    clf = sw.load(tmp_path)
    assert isinstance(clf.model, sw.models.TanhTandem)
    assert (clf.model.order, clf.model.loss, clf.model.training.max_epochs) == (1, "lllr", 1)
    assert (clf.prior, clf.random_state) == ({"left": 0.25, "right": 0.75}, 3)


@pytest.mark.parametrize("arguments", [(), ("data.npz",)])
def test_missing_arguments_exit_with_code_2(run, arguments):
    assert run("train", *arguments, code=2) == ""


def test_evaluate_prints_a_table(run, folder, model):
    printed = run("evaluate", model, folder / "test.npz", "--threshold", 4, "--picture", folder / "sat")
    assert "SPRT(error_rate=0.05)" in printed
    assert "SPRT(threshold=4.0)" in printed
    assert "AUSAT" in printed
    assert "error: of all series; macro error: mean of the classes" in " ".join(printed.split())
    assert (folder / "sat.png").stat().st_size > 10_000


def test_evaluate_with_json_output_equals_the_library(run, folder, model):
    printed = json.loads(run("evaluate", model, folder / "test.csv", "--json"))
    clf = sw.load(model)
    data = sw.datasets.read(folder / "test.csv")
    d = clf.decide(data.X)
    assert printed["n"] == 200
    assert [row["class"] for row in printed["classes"]] == ["left", "right"]
    for row in printed["classes"]:
        own = data.y == row["class"]
        assert row["series"] == own.sum()
        assert row["error"] == pytest.approx((d.labels[own] != data.y[own]).mean())
        assert row["mean_time"] == pytest.approx(d.times[own].mean())
    assert printed["rules"][0]["mean_time"] == d.times.mean()
    assert printed["rules"][0]["accuracy"] == pytest.approx((d.labels == data.y).mean())


def test_train_resumes_from_a_checkpoint(run, folder):
    options = (
        "train",
        folder / "train.npz",
        "--checkpoint",
        folder / "state",
        "--model",
        "accumulator",
        "--set",
        "training.max_epochs=2",
        "-o",
    )
    run(*options, folder / "first")
    run(*options, folder / "second")
    first, second = sw.load(folder / "first"), sw.load(folder / "second")
    X = sw.datasets.read(folder / "test.npz").X
    np.testing.assert_array_equal(first.scores(X), second.scores(X))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "nothing.npz", "-o", "m"), "nothing.npz"),
        (("evaluate", "nothing", "nothing.npz"), "No stopwise model at nothing"),
        (("train", "{folder}/train.npz", "-o", "m", "--model", "tnh"), "Did you mean 'tanh'"),
        (
            ("train", "{folder}/train.npz", "-o", "m", "--model", "tanh", "--set", "order=9"),
            "`order` must be in [0, T−1]",
        ),
        (("train", "{folder}/train.npz", "-o", "m", "--error-rate", "2"), "error_rate"),
        (("train", "{folder}/train.npz", "-o", "m", "--standardize", "togther"), "Did you mean 'together'"),
        (("train", "{folder}/train.npz", "-o", "m", "--set", "order"), "`--set` must be key=value"),
        (
            ("train", "{folder}/train.npz", "-o", "m", "--model", "tanh", "--set", "odrer=2"),
            "Did you mean 'order'? It has: order",
        ),
        (("train", "{folder}/train.npz", "-o", "m", "--prior", "left=0.5"), "'right' is missing"),
        (("train", "{folder}/train.npz", "-o", "m", "--prior", "up=0.5"), "Known classes: left, right"),
        (("train", "{folder}/nolabel.npz", "-o", "m"), "has no labels"),
        (("evaluate", "{folder}/model", "{folder}/train_X.npy"), "labels the model does not know: 0, 1"),
    ],
)
def test_invalid_arguments_print_one_line(folder, model, arguments, message, refusal):
    np.savez(folder / "nolabel.npz", X=np.zeros((3, 4)))
    assert message in refusal(*(part.format(folder=folder) for part in arguments))


def test_an_error_exits_with_code_2_without_a_traceback(folder):
    command = [sys.executable, "-m", "stopwise", "train", "nothing.npz", "-o", str(folder / "m")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == "stopwise: nothing.npz does not exist.\n"


def test_help_lists_the_commands(run):
    printed = run("--help")
    assert all(command in printed for command in ("demo", "train", "evaluate"))


def test_demo_prints_tables_and_saves_pictures(run, monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "TRAIN", 60)
    monkeypatch.setattr(demo, "TEST", 40)
    monkeypatch.setattr(demo, "EPOCHS", 1)
    monkeypatch.setattr(demo, "CHANNELS", 4)
    once = cache(lambda: real(seed=0, progress=False))
    real = demo.run
    monkeypatch.setattr(demo, "run", lambda **_: once())  # train once, for both runs of the command
    speakers = demo_speakers.run(tmp_path, progress=False)
    monkeypatch.setattr(demo_speakers, "run", lambda *_, **__: speakers)
    printed = run("demo", "--out", tmp_path)
    assert "guaranteed: at most 10 % wrong" in printed
    assert "<title>Who is speaking?" in (tmp_path / "report.html").read_text()
    whole, cheapest, guaranteed = speakers.decided
    assert whole.mean_time == pytest.approx(speakers.mean_length, abs=0.5)
    assert max(cheapest.mean_time, guaranteed.mean_time) < 5
    assert all(name in printed for name in demo.MODELS)
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "llr-trajectories.png",
        "llr-scatter.png",
        "sat-curves.png",
        "llr-errors.png",
    }
    figures = json.loads(run("demo", "--out", tmp_path, "--json"))
    assert figures["saturation"][-1]["slope"] == pytest.approx(1.0)
    assert figures["speakers"][0]["error"] < 0.05


def test_version_is_printed_by_the_command_and_the_module(run):
    assert run("--version") == f"stopwise {sw.__version__}\n"
    command = [sys.executable, "-m", "stopwise", "--version"]
    assert subprocess.run(command, capture_output=True, text=True).stdout == f"stopwise {sw.__version__}\n"


def test_the_picture_of_evaluate_has_the_name_that_is_printed(run, model, folder, tmp_path):
    for name in ("curve", "curve.png"):
        printed = run("evaluate", model, folder / "test.npz", "--picture", tmp_path / name)
        assert printed.endswith(f"Picture: {tmp_path / 'curve.png'}\n")
        (tmp_path / "curve.png").unlink()


QUICK = [
    "--model",
    "accumulator",
    "--set",
    "order=0",
    "--set",
    "training.max_epochs=1",
    "--set",
    "polish=false",
]


def test_train_refuses_to_replace_a_model_without_force(run, refusal, folder, tmp_path):
    run("train", folder / "train.npz", "-o", tmp_path / "m", *QUICK)
    before = (tmp_path / "m" / "model.json").read_bytes()
    message = refusal("train", folder / "train.npz", "-o", tmp_path / "m", *QUICK, "--seed", 1)
    assert "holds a model already" in message
    assert "--force" in message
    assert (tmp_path / "m" / "model.json").read_bytes() == before
    run("train", folder / "train.npz", "-o", tmp_path / "m", *QUICK, "--seed", 1, "--force")
    assert (tmp_path / "m" / "model.json").read_bytes() != before


def test_a_bad_out_is_reported_before_training(run, refusal, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sw.EarlyClassifier, "fit", None)  # must not be reached
    (tmp_path / "file").write_text("")
    assert "it is a file" in refusal("train", folder / "train.npz", "-o", tmp_path / "file")
    for out, reason in ((tmp_path / "file" / "m", "Not a directory"), ("/proc/none/m", "No such file")):
        assert f"cannot save the model to {out}: {reason}" in refusal(
            "train", folder / "train.npz", "-o", out
        )
    monkeypatch.setattr(sw.EarlyClassifier, "fit", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run("train", folder / "train.npz", "-o", tmp_path / "a" / "b" / "m")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]  # nothing is left behind


def test_columns_in_another_order_give_the_same_evaluation(run, folder, tmp_path):
    def reordered(name):
        rows = [line.split(",") for line in (folder / name).read_text().splitlines()]
        order = [0, 1, 2, 5, 3, 4]
        (tmp_path / name).write_text("\n".join(",".join(row[i] for i in order) for row in rows) + "\n")
        return tmp_path / name

    run("train", folder / "train.csv", "-o", tmp_path / "m", *QUICK)
    expected = json.loads(run("evaluate", tmp_path / "m", folder / "test.csv", "--json"))
    assert json.loads(run("evaluate", tmp_path / "m", reordered("test.csv"), "--json")) == expected
