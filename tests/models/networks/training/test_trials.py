"""Tests of the comparison of networks by short trainings."""

from functools import partial

import numpy as np
import pytest
import torch
from small_worlds import autoregressive, examples, task

from stopwise.models.networks.modules import AccumulatorModule
from stopwise.models.networks.training import trials
from stopwise.models.networks.training.trials import compare, series_lsel


def test_series_lsel_is_mean_negative_log_posterior():
    rng = np.random.default_rng(0)
    scores, y, lengths = rng.normal(size=(5, 4, 3)), np.array([0, 1, 2, 1, 0]), np.array([4, 1, 3, 2, 4])
    ours = series_lsel(scores, y, lengths)
    for i in range(5):
        chances = np.exp(scores[i, : lengths[i]])
        chances /= chances.sum(1, keepdims=True)
        assert ours[i] == pytest.approx(-np.log(chances[:, y[i]]).mean())


def test_padding_does_not_change_lsel():
    scores = np.zeros((1, 3, 2))
    spoiled = scores.copy()
    spoiled[0, 1:] = np.nan
    known = np.array([0]), np.array([1])
    np.testing.assert_array_equal(series_lsel(spoiled, *known), series_lsel(scores, *known))


def data(n=300, order=1):
    X, y = autoregressive(n, order)
    return task(*examples(X, y).split(0.3, 0), llre_ratio=0.5, learning_rate=1e-2, max_epochs=20)


def fresh(order):
    torch.manual_seed(0)
    return AccumulatorModule(2, 2, order, hidden=8)


NETWORKS = {"short": partial(fresh, 0), "long": partial(fresh, 1)}


def test_clearly_better_network_is_chosen():
    name, seen = compare(NETWORKS, data(), polished=True)
    assert name == "long"
    assert [one["body"] for one in seen] == ["short", "long"]
    assert seen[1]["validation_lsel"] < 0.5 < seen[0]["validation_lsel"]


def test_first_network_is_chosen_if_none_is_clearly_better():
    same = {"first": partial(fresh, 1), "second": partial(fresh, 1)}
    assert compare(same, data(), polished=True)[0] == "first"


@pytest.mark.parametrize("polished", [False, True])
def test_networks_are_polished_as_the_final_one(polished, monkeypatch):
    calls = []
    monkeypatch.setattr(trials, "polish", lambda *given, **options: calls.append(1))
    compare(NETWORKS, data(60), polished=polished)
    assert len(calls) == 2 * polished


def test_trials_are_short(monkeypatch):
    monkeypatch.setattr(trials, "TRIAL_SERIES", 50)
    monkeypatch.setattr(trials, "TRIAL_STEPS", 3)
    seen, train = [], trials.train

    def spy(net, short, **options):
        seen.append((len(short.train_set), short.training.max_epochs, short.training.patience))
        return train(net, short, **options)

    monkeypatch.setattr(trials, "train", spy)
    compare(NETWORKS, data(), polished=False)
    assert seen == [(50, 3, None)] * 2


def test_known_trials_are_not_repeated(tmp_path, monkeypatch):
    records = []
    expected = compare(
        NETWORKS,
        data(60),
        polished=False,
        on_trial=lambda losses: records.append(dict(losses)),
        path=tmp_path / "run",
    )
    assert [list(one) for one in records] == [["short"], ["short", "long"]]
    assert not list(tmp_path.iterdir())
    trained, train = [], trials.train

    def spy(net, *given, **options):
        trained.append(net.order)
        return train(net, *given, **options)

    monkeypatch.setattr(trials, "train", spy)
    assert compare(NETWORKS, data(60), polished=False, known=records[0]) == expected
    assert trained == [1]
