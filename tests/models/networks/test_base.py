"""Tests of all network models: order, validation series, reports, resuming and restoring."""

import itertools
import json
import shutil

import numpy as np
import pytest
import torch
from small_worlds import SMALL, examples, gaussian, same_weights, small_model, world

from stopwise.models import Accumulator, TanhTandem, Training
from stopwise.models.networks import base
from stopwise.models.networks.training import loop, order_search
from stopwise.persistence import tensors as files
from stopwise.persistence.tensors import TensorFileError

X, Y, _ = gaussian(60)


@pytest.fixture
def untrained(monkeypatch):
    """Fail if a network is trained."""

    def fail(*_, **__):
        raise AssertionError("a network was trained")

    monkeypatch.setattr(base, "train", fail)
    monkeypatch.setattr(base, "search", fail)


@pytest.fixture
def tasks(monkeypatch):
    """Record the task of each final training."""
    seen, train = [], base.train

    def spy(net, task, **options):
        seen.append(task)
        return train(net, task, **options)

    monkeypatch.setattr(base, "train", spy)
    return seen


@pytest.mark.parametrize("name", SMALL)
def test_model_learns_and_scores_every_prefix(name):
    X, y, _ = gaussian(60, offset=2.0)
    model = small_model(name, polish=True, training=Training(max_epochs=8, batch_size=20))
    model.fit(examples(X, y))
    x = X.astype(np.float32)
    scores = model.scores(x)
    assert scores.shape == (60, 6, 2)
    assert (scores[:, -1].argmax(1) == y).mean() > 0.9
    np.testing.assert_allclose(model.scores(x[:, :4]), scores[:, :4], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SMALL)
def test_report_is_json(name):
    report = small_model(name, polish=True).fit(examples(X, Y)).report_
    assert json.loads(json.dumps(report)) == report
    assert [record["epoch"] for record in report["history"]] == [1]
    assert report["order_search"] is None
    assert report["polish"]["validation_loss"] <= report["polish"]["validation_loss_before"]


@pytest.mark.parametrize("name", SMALL)
def test_same_seed_gives_same_weights_and_other_seed_does_not(name):
    polish = name == "accumulator"
    nets = [
        small_model(name, polish=polish).fit(examples(X, Y), random_state=seed).net_ for seed in (3, 3, 4)
    ]
    assert same_weights(nets[0], nets[1])
    assert not same_weights(nets[0], nets[2])


def test_global_random_state_is_neither_changed_nor_used():
    nets = []
    for state in (1, 2):
        torch.manual_seed(state)
        before = torch.get_rng_state()
        nets.append(small_model("accumulator", dropout=0.3).fit(examples(X, Y)).net_)
        assert torch.equal(torch.get_rng_state(), before)
    assert same_weights(*nets)


# The order


@pytest.mark.parametrize(
    ("order", "kind", "message"),
    [
        (6, ValueError, r"`order` must be in \[0, T−1\]; got order=6 for series of length T=6"),
        (-1, ValueError, "`order` must be >= 0; got -1"),
        (1.0, TypeError, r"`order` must be .*; got 1.0 \(float\)"),
        (True, TypeError, "`order` must be .*; got True"),
        ("best", ValueError, "`order` must be an integer, None or 'auto'; got 'best'"),
    ],
)
@pytest.mark.parametrize("name", SMALL)
def test_invalid_order_raises_before_training(name, order, kind, message, untrained):
    with pytest.raises(kind, match=message):
        small_model(name, order=order).fit(examples(X, Y))


@pytest.mark.parametrize("order", [0, np.int64(2), 5])
@pytest.mark.parametrize("name", SMALL)
def test_given_order_is_used(name, order):
    model = small_model(name, order=order).fit(examples(X, Y))
    assert model.order_ == model.net_.order == order
    assert type(model.order_) is int
    assert json.dumps(model.describe())


@pytest.mark.parametrize("name", ["b2bsqrt", "tanh", "tandemformer"])
def test_order_none_selects_longest_order_of_window_networks(name):
    assert small_model(name, order=None).fit(examples(X, Y)).order_ == 5


def test_longest_order_depends_on_longest_series():
    data = examples(X, Y, lengths=np.where(np.arange(60) == 7, 4, 2))
    assert small_model("tanh", order=None).fit(data).order_ == 3
    with pytest.raises(ValueError, match="for series of length T=4"):
        small_model("tanh", order=4).fit(data)


