import numpy as np
import pytest

from stopwise.data import fingerprints
from stopwise.data.fingerprints import Fingerprints
from stopwise.data.series import SeriesSet


def data(n=300, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 7, 2))


def places(seen, X):
    return np.flatnonzero(seen.matches(X if isinstance(X, SeriesSet) else SeriesSet(X))).tolist()


def test_known_series_match_in_any_type_and_container():
    X = data()
    seen = Fingerprints.of([SeriesSet(X[:200])])
    assert places(seen, X[150:]) == list(range(50))
    assert places(seen, X[150:].astype(np.float32)) == list(range(50))
    assert places(seen, list(X[199:])) == [0]
    assert places(seen, data(seed=1)) == []


def test_noise_relative_to_the_deviation_of_a_channel_is_tolerated():
    X = data() * [1e3, 1e-3]
    seen = Fingerprints.of([SeriesSet(X)])
    noise = 1e-7 * np.random.default_rng(1).normal(size=X.shape)
    assert len(places(seen, X + noise * [1e3, 1e-3])) >= 299
    assert not places(seen, X + noise * [1e3, 1e3])  # the second channel changes by a tenth of its deviation


def test_the_hash_depends_on_the_length_but_not_on_padding():
    X = data()
    cut = [x[: 1 + i % 7] for i, x in enumerate(X)]
    seen = Fingerprints.of([SeriesSet(cut)])
    padded = SeriesSet(X, lengths=[len(x) for x in cut])
    assert len(places(seen, padded)) == 300
    assert len(places(seen, X)) == sum(len(x) == 7 for x in cut)


def test_series_with_missing_values_match():
    X = data()
    X[::2, 3] = np.nan
    seen = Fingerprints.of([SeriesSet(X)])
    assert len(places(seen, X.copy())) == 300


def test_large_sets_are_sampled_in_proportion(monkeypatch):
    monkeypatch.setattr(fingerprints, "MOST_SERIES", 60)
    X = data()
    seen = Fingerprints.of([SeriesSet(X[:200]), SeriesSet(X[200:])])
    assert len(seen.hashes) == 2 * 60
    assert seen.sampled == 0.2
    found = np.array(places(seen, X))
    assert ((found < 200).sum(), (found >= 200).sum()) == (40, 20)
    monkeypatch.setattr(fingerprints, "MOST_NUMBERS", 14 * 30)
    assert len(Fingerprints.of([SeriesSet(X)]).hashes) == 2 * 30


def test_how_many_new_series_match_by_chance():
    assert Fingerprints.of([SeriesSet(data())]).expected == 0.0
    X = data()
    X[1] = X[0]
    assert Fingerprints.of([SeriesSet(X)]).expected == pytest.approx(2 / 300)
    assert len(places(Fingerprints.of([SeriesSet(X)]), X)) == 300
    rng = np.random.default_rng(0)
    dice = rng.integers(0, 6, size=(1000, 4))  # 1296 series
    seen = Fingerprints.of([SeriesSet(dice[:500])])
    assert seen.expected == pytest.approx(seen.matches(SeriesSet(dice[500:])).mean(), abs=0.06)


def test_sets_whose_series_repeat_match_nothing():
    coins = np.random.default_rng(0).integers(0, 2, size=(500, 5))
    seen = Fingerprints.of([SeriesSet(coins)])
    assert seen.expected > 0.9
    assert not places(seen, coins)


def test_repeats_are_all_but_the_first():
    X = data(n=10)
    seen = Fingerprints.of([SeriesSet(data(seed=1))])
    mixed = SeriesSet(X[[0, 1, 0, 2, 1, 1]] + 1e-8)
    assert seen.repeats(mixed).tolist() == [False, False, True, False, True, True]


def test_conversion_to_text_and_back():
    seen = Fingerprints.of([SeriesSet(data())])
    again = Fingerprints.from_text(seen.to_text())
    assert np.array_equal(again.hashes, seen.hashes)
    assert np.array_equal(again.scale, seen.scale)
    assert (again.sampled, again.expected) == (1.0, 0.0)
    assert len(seen.to_text()) == 2 * 300 * 6 * 5 / 4 + 1 + 4 * 8 * 5 / 4
    empty = Fingerprints(np.zeros(0, np.uint64), np.ones(1), 0.5, 0.6)
    assert Fingerprints.from_text(empty.to_text()).expected == 0.6


@pytest.mark.parametrize("text", ["", "abcde", "abcde:", ":abcde", "a:b:c", "\0:\0", "00000:00000"])
def test_damaged_text_raises(text):
    with pytest.raises(ValueError, match="the fingerprints of the training series are damaged"):
        Fingerprints.from_text(text)
