import numpy as np
import pytest

from models.prefix import plain
from stopwise.models.prefix.features import Features, pools
from stopwise.models.prefix.kernels import changes, draw_kernels
from stopwise.models.prefix.pooling import kernel_outputs
from stopwise.models.prefix.series import Series
from stopwise.models.prefix.statistics import FEWEST_LEVELS, MOST_NUMBERS, MOST_PRODUCTS, Statistics


def walks(n=3, steps=30, channels=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, steps, channels)).cumsum(axis=1).astype(np.float32)


def draw(x):
    y = np.zeros(len(x), int)
    series = Series(x, y, np.full(len(x), x.shape[1]), y, 1)
    scale = np.ones(x.shape[2], np.float32)
    return Features.draw(series, scale, 64, 4, np.random.default_rng(0))


@pytest.mark.parametrize("dilation", [1, 3, 20])
def test_kernel_outputs_equal_the_plain_convolution(dilation):
    u = walks(1)[0, :, 0]
    taps = np.array([[0, 1, 2], [0, 4, 8], [6, 7, 8]], np.int32)
    expected = plain.kernel_outputs(u.astype(np.float64), dilation, taps)
    assert np.allclose(kernel_outputs(u, dilation, taps), expected, atol=1e-5)


def test_constant_values_have_no_output_at_any_level():
    """Rounding errors there would be features of the level, which differ by chance between classes."""
    taps = np.array([[0, 1, 2], [0, 4, 8], [1, 3, 6]], np.int32)
    for level in np.random.default_rng(0).lognormal(size=50):
        assert not kernel_outputs(np.full(30, level, np.float32), 2, taps).any()


def test_first_sample_has_the_same_pools_at_any_level():
    x = walks(n=50, steps=1, channels=3)
    block = draw_kernels(walks(channels=3), np.full(3, 30), 6, False, np.random.default_rng(1))
    assert np.ptp(pools(block, x, np.array([1])), axis=1).max() < 1e-6


@pytest.mark.parametrize("differences", [False, True])
@pytest.mark.parametrize("channels", [1, 4, 12])
def test_pools_equal_double_loops(differences, channels):
    x = walks(channels=channels)
    block = draw_kernels(x, np.full(len(x), 30), 6, differences, np.random.default_rng(1))
    times = np.array([1, 2, 7, 30])
    found = pools(block, x, times).reshape(4, len(x), 6, 4, 8)
    # In two pools, step 1 does not count: all outputs are zero there, and in the double loops, rounding
    # decides which is the largest.
    expected = plain.pools(block, x, times)
    assert np.allclose(found[:, :, :, :2], expected[:, :, :, :2], atol=1e-5)
    assert np.allclose(found[:, :, :, 2:].sum(-1), expected[:, :, :, 2:].sum(-1), atol=1e-5)
    apart = np.abs(found[-1, :, :, 2:] - expected[-1, :, :, 2:])
    assert apart.max() <= 2 / 30 * max(1, np.abs(expected[-1]).max())


def test_competition_pools_equal_double_loops_where_no_outputs_are_equal():
    x = walks(steps=40)
    block = draw_kernels(x, np.full(len(x), 40), 6, False, np.random.default_rng(1))
    late = np.array([39, 40])
    found = pools(block, x, late).reshape(2, len(x), 6, 4, 8) * late[:, None, None, None, None]
    expected = plain.pools(block, x, late) * late[:, None, None, None, None]
    assert np.allclose(found[1] - found[0], expected[1] - expected[0], atol=1e-4)


@pytest.mark.parametrize("channels", [1, 3, MOST_PRODUCTS + 3, FEWEST_LEVELS + 2])
@pytest.mark.parametrize("rows", [1, MOST_NUMBERS])
def test_statistics_equal_double_loops(channels, rows):
    x = walks(channels=channels)
    statistics = Statistics.draw(channels, np.random.default_rng(0), rows)
    times = [1, 2, 9, 30]
    expected = plain.statistics(x, times, statistics.levels, statistics.products, statistics.recent)
    found = statistics.of(x, times)
    assert list(found) == statistics.kinds
    for kind in found:
        assert np.allclose(found[kind], expected[kind], rtol=1e-4, atol=1e-4), kind


def test_levels_of_many_channels_are_projected_only_if_there_are_many_series():
    rng = np.random.default_rng(0)
    assert Statistics.draw(100, rng, rows=1000).levels.shape == (100, 100)
    assert Statistics.draw(100, rng, rows=MOST_NUMBERS).levels.shape == (100, FEWEST_LEVELS)


def test_after_the_end_of_a_series_its_features_stay():
    x, times = walks(n=4), np.array([1, 5, 12, 30])
    lengths = np.array([30, 12, 7, 1])
    features = draw(x)
    for b, end in enumerate(lengths):
        x[b, end:] = 1e3  # is not read
        seen, until = x[b : b + 1, :end], np.minimum(times, end)
        for block in features.blocks.values():
            found = pools(block, x, times, lengths)[:, b]
            alone = [pools(block, seen, until[g : g + 1])[0, 0] for g in range(4)]
            assert np.allclose(found, alone, rtol=1e-5, atol=1e-6)
        for kind, found in features.statistics.of(x, times, lengths).items():
            alone = [features.statistics.of(seen, until[g : g + 1])[kind][0, 0] for g in range(4)]
            assert np.allclose(found[:, b], alone, rtol=1e-6, atol=1e-6)


def test_no_feature_sees_the_future():
    x, times = walks(n=8), np.array([1, 5, 12])
    features = draw(x)
    changed = x.copy()
    changed[:, 12:] = 1e3
    for block in features.blocks.values():
        assert np.array_equal(pools(block, x, times), pools(block, changed, times))
    for one, other in zip(
        features.statistics.of(x, times).values(), features.statistics.of(changed, times).values()
    ):
        assert np.array_equal(one, other)


def test_kernels_are_drawn_from_the_seed_and_read_valid_channels():
    x = walks(channels=20)
    blocks = [draw_kernels(x, np.full(3, 30), 40, False, np.random.default_rng(3)) for _ in range(2)]
    assert np.array_equal(blocks[0].biases, blocks[1].biases)
    sizes = (blocks[0].members >= 0).sum(axis=1)
    assert sizes.min() >= 1
    assert sizes.max() <= 9
    assert blocks[0].dilations.max() <= 29 / 8


@pytest.mark.parametrize("steps", [1, 2, 8, 9, 10])
def test_short_series_have_features(steps):
    x = walks(n=4, steps=steps)
    features = draw(x)
    for block in features.blocks.values():
        assert np.isfinite(pools(block, x, np.array([steps]))).all()


def test_differences_start_at_zero():
    assert changes(np.array([[[1.0], [4.0], [2.0]]], np.float32)).ravel().tolist() == [0, 3, -2]
