import numpy as np
import pytest
from scipy.stats import chisquare

from stopwise.datasets import NosaicSeries, nosaic_mnist

IMAGES = np.random.default_rng(0).integers(0, 255, (30, 9, 7)).astype(np.uint8)  # not 255, the hidden value


def test_growing_reveals_ten_more_pixels_per_frame_and_keeps_them():
    X = NosaicSeries(IMAGES, length=6, per_frame=10)[:]
    assert (X.shape, X.dtype) == ((30, 6, 9, 7), np.uint8)
    shown = X != 255
    np.testing.assert_array_equal(shown.sum(axis=(2, 3)), np.tile(np.arange(10, 61, 10), (30, 1)))
    assert (shown[:, 1:] >= shown[:, :-1]).all()
    np.testing.assert_array_equal(np.where(shown, X, 0), np.where(shown, IMAGES[:, None], 0))


def test_defaults_reveal_ten_pixels_per_frame():
    X = NosaicSeries(np.zeros((2, 28, 28), np.uint8))[:]
    assert (X == 0).sum(axis=(2, 3)).tolist() == [list(range(10, 201, 10))] * 2


def test_fresh_frames_draw_positions_independently_with_replacement():
    X = NosaicSeries(np.zeros((200, 10, 10), np.uint8), length=20, per_frame=15, kind="fresh", seed=1)[:]
    assert set(np.unique(X)) == {0, 255}
    counts = (X == 0).sum(axis=(2, 3)).ravel()
    assert counts.max() <= 15
    # The expected number of distinct positions among 15 draws of 100.
    assert counts.mean() == pytest.approx(100 * (1 - 0.99**15), abs=5 * counts.std() / np.sqrt(len(counts)))
    both = ((X[:, 0] == 0) & (X[:, 1] == 0)).mean()
    assert both == pytest.approx((X == 0).mean() ** 2, abs=0.005)


@pytest.mark.parametrize("kind", ["growing", "fresh"])
def test_pixels_are_uniform_and_differ_between_images_and_seeds(kind):
    black = np.zeros((3000, 5, 4), np.uint8)
    first = (NosaicSeries(black, 1, 5, kind)[:] == 0).sum(axis=(0, 1)).ravel()  # (20,)
    assert chisquare(first).pvalue > 1e-4
    X, other = NosaicSeries(black[:50], 1, 5, kind)[:], NosaicSeries(black[:50], 1, 5, kind, seed=1)[:]
    assert len({one.tobytes() for one in [*X, *other]}) > 90


@pytest.mark.parametrize("kind", ["growing", "fresh"])
def test_image_has_the_same_frames_in_any_batch(kind):
    lazy = NosaicSeries(IMAGES, 4, 3, kind, seed=5)
    X, y = nosaic_mnist(IMAGES, np.arange(30), length=4, per_frame=3, kind=kind, seed=5)
    permutation = np.random.default_rng(1).permutation(30)
    np.testing.assert_array_equal(lazy[permutation], X[permutation])
    np.testing.assert_array_equal(lazy[-1], X[29])
    np.testing.assert_array_equal(lazy[3:20:4], X[3:20:4])
    np.testing.assert_array_equal(lazy[y > 20], X[y > 20])
    np.testing.assert_array_equal(np.asarray(lazy), X)
    np.testing.assert_array_equal(NosaicSeries(IMAGES[:7], 4, 3, kind, seed=5)[:], X[:7])
    assert (len(lazy), lazy.shape, lazy.ndim, lazy.dtype) == (30, X.shape, 4, X.dtype)
    assert lazy[[]].shape == (0, 4, 9, 7)
    assert repr(lazy) == f"NosaicSeries(30 images of 9 x 7, 4 frames, {kind}, seed=5)"


def test_longer_video_starts_with_the_frames_of_a_shorter_one():
    np.testing.assert_array_equal(NosaicSeries(IMAGES, 5)[:], NosaicSeries(IMAGES, 6)[:][:, :5])


BAD = {
    "float": ({"images": IMAGES / 255}, r"`images` must be uint8 of shape \(n, H, W\).*got float64"),
    "flat": ({"images": IMAGES.reshape(30, 63)}, r"`images` must be uint8 .*got uint8 of shape \(30, 63\)"),
    "long": ({"length": 7}, r"must be at most 63, the number of pixels; got 7 · 10 = 70"),
    "none": ({"per_frame": 0}, "`per_frame` must be >= 1"),
    "kind": (
        {"kind": "grow"},
        "`kind` must be one of 'growing', 'fresh'; got 'grow'. Did you mean 'growing'",
    ),
    "labels": (
        {"labels": [1, 2]},
        r"`labels` must have shape \(30,\), one label per image; got shape \(2,\)",
    ),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_invalid_arguments_raise(changes, message):
    arguments = {"images": IMAGES, "labels": np.arange(30), "length": 5} | changes
    with pytest.raises(ValueError, match=message):
        nosaic_mnist(arguments.pop("images"), arguments.pop("labels"), **arguments)


def test_invalid_index_raises():
    with pytest.raises(IndexError, match="NosaicSeries takes an integer, a slice"):
        NosaicSeries(IMAGES, 2)[0, 1]
    with pytest.raises(IndexError, match="index 30 is out of bounds for 30 series"):
        NosaicSeries(IMAGES, 2)[30]
