import numpy as np
import pytest

from stopwise.data import fingerprints
from stopwise.data.fingerprints import Fingerprints
from stopwise.data.series import SeriesSet


def data(n=300, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 7, 2))


def test_known_series_match_in_any_type_and_container():
    X = data()
    seen = Fingerprints.of([SeriesSet(X[:200])])
    assert seen.matches(SeriesSet(X[150:])).tolist() == list(range(50))
    assert seen.matches(SeriesSet(X[150:].astype(np.float32))).tolist() == list(range(50))
    assert seen.matches(SeriesSet(list(X[199:]))).tolist() == [0]
    assert not len(seen.matches(SeriesSet(data(seed=1))))


def test_the_hash_depends_on_the_length_but_not_on_padding():
    X = data()
    cut = [x[: 1 + i % 7] for i, x in enumerate(X)]
    seen = Fingerprints.of([SeriesSet(cut)])
    padded = SeriesSet(np.where(np.isnan(X), 0, X), lengths=[len(x) for x in cut])
    assert len(seen.matches(padded)) == 300
    assert len(seen.matches(SeriesSet(X))) == sum(len(x) == 7 for x in cut)


def test_series_with_missing_values_match():
    X = data()
    X[::2, 3] = np.nan
    seen = Fingerprints.of([SeriesSet(X)])
    assert len(seen.matches(SeriesSet(X.copy()))) == 300


def test_large_sets_are_sampled_in_proportion(monkeypatch):
    monkeypatch.setattr(fingerprints, "MOST_SERIES", 60)
    X = data()
    seen = Fingerprints.of([SeriesSet(X[:200]), SeriesSet(X[200:])])
    assert len(seen.hashes) == 60
    places = seen.matches(SeriesSet(X))
    assert ((places < 200).sum(), (places >= 200).sum()) == (40, 20)
    monkeypatch.setattr(fingerprints, "MOST_NUMBERS", 14 * 30)
    assert len(Fingerprints.of([SeriesSet(X)]).hashes) == 30


def test_sets_with_many_identical_series_match_nothing():
    coins = np.random.default_rng(0).integers(0, 2, size=(500, 5))
    assert not len(Fingerprints.of([SeriesSet(coins)]).matches(SeriesSet(coins)))
    X = data()
    X[1] = X[0]  # one copy is allowed
    assert len(Fingerprints.of([SeriesSet(X)]).matches(SeriesSet(X))) == 300


def test_conversion_to_text_and_back():
    seen = Fingerprints.of([SeriesSet(data())])
    again = Fingerprints.from_text(seen.to_text())
    assert np.array_equal(again.hashes, seen.hashes)
    assert len(seen.to_text()) == 300 * 6 * 5 / 4
    assert not len(Fingerprints.from_text("").hashes)
    with pytest.raises(ValueError, match="reshape"):
        Fingerprints.from_text("abcde")
