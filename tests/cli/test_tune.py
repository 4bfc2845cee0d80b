import json
import signal
import sys

import numpy as np
import pytest

import stopwise as sw
from stopwise import cli
from stopwise.tuning import search

QUICK = ("--trials", 2, "--max-epochs", 2, "--set", "order=0", "--set", "polish=false")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune")
    X, y, _ = sw.datasets.gaussian(100, offset=1.5, channels=2, length=5, seed=0)
    np.savez(path / "data.npz", X=X, y=y, persons=np.arange(100) % 7)
    return path


def settings(clf, names):
    """Return the settings of a classifier with these names."""
    params = clf.get_params() | {"model": clf.model.name}
    nested = {name: f"model__{name.replace('.', '__')}" for name in names}
    return {name: params[name if name in params else nested[name]] for name in names}


def test_train_uses_the_best_settings(run, folder):
    printed = run("tune", folder / "data.npz", *QUICK, "-o", folder / "best.json")
    assert "2 trials complete, 0 pruned, 0 diverged." in printed
    assert "with the default settings." in printed
    assert "--params" in printed
    best = json.loads((folder / "best.json").read_text())
    assert (best["order"], best["polish"], best["training.max_epochs"]) == (0, False, 2)
    run("train", folder / "data.npz", "--params", folder / "best.json", "-o", folder / "model")
    assert settings(sw.load(folder / "model"), best) == best
    run(
        "train", folder / "data.npz", "--params", folder / "best.json",
        "--set", "training.max_epochs=1", "--set", "order=none", "-o", folder / "model", "--force",
    )  # fmt: skip
    changed = settings(sw.load(folder / "model"), best)
    assert changed == best | {"training.max_epochs": 1, "order": None}


def test_json_output_lists_all_trials_and_a_storage_is_resumed(run, folder):
    options = (
        "--storage",
        f"sqlite:///{folder / 's.db'}",
        "--name",
        "mine",
        "--json",
        "-o",
        folder / "b.json",
    )
    groups = ("--groups", "persons")
    first = json.loads(run("tune", folder / "data.npz", *QUICK, *groups, *options))
    assert first["study_name"] == "mine"
    assert [trial["number"] for trial in first["trials"]] == [0, 1]
    more = json.loads(run("tune", folder / "data.npz", *QUICK, *groups, *options, "--trials", 3))
    assert more["trials"][:2] == first["trials"]
    assert len(more["trials"]) == 3


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("kept", [True, False])
def test_an_interrupted_search_keeps_the_best_settings(run, folder, kept, monkeypatch, capsys):
    out, calls, judge = folder / f"kept{kept}.json", [], search._Search._judge

    def press_control_c(self, clf):
        calls.append(clf)
        if len(calls) == 8:  # in the third trial
            signal.raise_signal(signal.SIGINT)
        return judge(self, clf)

    monkeypatch.setattr(search._Search, "_judge", press_control_c)
    storage = ["--storage", f"sqlite:///{folder / 'kept.db'}"] if kept else []
    command = ["stopwise", "tune", folder / "data.npz", *QUICK, "-o", out, *storage, "--trials", 9]
    monkeypatch.setattr(sys, "argv", list(map(str, command)))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    printed = capsys.readouterr().err.splitlines()[-1]
    assert printed.startswith(
        f"stopwise: interrupted after 2 of 9 trials; the best settings so far are in {out}."
    )
    assert printed.endswith(
        "The same command resumes from here." if kept else "pass --storage to be able to resume."
    )
    assert json.loads(out.read_text())["order"] == 0
    if kept:
        monkeypatch.undo()
        more = run("tune", *command[2:-2], "--trials", 3, "--json")
        assert [trial["number"] for trial in json.loads(more)["trials"]] == [0, 1, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tune", "{folder}/data.npz", "-o", "b.json", "--set", "order"), "`--set` must be key=value"),
        (("tune", "{folder}/data.npz", "-o", "b.json", "--set", "hiden=3"), "Did you mean 'hidden'"),
        (("tune", "{folder}/data.npz", "-o", "{folder}/no/b.json"), "there is no folder"),
        (("train", "{folder}/data.npz", "-o", "m", "--params", "{folder}/none.json"), "none.json"),
        (("train", "{folder}/data.npz", "-o", "m", "--params", "{folder}/data.npz"), "settings as JSON"),
        (("train", "{folder}/data.npz", "-o", "m", "--params", "{folder}/list.json"), "a JSON object"),
        (("train", "{folder}/data.npz", "-o", "m", "--params", "{folder}/odd.json"), "Did you mean 'order'"),
    ],
)  # fmt: skip
def test_invalid_arguments_print_one_line(folder, arguments, message, refusal):
    (folder / "list.json").write_text("[1]")
    (folder / "odd.json").write_text('{"model": "tanh", "odrer": 1}')
    assert message in refusal(*(part.format(folder=folder) for part in arguments))
