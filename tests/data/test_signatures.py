import numpy as np
import pytest

from stopwise.data import signatures as module
from stopwise.data.series import SeriesSet
from stopwise.data.signatures import distinct, signatures


def hashes(X, scale=1.0):
    series = X if isinstance(X, SeriesSet) else SeriesSet(X)
    return signatures(series, np.arange(len(series)), np.full(series.channels, scale))


def equal(X, other, scale=1.0):
    """Return which series (n,) are recognized as equal."""
    return (hashes(X, scale) == hashes(other, scale)).any(1)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 40, 3))


def test_tiny_noise_is_tolerated_and_larger_changes_are_not():
    for size, share in ((0.0, 1.0), (1e-7, 0.999), (1e-6, 0.98)):
        assert equal(X, X + size * RNG.normal(size=X.shape)).mean() >= share
    for size in (1e-3, 0.1):
        assert not equal(X, X + size * RNG.normal(size=X.shape)).any()
    one = X.copy()
    one[:, 20, 1] += 0.1  # one value of 120
    assert not equal(X, one).any()


def test_noise_is_relative_to_the_scale_of_a_channel():
    noise = RNG.normal(size=X.shape)
    assert equal(1e6 * X, 1e6 * X + noise, scale=1e6).mean() > 0.98
    assert not equal(1e-6 * X, 1e-6 * X + 1e-6 * noise, scale=1e-6).any()


def test_what_is_not_recognized():
    for other in (1.01 * X, X + 0.01, X[:, ::-1], X[..., ::-1], -X):
        assert not equal(X, other).any()
    assert not equal(X[:, :39], X[:, 1:]).any()
    assert not (hashes(X[:, :39]) == hashes(X)).any()


@pytest.mark.parametrize("size", [1e-300, 1e-40, 1.0, 1e30, 1e300])
def test_any_magnitude(size):
    found = hashes(size * X[:200], scale=size)
    assert len(np.unique(found)) == 400
    assert equal(size * X[:200], size * X[:200].copy(), scale=size).all()


def test_types_containers_and_offsets():
    shifted = (X + 1e4).astype(np.float32)
    assert equal(shifted, shifted.astype(np.float64)).all()
    assert equal(X.astype(np.float32), X).all()
    assert equal(SeriesSet(list(X)), X).all()
    assert len(np.unique(hashes(np.zeros((3, 5)) + np.arange(3)[:, None]))) == 6  # constant series


def test_missing_values_and_lengths_are_part_of_the_hash():
    gaps = X[:50].copy()
    gaps[:, 3] = np.nan
    assert equal(gaps, gaps.copy()).all()
    zeros = np.nan_to_num(gaps)
    assert not equal(gaps, zeros).any()
    cut = SeriesSet(zeros, lengths=np.full(50, 30))
    assert equal(cut, X[:50, :30] * 0 + zeros[:, :30]).all()
    padded = np.concatenate([zeros[:, :30], np.zeros((50, 10, 3))], axis=1)
    assert not (hashes(padded) == hashes(cut)).any()


def test_long_series_are_projected_in_blocks(monkeypatch):
    values = X[:5].reshape(5, -1)  # (5, 120)
    weights = module._directions
    assert np.allclose(module._project(values, weights), values @ weights(0)[:120])
    expected = values[:, :50] @ weights(0)[:50] + values[:, 50:100] @ weights(1)[:50]
    expected += values[:, 100:] @ weights(2)[:20]
    monkeypatch.setattr(module, "BLOCK", 50)
    assert np.allclose(module._project(values, weights), expected)


def test_directions_are_divided_by_the_scale_of_the_channels(monkeypatch):
    scale = np.array([2.0, 3.0, 5.0])
    monkeypatch.setattr(module, "BLOCK", 50)  # a block starts in the middle of a sample

    def scaled(block):
        return module._scaled_directions(120, scale, block)

    expected = module._project((X[:5] / scale).reshape(5, -1), module._directions)
    assert np.allclose(module._project(X[:5].reshape(5, -1), scaled), expected)


def test_missing_or_huge_values_do_not_change_the_hashes_of_other_series():
    for value in (np.nan, 1e308):
        other = X[:20].copy()
        other[3, 5] = value
        assert np.delete((hashes(other) == hashes(X[:20])).all(1), 3).all()
        assert not (hashes(other) == hashes(X[:20]))[3].any()


def test_hashes_of_a_series_with_gaps_do_not_depend_on_longer_series():
    short = X[0, :10].copy()
    short[3] = np.nan
    alone, together = hashes(SeriesSet([short])), hashes(SeriesSet([short, X[1]]))
    assert np.array_equal(alone[0], together[0])


def test_the_directions_never_change():
    """Saved models hold hashes, so the random numbers must be the same in all versions."""
    assert module._directions(0)[0, :3].tolist() == pytest.approx([-1.69205, -0.89530, -1.34606], abs=1e-5)


def test_distinct_joins_series_that_share_a_hash():
    assert len(np.unique(distinct(hashes(X)))) == 1000
    twice = np.concatenate([X[:10], X[:5] + 1e-7])
    numbers = distinct(hashes(twice))
    assert (numbers[10:] == numbers[:5]).all()
    assert len(np.unique(numbers)) == 10
