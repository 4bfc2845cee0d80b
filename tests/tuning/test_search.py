"""`tune`: trials, resuming, pruning, diverged trials and argument validation."""

import numpy as np
import optuna
import pytest

import stopwise as sw
from stopwise import tuning
from stopwise.tuning import search, tune

SPACE = {"training.learning_rate": [1e-3, 1e-2, 3e-2], "dropout": (0.0, 0.4), "hidden": (2, 16)}
FIXED = {"order": 0, "polish": False}


@pytest.fixture(scope="module")
def data():
    X, y, _ = sw.datasets.gaussian(120, offset=1.5, channels=2, length=6, seed=0)
    return X, np.array(["left", "right"])[y]


def quick(data, trials=3, **changes):
    settings = {"space": SPACE, "fixed": FIXED, "trials": trials, "max_epochs": 2, "progress": False}
    return tune(*data, **settings | changes)


def test_training_with_the_best_settings_gives_the_best_ausat(data):
    found = quick(data, trials=4)
    assert len(found.trials) == 4
    assert found.ausat == min(trial.ausat for trial in found.trials if trial.ausat is not None)
    assert found.ausat <= found.default_ausat
    train, held = sw.datasets.hold_out(data[1], fraction=0.2, seed=0)
    clf = sw.EarlyClassifier.from_settings(found.best, progress=False)
    clf.fit(data[0][train], data[1][train], validation_data=(data[0][held], data[1][held]))
    y = (data[1][held] == "right").astype(int)
    assert sw.metrics.ausat(sw.metrics.sat_curve(clf.scores(data[0][held]), y)) == found.ausat


def test_first_trial_uses_the_defaults(data):
    first = quick(data, trials=1).trials[0]
    assert first.params["training.learning_rate"] == 1e-2
    assert first.params["dropout"] == 0.0
    # The space does not contain the default of `hidden`, so it is sampled.
    assert 2 <= first.params["hidden"] <= 16
    assert (first.number, first.state, first.epochs) == (0, "complete", 2)
    assert first.seconds > 0


def test_the_same_seed_gives_the_same_trials(data):
    def seen(seed):
        return [(trial.params, trial.ausat) for trial in quick(data, random_state=seed).trials]

    assert seen(0) == seen(0)
    assert seen(0) != seen(1)


def test_resumed_study_equals_an_uninterrupted_one(data, tmp_path):
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    assert len(quick(data, trials=2, storage=storage).trials) == 2
    resumed = quick(data, trials=4, storage=storage)
    whole = quick(data, trials=4)
    assert [(t.params, t.ausat) for t in resumed.trials] == [(t.params, t.ausat) for t in whole.trials]
    assert resumed.best == whole.best
    assert len(quick(data, trials=4, storage=storage).trials) == 4  # no further trial is run


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"max_epochs": 3}, "`max_epochs`: 2; this call has 3"),
        ({"random_state": 1}, "`random_state`: 0; this call has 1"),
        ({"fixed": FIXED | {"loss": "lllr"}}, "`fixed`"),
        ({"space": SPACE | {"hidden": (2, 8)}}, "`space`"),
        ({"validation_fraction": 0.4}, "`data`"),
        ({"model": "tanh"}, "`model`: 'accumulator'; this call has 'tanh'"),
    ],
)
def test_joining_a_study_with_other_settings_raises(data, changes, part):
    storage = optuna.storages.InMemoryStorage()
    quick(data, trials=1, storage=storage, study_name="mine")
    with pytest.raises(ValueError, match=f"the study 'mine' in this storage has a different {part}"):
        quick(data, storage=storage, study_name="mine", **changes)


def test_diverged_trials_count_as_finished(data):
    space = {"training.learning_rate": [1e-2, 1e20]}
    found = quick(data, trials=6, space=space)
    states = {trial.params["training.learning_rate"]: trial.state for trial in found.trials}
    assert states[1e20] == "diverged"
    assert all(trial.ausat is None for trial in found.trials if trial.state == "diverged")
    assert found.best["training.learning_rate"] == 1e-2


def test_search_without_a_complete_trial_raises(data):
    with pytest.raises(
        FloatingPointError,
        match=r"none of the 2 finished trials is complete\. The first one diverged: Training",
    ):
        quick(data, trials=2, space={"training.learning_rate": [1e20]})