# Settings that fail before training


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"loss": "lsell"}, ValueError, "`loss` must be one of"),
        ({"llre_ratio": 2}, ValueError, r"`llre_ratio` must be in \[0, 1\]"),
        ({"polish": "yes"}, TypeError, "`polish` must be True or False; got 'yes'"),
        (
            {"training": {"max_epochs": 3}},
            TypeError,
            "`training` must be a .*Training or None",
        ),
        ({"training": Training(optimizer="adm")}, ValueError, "Did you mean 'adam'"),
        ({"hidden": 0}, ValueError, "`hidden` must be >= 1"),
        ({"dropout": 1.0}, ValueError, r"`dropout` must be in \[0, 1\)"),
        (
            {"order": "auto", "training": Training(validation_fraction=0)},
            ValueError,
            "`order`='auto' needs validation series to choose the order, but there are none",
        ),
    ],
)
def test_invalid_setting_raises_before_training(changes, kind, message, untrained):
    with pytest.raises(kind, match=message):
        small_model("tanh", **changes).fit(examples(X, Y))


def test_constructor_does_not_validate():
    TanhTandem(order="best", hidden=-1, loss=None, training=3)


# Validation series


def test_validation_fraction_of_each_class_is_held_out(tasks):
    small_model("accumulator", training=Training(max_epochs=1, validation_fraction=0.2)).fit(examples(X, Y))
    assert np.bincount(tasks[0].validation_set.y).tolist() == [6, 6]
    assert np.bincount(tasks[0].train_set.y).tolist() == [24, 24]


def test_whole_groups_are_held_out(tasks):
    groups = np.repeat(np.arange(12), 5)
    training = Training(max_epochs=1, validation_fraction=0.25)
    small_model("accumulator", training=training).fit(examples(X, Y, groups=groups))
    train, held = (set(part.groups) for part in (tasks[0].train_set, tasks[0].validation_set))
    assert train | held == set(groups)
    assert not train & held


def test_given_validation_series_are_used_and_none_are_held_out(tasks):
    data, held = examples(X, Y), examples(*gaussian(20, seed=1)[:2])
    small_model("accumulator").fit(data, held)
    assert tasks[0].train_set is data
    assert tasks[0].validation_set is held


def test_last_weights_are_kept_without_validation_series(tasks):
    training = Training(max_epochs=2, validation_fraction=0)
    model = small_model("accumulator", polish=True, training=training).fit(examples(X, Y))
    assert tasks[0].validation_set is None
    assert "validation_loss" not in model.report_["history"][0]
    assert model.report_["polish"].keys() == {"ridge"}


# Resuming


def stop_at(epoch):
    def stop(record):
        if record["epoch"] == epoch:
            raise InterruptedError

    return stop


@pytest.mark.parametrize("order", [1, "auto"])
def test_resumed_fit_equals_uninterrupted_fit(order, tmp_path, monkeypatch):
    monkeypatch.setattr(order_search, "CANDIDATES", (0,))
    training = Training(max_epochs=3, batch_size=20)

    def fit(**options):
        model = small_model("accumulator", order=order, polish=True, training=training)
        return model.fit(examples(X, Y), **options)

    expected = fit()
    with pytest.raises(InterruptedError):
        fit(checkpoint=tmp_path / "run", on_epoch=stop_at(2))
    model = fit(checkpoint=tmp_path / "run")
    assert same_weights(model.net_, expected.net_)
    assert model.report_ == expected.report_


class Killed(Exception):
    """Interrupts a fit in place of a kill."""


def killing(calls):
    """Return a function that wraps another one and fails at its call number `calls`."""

    def wrap(function):
        count = itertools.count(1)

        def called(*given, **options):
            if next(count) == calls:
                raise Killed
            return function(*given, **options)

        return called

    return wrap


@pytest.mark.parametrize("search", ["finite", "none"])
def test_fit_killed_at_any_stage_resumes(search, tmp_path, monkeypatch):
    """Kill a fit before every epoch of trials and training, and before every write of the checkpoint."""
    if search == "none":  # then two bodies are compared by training
        seen = [
            {"order": order, "validation_lsel": loss} for order, loss in ((0, 0.7), (1, 0.5), (None, 0.3))
        ]
        monkeypatch.setattr(base, "search", lambda *_, **__: (None, seen))
    training = Training(max_epochs=2, batch_size=20)

    def fit(path=None):
        model = small_model("accumulator", order="auto", polish=True, training=training)
        return model.fit(examples(X, Y), checkpoint=path)

    expected = fit()
    path = tmp_path / "run"
    kills = 0
    for calls in itertools.count(1):
        with monkeypatch.context() as patch:
            wrap = killing(calls)
            patch.setattr(loop.TrainingRun, "_epoch", wrap(loop.TrainingRun._epoch))
            patch.setattr(files, "write", killing(calls)(files.write))
            try:
                fit(path)
                break
            except Killed:
                kills += 1
        again = tmp_path / "copy"  # a fit that was killed once resumes and ends as expected
        for file in tmp_path.glob("run*"):
            shutil.copy(file, again.with_name(file.name.replace("run", "copy")))
        model = fit(again)
        assert same_weights(model.net_, expected.net_)
        assert model.report_ == expected.report_
        for file in tmp_path.iterdir():
            file.unlink()
    assert kills >= 2
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_search_is_not_repeated_on_resume(tmp_path, monkeypatch):
    def fit(**options):
        return small_model("accumulator", order="auto").fit(examples(X, Y), **options)

    expected = fit()
    with monkeypatch.context() as patch:
        patch.setattr(base, "train", killing(1)(base.train))
        with pytest.raises(Killed):
            fit(checkpoint=tmp_path / "run")
    monkeypatch.setattr(base, "search", None)
    for _ in range(2):  # from the search, and from the end
        model = fit(checkpoint=tmp_path / "run")
        assert same_weights(model.net_, expected.net_)
        assert model.report_ == expected.report_


