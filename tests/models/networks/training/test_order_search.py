"""Tests of the order search: losses, choice of the order, and data of known order."""

import numpy as np
import pytest
from small_worlds import autoregressive, examples, gaussian

from stopwise.models import Accumulator, TanhTandem, Training
from stopwise.models.networks.training import order_search


def test_series_lsel_is_mean_negative_log_posterior():
    rng = np.random.default_rng(0)
    scores, y, lengths = rng.normal(size=(5, 4, 3)), np.array([0, 1, 2, 1, 0]), np.array([4, 1, 3, 2, 4])
    ours = order_search.series_lsel(scores, y, lengths)
    for i in range(5):
        chances = np.exp(scores[i, : lengths[i]])
        chances /= chances.sum(1, keepdims=True)
        assert ours[i] == pytest.approx(-np.log(chances[:, y[i]]).mean())


def test_padding_does_not_change_lsel():
    scores = np.zeros((1, 3, 2))
    spoiled = scores.copy()
    spoiled[0, 1:] = np.nan
    known = np.array([0]), np.array([1])
    np.testing.assert_array_equal(
        order_search.series_lsel(spoiled, *known), order_search.series_lsel(scores, *known)
    )


def test_smaller_order_is_chosen_if_difference_is_noise():
    rng = np.random.default_rng(1)
    base = rng.uniform(0.1, 0.5, 400)
    losses = {0: base + rng.normal(0, 0.1, 400), 1: base - 0.001, 3: base + 0.2, None: base + 0.1}
    chosen, seen = order_search.choose(losses, np.ones(400))
    assert chosen == 0
    assert [one["order"] for one in seen] == [0, 1, 3, None]
    assert min(one["excess"] for one in seen) == 0


@pytest.mark.parametrize("best", [2, None])
def test_clearly_better_order_is_chosen(best):
    rng = np.random.default_rng(2)
    base = rng.uniform(0.1, 0.5, 400)
    assert order_search.choose({0: base + 0.1, best: base, 5: base + 0.05}, np.ones(400))[0] == best


def test_classes_have_equal_weight_in_order_search():
    common, rare = np.zeros(90), np.ones(10)
    weights = np.concatenate([np.full(90, 100 / (2 * 90)), np.full(10, 100 / (2 * 10))])
    losses = {0: np.concatenate([common, rare]), 1: np.concatenate([common + 0.5, rare - 0.9])}
    assert order_search.choose(losses, weights)[1][0]["validation_lsel"] == pytest.approx(0.5)
    assert order_search.choose(losses, weights)[1][1]["validation_lsel"] == pytest.approx(0.3)


def test_worse_order_is_rejected_despite_large_standard_error():
    """With overconfident scores, most series have a slightly lower loss and a few have a very large one."""
    rng = np.random.default_rng(3)
    right = rng.uniform(0.1, 0.3, 500)
    too_sure = right - 0.05
    too_sure[:6] += 12.0
    order, seen = order_search.choose({0: too_sure, 2: right}, np.ones(500))
    assert seen[0]["excess"] < 2 * seen[0]["standard_error"]
    assert order == 2


def small(kind=Accumulator, max_epochs=12, **params):
    return kind(hidden=16, training=Training(max_epochs=max_epochs), **params)


@pytest.mark.parametrize("order", [1, 2])
def test_order_search_finds_order_of_autoregressive_data(order, monkeypatch):
    monkeypatch.setattr(order_search, "CANDIDATES", (0, 1, 2, 3))
    model = small().fit(examples(*autoregressive(400, order)))
    assert model.order_ == order
    assert [one["order"] for one in model.report_["order_search"]] == [0, 1, 2, 3, None]


def test_independent_samples_give_order_zero(monkeypatch):
    monkeypatch.setattr(order_search, "CANDIDATES", (0, 1, 3))
    X, y, _ = gaussian(400, offset=0.7, channels=2, steps=8)
    assert small().fit(examples(X, y)).order_ == 0


@pytest.mark.parametrize("kind", [Accumulator, TanhTandem])
def test_order_search_works_with_few_series(kind):
    X, y, _ = gaussian(8, offset=3.0, channels=2, steps=3)
    assert small(kind, max_epochs=2).fit(examples(X, y)).order_ in (0, 1, 2, None)


def test_series_of_one_sample_have_order_zero():
    X, y, _ = gaussian(20, channels=2, steps=1)
    model = small(max_epochs=1).fit(examples(X, y))
    assert model.order_ == 0
    assert [one["order"] for one in model.report_["order_search"]] == [0]


def test_order_search_uses_sample_of_large_data(monkeypatch):
    monkeypatch.setattr(order_search, "SEARCH_SERIES", 30)
    monkeypatch.setattr(order_search, "CANDIDATES", (0,))
    monkeypatch.setattr(order_search, "SEARCH_STEPS", 3)
    X, y, _ = gaussian(200, channels=2, steps=3)
    data = examples(X, y)
    searched = []
    train = order_search.train

    def spy(net, task, **options):
        searched.append((len(task.train_set), task.training.max_epochs, task.training.patience))
        return train(net, task, **options)

    monkeypatch.setattr(order_search, "train", spy)
    small(polish=False).fit(data)
    assert searched == [(30, 3, None)] * 2  # order 0 and no finite order; one batch holds all 30 series


def test_polishing_changes_losses_of_order_search():
    X, y, _ = gaussian(60, channels=2, steps=3)
    found = [small(max_epochs=1, polish=polish).fit(examples(X, y)).report_ for polish in (False, True)]
    first, second = ([one["validation_lsel"] for one in report["order_search"]] for report in found)
    assert first != second


def test_order_search_without_validation_series_raises():
    X, y, _ = gaussian(20, channels=2, steps=3)
    model = Accumulator(training=Training(validation_fraction=0))
    with pytest.raises(ValueError, match="`order`='auto' needs validation series"):
        model.fit(examples(X, y))
