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


def plain_segments(data):
    """Return the segments (3 samples) of each series with their labels, one by one."""
    for i in range(len(data)):
        for number in range(prefixes.SEGMENTS):
            start = int(max(data.lengths[i] - 3, 0) * (number + 1) / prefixes.SEGMENTS)
            yield i, data.z[i : i + 1, start : start + 3]


def test_windows_start_without_a_past():
    data = series(steps=9)
    part = Prefixes(data, segments=True)
    rows = part.rows(lambda z: lag_features(z, 1))[5 * 9 :]
    together, alone = rows.split([5 * prefixes.SEGMENTS * 3, 5 * prefixes.SEGMENTS * 2])
    labels = part.y[5 * 9 :].split([len(together), len(alone)])
    for number, (i, cut) in enumerate(plain_segments(data)):
        expected = lag_features(cut, 1)[0].cumsum(0)
        torch.testing.assert_close(together[3 * number : 3 * number + 3], expected, rtol=1e-5, atol=1e-5)
        assert (labels[0][3 * number : 3 * number + 3] == data.y[i]).all()
        for j in (1, 2):
            expected = lag_features(cut[:, j : j + 1], 1)[0, 0]
            torch.testing.assert_close(alone[2 * number + j - 1], expected, rtol=1e-5, atol=1e-5)
            assert labels[1][2 * number + j - 1] == data.y[i]


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("order", [0, 1, 8, None])
def test_weights_of_a_series_sum_to_its_weight(segments, order):
    data = series()
    part = Prefixes(data, segments=segments)
    weight = part.weight(order).numpy()
    assert len(weight) == len(part.y)
    assert weight.sum() == pytest.approx(1, rel=1e-5)
    whole = weight[: 5 * 9].reshape(5, -1).sum(1)
    np.testing.assert_allclose(whole, data.weight / (2 if segments and order is not None else 1), rtol=1e-5)


@pytest.mark.parametrize(
    ("order", "together"), [(0, [1, 0, 0]), (1, [1, 1, 0]), (2, [1, 1, 1]), (5, [1, 1, 1])]
)
def test_every_sample_of_a_segment_belongs_to_one_window(order, together):
    data = series()
    weight = Prefixes(data, segments=True).weight(order).numpy()[5 * 9 :]
    joint, alone = np.split(weight, [5 * prefixes.SEGMENTS * 3])
    joint, alone = joint.reshape(-1, 3), alone.reshape(-1, 2)
    lengths = np.repeat(np.minimum(data.lengths, 3), prefixes.SEGMENTS)
    there = np.arange(3) < lengths[:, None]
    np.testing.assert_array_equal(joint > 0, there & np.array(together, bool))
    np.testing.assert_array_equal(alone > 0, (there & ~np.array(together, bool))[:, 1:])
    own = np.repeat(data.weight / 2 / prefixes.SEGMENTS, prefixes.SEGMENTS)
    np.testing.assert_allclose(joint.sum(1) + alone.sum(1), own, rtol=1e-5)


def test_mean_over_steps_uses_the_last_node_before_each_step():
    data = series(steps=30)
    part = Prefixes(data, segments=False)
    losses = torch.from_numpy(np.random.default_rng(1).uniform(size=5 * len(part.nodes)))
    table = losses.numpy().reshape(5, -1)
    for i, ours in enumerate(part.per_series(losses)):
        steps = [np.searchsorted(part.nodes, t, side="right") - 1 for t in range(1, data.lengths[i] + 1)]
        assert ours == pytest.approx(np.mean([table[i, node] for node in steps]))


def test_deviations_are_per_step_and_without_growth():
    rng = np.random.default_rng(0)
    z = torch.from_numpy(rng.normal(size=(4000, 20, 2)) * [1.0, 3.0] + [5.0, 0.0]).float()
    data = Series(z, np.arange(4000) % 2, np.full(4000, 20), np.full(4000, 1 / 4000))
    part = Prefixes(data, segments=False)
    ones = torch.ones(len(part.y), 1)
    rows = torch.cat([part.rows(lambda z: z), ones], dim=1)
    np.testing.assert_allclose(part.deviations(rows), [1.0, 3.0, 1.0], rtol=0.05)
