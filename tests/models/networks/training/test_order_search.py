"""Tests of the order search: losses, choice of the order, and data of known order."""

import os
from pathlib import Path

import numpy as np
import pytest
from small_worlds import autoregressive, examples, gaussian, task

from stopwise import datasets
from stopwise.datasets import hidden_markov
from stopwise.models import Accumulator, TanhTandem, Training
from stopwise.models.networks import base
from stopwise.models.networks.training import order_search, trials
from stopwise.models.networks.training.trials import series_lsel


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


def test_tiny_excess_is_not_worth_a_larger_order():
    base = np.random.default_rng(4).uniform(0.1, 0.5, 400)
    assert order_search.choose({0: 1.01 * base, 1: base}, np.ones(400))[0] == 0
    assert order_search.choose({0: 1.05 * base, 1: base}, np.ones(400))[0] == 1


def test_fits_are_chosen_on_the_other_half():
    rng = np.random.default_rng(5)
    losses, weight = rng.normal(size=(20, 200)), np.full(200, 1 / 200)
    lowest = losses.mean(1).min()
    assert lowest < -0.05
    chosen = order_search.crosswise(losses, weight)
    assert abs(chosen.mean()) < 0.1
    assert chosen.mean() > lowest + 0.03
    better = losses - 5 * (np.arange(20) == 3)[:, None]
    np.testing.assert_array_equal(order_search.crosswise(better, weight), better[3])


def test_single_series_can_be_judged():
    assert order_search.crosswise(np.array([[2.0], [1.0]]), np.ones(1)).tolist() == [1.0]


def found(X, y, seed=0, tried=None, **options):
    """Return the chosen order and the records of a search on a new split of the data."""
    data = examples(X, y, **options)
    train_set, held = data.split(0.1, seed)
    tried = order_search.candidates(data.steps) if tried is None else tried
    return order_search.search(tried, task(train_set, held, seed=seed))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_order_of_autoregressive_data_is_found(order):
    chosen, seen = found(*autoregressive(400, order))
    assert chosen == order
    assert [one["order"] for one in seen] == [0, 1, 2, 3, 5, 8, None]


def test_independent_samples_give_order_zero():
    X, y, _ = gaussian(400, offset=0.7, channels=2, steps=8)
    assert found(X, y)[0] == 0