def test_checkpoint_of_search_on_other_data_raises(tmp_path):
    small_model("accumulator", order="auto").fit(examples(X, Y), checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="belongs to another run, which differs in training data"):
        small_model("accumulator", order="auto").fit(examples(-X, Y), checkpoint=tmp_path / "run")


def test_checkpoint_of_fixed_order_raises_in_search(tmp_path):
    small_model("accumulator", order=1).fit(examples(X, Y), checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="belongs to another run, which had a fixed `order`"):
        small_model("accumulator", order="auto").fit(examples(X, Y), checkpoint=tmp_path / "run")


@pytest.mark.parametrize("polish", [False, True])
def test_fit_reports_all_stages(polish, capsys):
    small_model("accumulator", order="auto", polish=polish).fit(examples(X, Y), progress=True)
    lines = capsys.readouterr().err.splitlines()
    stages = [line.split(":")[0] for line in lines]
    assert stages == ["choosing the order", "training"] + polish * ["polishing"]


def test_checkpoint_of_other_data_raises(tmp_path):
    small_model("accumulator").fit(examples(X, Y), checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="belongs to another run, which differs in training data"):
        small_model("accumulator").fit(examples(-X, Y), checkpoint=tmp_path / "run")
    with pytest.raises(TensorFileError, match="is a folder"):
        small_model("accumulator").fit(examples(X, Y), checkpoint=tmp_path)


def test_model_can_score_during_training():
    model, seen = small_model("accumulator", training=Training(max_epochs=3)), []
    x = X.astype(np.float32)
    model.fit(examples(X, Y), on_epoch=lambda record: seen.append(model.scores(x)))
    assert len(seen) == 3
    assert not np.array_equal(seen[0], seen[1])


# Restoring


@pytest.fixture(scope="module")
def fitted():
    model = small_model("accumulator").fit(examples(X, Y))
    return model, model.describe()["fitted"], model.tensors()


@pytest.mark.parametrize("change", ["shape", "missing", "unknown"])
def test_restore_with_wrong_tensors_raises(fitted, change):
    _, about, tensors = fitted
    tensors = {
        "shape": tensors | {"head.bias": torch.zeros(3)},
        "missing": {name: value for name, value in tensors.items() if name != "head.bias"},
        "unknown": tensors | {"extra": torch.zeros(1)},
    }[change]
    with pytest.raises(ValueError, match=r"`tensors` must be the weights of this model.*(head.bias|extra)"):
        small_model("accumulator").restore(about, tensors)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 1}, "`classes` must be >= 2; got 1"),
        ({"channels": 0}, "`channels` must be >= 1; got 0"),
        ({"steps": 0}, "`steps` must be >= 1; got 0"),
        ({"order": 6}, r"`order` must be in \[0, 5\]; got 6"),
        ({"order": "1"}, "`order` must be .*; got '1'"),
        ({"channels": 4}, "`tensors` must be the weights of this model"),
        ({"order": None}, "`tensors` must be the weights of this model"),
    ],
)
def test_restore_with_wrong_description_raises(fitted, changes, message):
    _, about, tensors = fitted
    with pytest.raises((TypeError, ValueError), match=message):
        small_model("accumulator").restore(about | changes, tensors)


def test_failed_restore_does_not_change_a_fitted_model(fitted):
    model, about, tensors = fitted
    x = X.astype(np.float32)
    before = model.scores(x)
    with pytest.raises(ValueError, match="`tensors`"):
        model.restore(about | {"channels": 4}, tensors)
    np.testing.assert_array_equal(model.scores(x), before)
    assert model.channels_ == 3


def test_batch_size_is_that_of_training():
    assert Accumulator().batch_size == 100
    assert Accumulator(training=Training(batch_size=7)).batch_size == 7


@pytest.mark.parametrize("name", SMALL)
def test_step_scores_equal_scores_of_whole_series(name):
    model = small_model(name).fit(world())
    x, _ = world(seed=1, steps=9).read(np.arange(4))
    step = model.step()
    state = step.start(4)
    for t in range(9):
        state = step(state, x[:, t])
        np.testing.assert_allclose(state["scores"], model.scores(x)[:, t], rtol=1e-4, atol=1e-4)