def test_trials_worse_than_the_median_are_pruned(data, monkeypatch):
    def judge(self, clf):
        return {1e-2: 0.1, 1e-3: 0.3, 3e-2: 0.2}[clf.model.training.learning_rate]

    monkeypatch.setattr(search._Search, "_judge", judge)
    found = quick(data, trials=20, max_epochs=8, fixed=FIXED | {"training.patience": None})
    states = {}
    for trial in found.trials:
        states.setdefault(trial.params["training.learning_rate"], []).append((trial.state, trial.epochs))
    assert set(states[1e-2]) == {("complete", 8)}
    # Five trials run without pruning, and no trial is pruned in the first quarter of its epochs.
    assert states[1e-3][-1] == ("pruned", 2)
    assert all(trial.state == "complete" for trial in found.trials[:5])
    assert all(trial.ausat is None for trial in found.trials if trial.state == "pruned")
    assert found.best["training.learning_rate"] == 1e-2


def test_auto_order_is_searched_once_per_study(data, monkeypatch):
    searches = []
    choose = sw.models.Accumulator._choose

    def counted(self, *arguments):
        searches.append(self.order)
        return {"order": 1} if self.order == "auto" else choose(self, *arguments)

    monkeypatch.setattr(sw.models.Accumulator, "_choose", counted)
    found = quick(data, trials=3, fixed={"polish": False}, space={"order": ["auto"], "hidden": [4, 8]})
    assert searches == ["auto", 1, 1]
    assert [trial.params["order"] for trial in found.trials] == [1, 1, 1]
    assert found.best["order"] == 1


def test_interrupted_trial_of_the_defaults_is_repeated(data, monkeypatch):
    storage, space = optuna.storages.InMemoryStorage(), {"dropout": (0.0, 0.4)}

    def interrupt(self, clf):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(search._Search, "_judge", interrupt)
        with pytest.raises(KeyboardInterrupt):
            quick(data, storage=storage, space=space)
    found = quick(data, trials=2, storage=storage, space=space)
    assert [trial.number for trial in found.trials] == [1, 2]  # trial 0 was interrupted and does not count
    assert found.default_ausat == quick(data, trials=1, space=space).ausat


def test_groups_are_not_split(data, monkeypatch):
    groups = np.arange(120) % 10
    seen = {}
    run = search._Search.run

    def spy(self, *arguments):
        seen["data"] = self.data
        return run(self, *arguments)

    monkeypatch.setattr(search._Search, "run", spy)
    quick(data, trials=1, groups=groups)
    mine = seen["data"]
    held = {x.tobytes() for x in mine.X_held.batch(np.arange(len(mine.X_held)))[0]}
    where = [x.tobytes() in held for x in data[0]]
    assert 0 < sum(where) < 120
    assert set(groups[where]).isdisjoint(groups[np.invert(where)])


def test_unequal_lengths_and_the_on_trial_callback(data):
    rng = np.random.default_rng(0)
    X = [x[: rng.integers(2, 7)] for x in data[0]]
    reported = []
    found = quick((X, data[1]), trials=2, on_trial=reported.append)
    assert [len(one.trials) for one in reported] == [1, 2]
    assert reported[-1].best == found.best


def test_progress_shows_the_best_ausat(data, capsys):
    quick(data, trials=2, progress=True)
    assert "tuning: 2/2 best AUSAT 0." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"model": "tnh"}, ValueError, "Did you mean 'tanh'"),
        ({"trials": 0}, ValueError, "`trials` must be >= 1"),
        ({"timeout": -1}, ValueError, "`timeout` must be in"),
        ({"validation_fraction": 0}, ValueError, "`validation_fraction` must be in"),
        ({"fixed": {"hiden": 3}}, ValueError, "Did you mean 'hidden'"),
        ({"fixed": {"model": "tanh"}}, ValueError, "`fixed` must not contain 'model'"),
        ({"fixed": dict.fromkeys(SPACE, 1)}, ValueError, "`space` leaves nothing to search"),
        ({"fixed": FIXED | {"training.devices": 2}}, ValueError, "`on_epoch` can only be used with devices="),
        ({"storage": "nonsense"}, ValueError, "`storage` must be the URL of a database"),
        ({"storage": 3}, TypeError, "`storage` must be a database URL"),
        ({"validation_data": ([[1.0]], [0]), "groups": [0]}, ValueError, "`groups` cannot be used with"),
        (
            {"validation_data": ([[1.0]], [0]), "validation_fraction": 0.2},
            ValueError,
            "`validation_fraction` cannot be used with `validation_data`",
        ),
        ({"study_name": "mine"}, ValueError, "`study_name` can only be used with `storage`"),
    ],
)
def test_invalid_arguments_raise(data, changes, kind, message, monkeypatch):
    monkeypatch.setattr(tuning.study, "PAUSE", 0)
    with pytest.raises(kind, match=message):
        quick(data, **changes)