def test_common_noise_that_depends_on_the_past_is_found():
    """The classes differ in their means only, but a sample repeats most of the noise of the previous one."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(3000) % 2)
    noise = rng.normal(size=(3000, 30))
    for t in range(1, 30):
        noise[:, t] = 0.8 * noise[:, t - 1] + 0.6 * noise[:, t]
    chosen, seen = found((noise + (y - 0.5)[:, None])[..., None], y)
    assert chosen == 1
    assert seen[0]["excess"] > 2 * seen[0]["standard_error"]


def test_hidden_state_has_no_finite_order():
    X, y, _ = hidden_markov(4000)
    assert found(X, y)[0] is None


def test_loss_of_search_is_near_that_of_the_exact_scores():
    X, y, truth = gaussian(3000, offset=0.7, channels=2, steps=8)
    exact = series_lsel(truth, y, np.full(3000, 8)).mean()
    assert found(X, y)[1][0]["validation_lsel"] == pytest.approx(exact, rel=0.05)


def test_search_is_the_same_for_the_same_seed():
    X, y = autoregressive(300, 1)
    assert found(X, y, seed=3) == found(X, y, seed=3)
    assert found(X, y, seed=3) != found(X, y, seed=4)


def test_search_takes_only_the_given_orders():
    X, y = autoregressive(300, 2)
    chosen, seen = found(X, y, tried=[0, 2])
    assert chosen == 2
    assert [one["order"] for one in seen] == [0, 2]


def test_padding_does_not_change_the_search():
    X, y = autoregressive(300, 1)
    lengths = np.random.default_rng(0).integers(3, 13, 300)
    padded = np.where((np.arange(12) < lengths[:, None])[..., None], X, 1e3)
    assert found(X, y, lengths=lengths) == found(padded, y, lengths=lengths)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_order_does_not_depend_on_the_scale_of_the_samples(factor):
    X, y = autoregressive(400, 1)
    assert found(factor * X, y)[0] == 1


def test_order_is_found_among_many_channels_of_noise():
    X, y = autoregressive(600, 1)
    noise = np.random.default_rng(1).normal(size=(600, 12, 200))
    assert found(np.concatenate([noise, X], axis=2), y)[0] == 1


def test_groups_are_not_split_by_the_search(monkeypatch):
    X, y = autoregressive(200, 1)
    groups = np.arange(200) % 20
    X[..., 0] = groups[:, None]  # the group of a series can be read from it
    seen = []
    read = order_search.read_series

    def spy(parts, *given):
        seen.append({int(x) for part in parts for x in part.read(np.arange(len(part)))[0][:, 0, 0]})
        return read(parts, *given)

    monkeypatch.setattr(order_search, "read_series", spy)
    found(X, y, groups=groups)
    fitted, compared = seen[::2], seen[1::2]
    assert fitted == compared[::-1]  # each half of the groups is fitted once and compared once
    assert not fitted[0] & fitted[1]
    assert min(map(len, fitted)) > 5


@pytest.mark.parametrize("groups", [2, 3])
def test_few_groups_can_be_searched(groups):
    X, y = autoregressive(200, 1)
    assert found(X, y, groups=np.arange(200) // 2 % groups)[0] == 1


def test_groups_of_one_class_each_are_searched_in_one_round():
    """No half of the groups has all classes, so the halves are not exchanged."""
    X, y = autoregressive(240, 1)
    assert found(X, y, groups=3 * y + np.arange(240) // 2 % 3)[0] == 1


@pytest.mark.parametrize("n", [4, 8, 30])
@pytest.mark.parametrize("classes", [2, 3])
def test_search_works_with_few_series(n, classes):
    X, y, _ = gaussian(n, offset=3.0, channels=2, steps=3, classes=classes)
    assert found(X, y)[0] in (0, 1, None)


def test_search_uses_sample_of_large_data(monkeypatch):
    monkeypatch.setattr(order_search, "SEARCH_SERIES", 30)
    monkeypatch.setattr(order_search, "LEAST_SERIES", 10)
    sizes = []
    read = order_search.read_series

    def spy(parts, *given):
        sizes.append(sum(len(part) for part in parts))
        return read(parts, *given)

    monkeypatch.setattr(order_search, "read_series", spy)
    found(*autoregressive(200, 1))
    assert sizes == [30, 30]


def test_search_uses_fewer_series_with_many_classes(monkeypatch):
    counts = []
    monkeypatch.setattr(order_search, "_read", lambda part, held, count, task: counts.append(count))
    for classes in (2, 4, 8, 100):
        X, y, _ = gaussian(4 * classes, channels=classes, steps=3, classes=classes)
        train_set, held = examples(X, y).split(0.5, 0)
        order_search._rounds(task(train_set, held))
    assert counts == [2000, 2000, 1000, order_search.LEAST_SERIES]


def test_best_finite_order_ignores_no_finite_order():
    seen = [{"order": n, "validation_lsel": loss} for n, loss in ((0, 0.5), (1, 0.3), (2, 0.299), (None, 0))]
    assert order_search.best_finite_order(seen) == 1


@pytest.mark.parametrize("kind", [Accumulator, TanhTandem])
def test_no_network_is_trained_to_find_the_order(kind, monkeypatch):
    trained, train = [], base.train

    def spy(net, *given, **options):
        trained.append(net.order)
        return train(net, *given, **options)

    monkeypatch.setattr(base, "train", spy)
    monkeypatch.setattr(trials, "train", spy)
    model = kind(hidden=4, training=Training(max_epochs=1)).fit(examples(*autoregressive(400, 1)))
    assert trained == [1]
    assert model.order_ == 1


def test_series_of_one_sample_have_order_zero():
    X, y, _ = gaussian(20, channels=2, steps=1)
    model = Accumulator(hidden=4, training=Training(max_epochs=1)).fit(examples(X, y))
    assert model.order_ == 0
    assert [one["order"] for one in model.report_["order_search"]] == [0]


def test_order_search_without_validation_series_raises():
    X, y, _ = gaussian(20, channels=2, steps=3)
    model = Accumulator(training=Training(validation_fraction=0))
    with pytest.raises(ValueError, match="`order`='auto' needs validation series"):
        model.fit(examples(X, y))


WORLDS = {
    "gaussian-a2": (lambda seed: datasets.gaussian(20_000, offset=2.0, seed=seed), 0),
    "gaussian-a1": (lambda seed: datasets.gaussian(20_000, offset=1.0, seed=seed), 0),
    "gaussian-3": (lambda seed: datasets.gaussian(20_000, offset=2.0, classes=3, seed=seed), 0),
    "autoregressive-1": (lambda seed: datasets.autoregressive(20_000, order=1, seed=seed), 1),
    "autoregressive-2": (lambda seed: datasets.autoregressive(20_000, order=2, seed=seed), 2),
    "hidden-markov": (lambda seed: datasets.hidden_markov(20_000, seed=seed), None),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("world", WORLDS)
def test_order_of_known_worlds_is_found_for_every_seed(world, seed):
    made, order = WORLDS[world]
    X, y, _ = made(seed)
    assert found(X, y, seed=seed)[0] == order


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_activities_have_order_two_or_more(seed):
    path = Path(os.environ.get("STOPWISE_DATA", "data")) / "uci_hapt.npz"
    if not path.exists():
        pytest.skip("needs uci_hapt.npz in STOPWISE_DATA")
    with np.load(path) as data:
        X, y, subjects = data["X_train"][:, ::4], data["y_train"], data["subject_train"]
    X = (X - X.mean((0, 1))) / X.std((0, 1))
    order = found(X, y, seed=seed, groups=subjects)[0]
    assert order is None or order >= 2
