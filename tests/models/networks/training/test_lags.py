"""Tests of the features of the order search against plain loops."""

import numpy as np
import pytest
import torch
from small_worlds import examples

from stopwise.models.networks.training import lags
from stopwise.models.networks.training.lags import (
    evidence_view,
    lag_features,
    read_series,
    recurrent_features,
)


def series(n=4, steps=5, channels=3, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, steps, channels))).float()


def plain_lag(z, step, lag):
    """Compute the features of one step of one series z (T, q)."""
    now = z[step]
    if lag == 0:
        return [1, *now, *(now[i] * now[j] for i in range(len(now)) for j in range(i, len(now)))]
    early = step < lag
    before = np.zeros_like(now) if early else z[step - lag]
    return [early, *(early * now), *before, *(a * b for a in now for b in before)]


@pytest.mark.parametrize("lag", [0, 1, 3, 7])
def test_lag_features_equal_plain_loop(lag):
    z = series()
    ours = lag_features(z, lag)
    for i in range(4):
        for step in range(5):
            np.testing.assert_allclose(ours[i, step], plain_lag(z[i].numpy(), step, lag), rtol=1e-6)


def test_only_first_directions_are_multiplied(monkeypatch):
    monkeypatch.setattr(lags, "PRODUCTS", 2)
    z = series()
    assert lag_features(z, 0).shape[-1] == 1 + 3 + 3
    torch.testing.assert_close(lag_features(z, 1), lag_features(z[..., :2], 1))


def test_recurrent_features_depend_on_past_and_seed_only():
    z = series()
    changed = z.clone()
    changed[:, 3:] += 1
    ours = recurrent_features(z, 0)
    assert torch.equal(recurrent_features(z, 0), ours)
    torch.testing.assert_close(recurrent_features(changed, 0)[:, :3], ours[:, :3])
    assert not torch.allclose(recurrent_features(changed, 0)[:, 3:], ours[:, 3:])
    assert not torch.allclose(recurrent_features(z, 1), ours)


def test_recurrent_features_remember_the_first_sample():
    z = series()
    changed = z.clone()
    changed[:, 0] += 1
    assert not torch.allclose(recurrent_features(changed, 0)[:, -1], recurrent_features(z, 0)[:, -1])


def labeled(n=400, steps=10, channels=20, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, steps, channels)), rng.permutation(np.arange(n) % 2), rng


def share(view, direction):
    """Return the share of a direction (C,) that the first directions of a view cover."""
    q, _ = np.linalg.qr(view.directions[:, : lags.PRODUCTS])
    return np.linalg.norm(q.T @ direction) / np.linalg.norm(direction)


def test_direction_of_different_means_is_found():
    X, y, rng = labeled()
    direction = rng.normal(size=20) / 20**0.5
    X += 0.5 * y[:, None, None] * direction
    assert share(evidence_view(examples(X, y), 0), direction) > 0.95


def test_direction_of_different_variance_is_found():
    X, y, rng = labeled()
    direction = rng.normal(size=20) / 20**0.5
    X += 1.5 * y[:, None, None] * rng.normal(size=(400, 10, 1)) * direction
    assert share(evidence_view(examples(X, y), 0), direction) > 0.95


@pytest.mark.parametrize("lag", [1, 2, 5])
def test_direction_of_different_dependence_is_found(lag):
    X, y, rng = labeled(800)
    direction = rng.normal(size=20)
    direction /= np.linalg.norm(direction)
    for t in range(lag, 10):
        before = X[:, t - lag] @ direction
        X[:, t] += 0.7 * ((2 * y - 1) * before)[:, None] * direction
    assert share(evidence_view(examples(X, y), 0), direction) > 0.9


def test_channels_are_screened_by_evidence(monkeypatch):
    monkeypatch.setattr(lags, "SCREENED_CHANNELS", 5)
    X, y, _ = labeled()
    X[..., 3] += y[:, None]
    X[..., 7] *= 1 + y[:, None]
    X[:, 1:, 11] += 0.9 * (2 * y - 1)[:, None] * X[:, :-1, 11]
    used = np.abs(evidence_view(examples(X, y), 0).directions).sum(1) > 0
    assert used.sum() == 5
    assert used[[3, 7, 11]].all()


def test_constant_channels_and_large_offsets_are_harmless():
    X, y, _ = labeled(channels=3)
    X[..., 0] += y[:, None]
    plain = evidence_view(examples(X, y), 0)
    shifted = np.concatenate([1000 + 100 * X, np.full((*X.shape[:2], 1), 7.0)], axis=2)
    other = evidence_view(examples(shifted, y), 0)
    x, more = X.astype(np.float32), shifted.astype(np.float32)
    lengths = np.full(len(X), 10)
    ours, theirs = plain(x, lengths)[..., 0].numpy(), other(more, lengths)[..., 0].numpy()
    assert np.isfinite(theirs).all()
    assert abs(np.corrcoef(ours.ravel(), theirs.ravel())[0, 1]) > 0.99


def test_series_are_read_with_lengths_and_class_weights():
    X, y, rng = labeled(30, channels=3)
    y[:20] = 0
    lengths = rng.integers(1, 11, 30)
    parts = [examples(X[:12], y[:12], classes=2, lengths=lengths[:12])]
    parts.append(examples(X[12:], y[12:], classes=2, lengths=lengths[12:]))
    view = evidence_view(parts[1], 0)
    ours = read_series(parts, view, size=7)
    np.testing.assert_array_equal(ours.y, y)
    np.testing.assert_array_equal(ours.lengths, lengths)
    assert ours.weight.sum() == pytest.approx(1)
    assert ours.weight[y == 0].sum() == pytest.approx(0.5)
    for i in range(30):
        expected = (X[i, : lengths[i]].astype(np.float32) - view.center) @ view.directions
        np.testing.assert_allclose(ours.z[i, : lengths[i]], expected, rtol=1e-3, atol=1e-4)
        assert not ours.z[i, lengths[i] :].any()
