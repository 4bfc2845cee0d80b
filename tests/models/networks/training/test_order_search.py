"""The order from data: the choice itself, and what the classifier makes of worlds of known order."""

import numpy as np
import pytest

import stopwise as sw
from stopwise.models.networks.training import order_search as orders


def test_lsel_of_a_series_is_the_mean_negative_log_posterior_of_its_own_steps():
    rng = np.random.default_rng(0)
    scores, y, lengths = rng.normal(size=(5, 4, 3)), np.array([0, 1, 2, 1, 0]), np.array([4, 1, 3, 2, 4])
    ours = orders.series_lsel(scores, y, lengths)
    for i in range(5):
        chances = np.exp(scores[i, : lengths[i]])
        chances /= chances.sum(1, keepdims=True)
        assert ours[i] == pytest.approx(-np.log(chances[:, y[i]]).mean())


def test_what_lies_past_the_end_of_a_series_does_not_count():
    scores = np.zeros((1, 3, 2))
    spoiled = scores.copy()
    spoiled[0, 1:] = np.nan
    args = np.array([0]), np.array([1])
    np.testing.assert_array_equal(orders.series_lsel(spoiled, *args), orders.series_lsel(scores, *args))


def test_a_smaller_order_wins_where_the_difference_is_noise():
    rng = np.random.default_rng(1)
    base = rng.uniform(0.1, 0.5, 400)
    losses = {0: base + rng.normal(0, 0.1, 400), 1: base - 0.001, 3: base + 0.2}
    chosen, seen = orders.choose(losses, np.ones(400))
    assert chosen == 0
    assert [one["order"] for one in seen] == [0, 1, 3]
    assert min(one["excess"] for one in seen) == 0


def test_a_clear_difference_is_believed():
    rng = np.random.default_rng(2)
    base = rng.uniform(0.1, 0.5, 400)
    assert orders.choose({0: base + 0.1, 2: base, 5: base + 0.05}, np.ones(400))[0] == 2


def test_series_of_a_rare_class_count_as_much_as_others():
    common, rare = np.zeros(90), np.ones(10)
    weights = np.concatenate([np.full(90, 100 / (2 * 90)), np.full(10, 100 / (2 * 10))])
    losses = {0: np.concatenate([common, rare]), 1: np.concatenate([common + 0.5, rare - 0.9])}
    assert orders.choose(losses, weights)[1][0]["validation_lsel"] == pytest.approx(0.5)
    assert orders.choose(losses, weights)[1][1]["validation_lsel"] == pytest.approx(0.3)


def small(**changes):
    settings = {"max_epochs": 20, "learning_rate": 0.01, "model_params": {"hidden": 16}}
    return sw.EarlyClassifier(**settings | changes)


@pytest.mark.parametrize(("order", "length"), [(1, 12), (2, 12)])
def test_an_autoregressive_world_gives_its_own_order(order, length, monkeypatch):
    monkeypatch.setattr(orders, "CANDIDATES", (0, 1, 2, 3))
    X, y, _ = sw.datasets.autoregressive(1000, dim=2, length=length, order=order, radius=0.8)
    clf = small().fit(X, y)
    assert clf.order_ == order
    assert [one["order"] for one in clf.order_search_] == [0, 1, 2, 3, length - 1]


def test_independent_samples_give_order_zero(monkeypatch):
    monkeypatch.setattr(orders, "CANDIDATES", (0, 1, 3))
    X, y, _ = sw.datasets.gaussian(1000, offset=0.7, dim=2, length=10)
    assert small().fit(X, y).order_ == 0


def test_the_search_is_kept_with_the_model(tmp_path):
    X, y, _ = sw.datasets.gaussian(100, dim=2, length=2)
    clf = small(max_epochs=1).fit(X, y)
    clf.save(tmp_path / "m")
    assert sw.load(tmp_path / "m").order_search_ == clf.order_search_


def test_without_validation_series_there_is_nothing_to_choose_on():
    X, y, _ = sw.datasets.gaussian(20, dim=2, length=3)
    with pytest.raises(ValueError, match="`order`='auto' needs validation series"):
        small(validation_fraction=0).fit(X, y)


def test_another_word_is_no_order():
    X, y, _ = sw.datasets.gaussian(20, dim=2, length=3)
    with pytest.raises(ValueError, match="`order` must be a whole number, None or 'auto'; got 'best'"):
        small(order="best").fit(X, y)


def test_a_handful_of_series_is_enough_to_choose_on():
    X, y, _ = sw.datasets.gaussian(8, offset=3.0, dim=2, length=3)
    assert small(max_epochs=2).fit(X, y).order_ in (0, 1, 2)


def test_a_few_series_that_lose_much_do_not_hide_a_worse_order():
    """Most series gain a little from scores that are too sure, and a few lose very much."""
    rng = np.random.default_rng(3)
    right = rng.uniform(0.1, 0.3, 500)
    too_sure = right - 0.05
    too_sure[:6] += 12.0
    order, seen = orders.choose({0: too_sure, 2: right}, np.ones(500))
    assert seen[0]["excess"] < 2 * seen[0]["standard_error"]
    assert order == 2
