"""Tests of prefixes as rows, against plain loops."""

import numpy as np
import pytest
import torch

from stopwise.models.networks.training import prefixes
from stopwise.models.networks.training.lags import Series, lag_features
from stopwise.models.networks.training.prefixes import Prefixes, nodes


def series(n=5, steps=9, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, steps + 1, n)
    z = rng.normal(size=(n, steps, 2)) * (np.arange(steps) < lengths[:, None])[..., None]
    weight = rng.uniform(size=n)
    return Series(torch.from_numpy(z).float(), np.arange(n) % 2, lengths, weight / weight.sum())


@pytest.mark.parametrize("steps", [1, 2, 5, 12, 13, 50, 1000])
def test_nodes_increase_from_the_first_step_to_the_last(steps):
    ours = nodes(steps)
    assert ours[0] == 1
    assert ours[-1] == steps
    assert (np.diff(ours) > 0).all()
    assert len(ours) == min(steps, prefixes.NODES)


def test_rows_are_sums_of_features_at_nodes():
    data = series()
    ours = Prefixes(data, segments=False).rows(lambda z: lag_features(z, 1))
    features = lag_features(data.z, 1)
    plain = [features[i, :node].sum(0) for i in range(5) for node in nodes(9)]
    torch.testing.assert_close(ours, torch.stack(plain), rtol=1e-5, atol=1e-5)


def test_rows_do_not_depend_on_chunks(monkeypatch):
    part = Prefixes(series(), segments=True)
    whole = part.rows(lambda z: lag_features(z, 2))
    monkeypatch.setattr(prefixes, "CHUNK", 1)
    torch.testing.assert_close(part.rows(lambda z: lag_features(z, 2)), whole)


def test_segments_start_without_a_past():
    data = series(steps=9)
    part = Prefixes(data, segments=True)
    rows = part.rows(lambda z: lag_features(z, 1)).numpy()[5 * 9 :].reshape(5, 3, 4, -1)
    for i in range(5):
        for number in range(3):
            start = int(max(data.lengths[i] - 4, 0) * (number + 1) / 3)
            cut = data.z[i : i + 1, start : start + 4]
            expected = lag_features(cut, 1)[0].cumsum(0)
            np.testing.assert_allclose(rows[i, number], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("order", [0, 1, 8, None])
def test_weights_of_a_series_sum_to_its_weight(segments, order):
    data = series()
    part = Prefixes(data, segments=segments)
    weight = part.weight(order).numpy()
    assert len(weight) == len(part.y)
    assert weight.sum() == pytest.approx(1, rel=1e-5)
    whole = weight[: 5 * 9].reshape(5, -1).sum(1)
    np.testing.assert_allclose(whole, data.weight / (2 if segments else 1), rtol=1e-5)


@pytest.mark.parametrize(("order", "counted"), [(0, 1), (1, 2), (2, 3), (5, 4), (None, 4)])
def test_segments_count_up_to_the_order(order, counted):
    data = series()
    there = Prefixes(data, segments=True).weight(order).numpy()[5 * 9 :].reshape(5, 3, 4) > 0
    np.testing.assert_array_equal(there.sum(2)[:, 0], np.minimum(counted, data.lengths))


def test_mean_over_steps_uses_the_last_node_before_each_step():
    data = series(steps=30)
    part = Prefixes(data, segments=False)
    losses = torch.from_numpy(np.random.default_rng(1).uniform(size=5 * len(part.nodes)))
    table = losses.numpy().reshape(5, -1)
    for i, ours in enumerate(part.per_series(losses)):
        steps = [np.searchsorted(part.nodes, t, side="right") - 1 for t in range(1, data.lengths[i] + 1)]
        assert ours == pytest.approx(np.mean([table[i, node] for node in steps]))
