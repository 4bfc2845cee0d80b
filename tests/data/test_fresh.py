import numpy as np
import pytest

from stopwise.data.fingerprints import Fingerprints
from stopwise.data.fresh import independent
from stopwise.data.series import SeriesSet

X = np.random.default_rng(0).normal(size=(500, 12, 2))
SEEN = Fingerprints.of([SeriesSet(X[:100])])


def test_new_series_all_count():
    assert independent(SeriesSet(X[100:]), SEEN, "once").all()


def test_a_few_training_series_are_left_out_with_a_warning():
    with pytest.warns(
        UserWarning, match=r"contains 4 of 404 series that were used in fit \(series 0, 1, 2, …\)"
    ):
        counted = independent(SeriesSet(X[96:]), SEEN, "all")
    assert np.flatnonzero(~counted).tolist() == [0, 1, 2, 3]


def test_many_training_series_are_refused():
    with pytest.raises(ValueError, match=r"40 of 440 were given to fit.*Up to 5% would be left out"):
        independent(SeriesSet(X[60:]), SEEN, "once")


def test_a_sample_of_the_training_series_stands_for_all_of_them():
    sampled = Fingerprints(SEEN.hashes, SEEN.scale, sampled=0.1)
    with pytest.raises(ValueError, match="4 of 404 were given to fit"):  # an estimated 40
        independent(SeriesSet(X[96:]), sampled, "once")


def test_chance_matches_are_allowed_for():
    dice = np.random.default_rng(0).integers(0, 6, size=(1000, 4))
    seen = Fingerprints.of([SeriesSet(dice[:500])])
    with pytest.warns(UserWarning, match="were used in fit"):
        counted = independent(SeriesSet(dice[500:]), seen, "all")
    assert 0.5 < counted.mean() < 0.8
    with pytest.raises(ValueError, match="500 of 500 were given to fit"):
        independent(SeriesSet(dice[:500]), seen, "all")


def test_copies_count_once_with_a_warning():
    copies = SeriesSet(np.concatenate([X[100:110]] * 20) + 1e-7)
    with pytest.warns(
        UserWarning, match=r'190 of 200 series that are copies.*there are 10 series.*copies="all"'
    ):
        assert np.flatnonzero(independent(copies, SEEN, "once")).tolist() == list(range(10))
    assert independent(copies, SEEN, "all").all()


def test_unknown_choice_raises():
    with pytest.raises(ValueError, match="`copies` must be one of 'once', 'all'; got 'twice'"):
        independent(SeriesSet(X[100:]), SEEN, "twice")
