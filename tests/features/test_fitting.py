import numpy as np
import pytest
import torch
from torch import nn

from stopwise.datasets import NosaicSeries
from stopwise.features import encode, fit_encoder
from stopwise.features.fitting import _class_weights, _EncoderTraining, _scale_hidden
from stopwise.features.frames import Frames

SIDE = 12


def bars(n=60, steps=6, channels=None, seed=0, classes=("horizontal", "vertical")):
    """Return videos of a horizontal or vertical bar; the first half of the frames is noise only."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % len(classes)
    frames = rng.integers(0, 60, (n, steps, SIDE, SIDE)).astype(np.uint8)
    for i, k in enumerate(y):
        for t in range(steps // 2, steps):
            at = rng.integers(1, SIDE - 1)
            (frames[i, t] if k == 0 else frames[i, t].T)[at] += 150
    if channels:
        frames = np.repeat(frames[..., None], channels, axis=4)
    return frames, np.array(classes)[y]


def accuracy(encoder, head, frames, y, classes=("horizontal", "vertical")):
    """Return the accuracy (T,) of the logits at each step."""
    with torch.no_grad():
        logits = head(torch.from_numpy(encode(encoder, frames)))
    return (np.array(classes)[logits.argmax(-1).numpy()] == y[:, None]).mean(axis=0)


@pytest.mark.parametrize("channels", [None, 1, 3])
def test_only_frames_with_content_are_classified_correctly(channels):
    frames, y = bars(200, channels=channels)
    head = nn.Linear(8, 2)
    encoder = fit_encoder(frames, y, head=head, dim=8, epochs=6, batch_size=64, learning_rate=5e-3)
    new, y_new = bars(200, channels=channels, seed=1)
    correct = accuracy(encoder, head, new, y_new)
    assert correct[3:].min() > 0.95
    assert correct[:3].max() < 0.65
    assert not encoder.training


def test_uint8_is_scaled_to_zero_to_one():
    frames, y = bars()
    unscaled = fit_encoder(frames, y, dim=4, epochs=2, seed=3)
    scaled = fit_encoder(frames.astype(np.float32) / 255, y, dim=4, epochs=2, seed=3)
    np.testing.assert_allclose(
        encode(unscaled, frames), encode(scaled, frames.astype(np.float32) / 255), atol=1e-5
    )


def test_same_seed_gives_the_same_encoder_and_torch_state_is_kept():
    frames, y = bars()
    before = torch.get_rng_state()
    first, again, other = (fit_encoder(frames, y, dim=4, epochs=2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(encode(first, frames), encode(again, frames))
    assert (encode(first, frames) != encode(other, frames)).any()


def test_lazy_series_and_memory_maps_give_the_same_features_as_arrays(tmp_path):
    images = np.random.default_rng(0).integers(0, 255, (40, SIDE, SIDE)).astype(np.uint8)
    y = np.arange(40) % 3
    lazy = NosaicSeries(images, 5)
    np.save(tmp_path / "x.npy", lazy[:])
    kinds = [lazy, lazy[:], np.load(tmp_path / "x.npy", mmap_mode="r")]
    features = [encode(fit_encoder(kind, y, dim=4, epochs=1), kind) for kind in kinds]
    np.testing.assert_array_equal(features[0], features[1])
    np.testing.assert_array_equal(features[0], features[2])


def test_padding_is_never_read():
    frames, y = bars(40)
    lengths = np.random.default_rng(0).integers(1, 7, 40)
    padded = frames.astype(np.float32) / 255
    padded[np.arange(6) >= lengths[:, None]] = np.nan
    encoder = fit_encoder(
        padded, y, lengths=lengths, dim=4, epochs=2, validation_data=(padded, y, lengths), batch_size=16
    )
    features = encode(encoder, padded, lengths=lengths)
    assert np.isfinite(features).all()
    assert not features[np.arange(6) >= lengths[:, None]].any()


def test_frames_are_drawn_uniformly_from_each_series():
    lengths = np.array([1, 2, 7, 8])
    videos = Frames(np.zeros((4, 8, 2, 2), np.uint8), lengths)
    training = _EncoderTraining(nn.Identity(), videos, np.array([0, 1, 0, 1]), None, 2, 0, 12, 3)
    rng = np.random.default_rng(0)
    counts = np.zeros((4, 8))
    for _ in range(2000):
        seen = []
        for rows, times in training._batches(videos, rng.permutation(4), rng):
            np.add.at(counts, (rows, times), 1)
            seen += rows.tolist()
        assert sorted(seen) == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    for row, length in zip(counts, lengths):
        np.testing.assert_allclose(row[:length], 6000 / length, rtol=0.15)
        assert not row[length:].any()


def test_classes_have_equal_weight():
    weights = _class_weights(np.array([0, 0, 0, 2]), 3)
    np.testing.assert_allclose(weights, [2 / 3, 2 / 3, 2 / 3, 2])
    # For frames of noise the mean logits must be about equal, although the class counts differ.
    frames = np.random.default_rng(0).random((100, 4, SIDE, SIDE))
    head = nn.Linear(4, 2)
    encoder = fit_encoder(frames, np.arange(100) >= 90, head=head, dim=4, epochs=8, learning_rate=3e-3)
    with torch.no_grad():
        logits = head(torch.from_numpy(encode(encoder, np.random.default_rng(1).random(frames.shape))))
    assert abs((logits[..., 1] - logits[..., 0]).mean()) < 1.0  # without weights it would be log 9 = 2.2


def test_hidden_is_scaled_like_the_frames():
    values = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    videos = Frames(values)
    x = videos.read(np.array([0]), np.array([0])).ravel().tolist()
    assert [x.index(_scale_hidden(value, videos)) for value in range(256)] == list(range(256))
    assert _scale_hidden(0.3, Frames(values / 255)) == 0.3
    frames, y = bars(20)
    assert fit_encoder(frames, y, dim=2, epochs=1, hidden=255).hidden == 1.0
    assert fit_encoder(frames, y, dim=2, epochs=1).hidden is None


def test_hidden_pixels_are_distinguished_from_similar_visible_ones():
    # The class is the position of pixels of value 254 among 255, almost invisible without `hidden`.
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    frames = np.full((300, 2, SIDE, SIDE), 255, np.uint8)
    for i, k in enumerate(y):
        frames[i, :, rng.integers(0, SIDE, 8), k * 6 + rng.integers(0, 6, 8)] = 254
    head = nn.Linear(8, 2)
    encoder = fit_encoder(frames, y, head=head, dim=8, hidden=255, epochs=4)
    assert accuracy(encoder, head, frames, y, (0, 1)).min() > 0.95


class CallCounter(nn.Module):
    """An encoder with one weight, which counts its calls in training mode."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x):
        if self.training:
            self.steps += 1
        return x.mean((2, 3)) * self.weight


def test_best_epoch_on_validation_data_is_kept():
    # The validation data contradict the training data, so the first epoch is the best.
    frames, y = bars(40)
    bright = frames.copy()
    bright[y == "horizontal"] //= 2
    dark = frames.copy()
    dark[y == "vertical"] //= 2
    arguments = {"epochs": 5, "batch_size": 40, "frames_per_series": 2, "learning_rate": 0.1}
    best = fit_encoder(bright, y, encoder=CallCounter(), validation_data=(dark, y), **arguments)
    assert best.steps.item() == 2  # one epoch of 40 series, 20 per batch
    assert fit_encoder(bright, y, encoder=CallCounter(), **arguments).steps.item() == 10


def test_any_torch_module_can_be_the_encoder():
    frames, y = bars(200, channels=3)
    own = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(400, 5))
    fitted = fit_encoder(frames, y, encoder=own, epochs=1)
    assert fitted is own
    assert encode(own, frames).shape == (200, 6, 5)


def test_progress_shows_loss_and_validation_accuracy(capsys):
    frames, y = bars(20)
    fit_encoder(frames, y, dim=2, epochs=1, validation_data=(frames, y), progress=True)
    printed = capsys.readouterr().err
    assert "training the encoder: 1/1 loss" in printed
    assert "accuracy" in printed


FRAMES, Y = bars(8)
BAD = {
    "shape": (
        {"frames": FRAMES[0]},
        ValueError,
        r"`frames` must have shape \(n, T, H, W\).*got shape \(6, 12",
    ),
    "dtype": ({"frames": FRAMES.astype(int)}, TypeError, "`frames` must be uint8 .* got dtype int64"),
    "nan": (
        {"frames": np.full((8, 6, 9, 9), np.nan)},
        ValueError,
        "`frames` must be finite; series 0 contains NaN",
    ),
    "labels": (
        {"y": Y[:3]},
        ValueError,
        "`y` must have one label per series: 8; got 3",
    ),
    "one class": ({"y": np.zeros(8)}, ValueError, "`y` must hold at least 2 classes; got 1 class"),
    "lengths": ({"lengths": [7] * 8}, ValueError, r"`lengths` must be in \[1, 6\]"),
    "epochs": ({"epochs": 0}, ValueError, "`epochs` must be >= 1"),
    "rate": ({"learning_rate": 0.0}, ValueError, "`learning_rate` must be in"),
    "validation": ({"validation_data": FRAMES}, ValueError, r"`validation_data` must be \(frames, y\)"),
    "validation size": (
        {"validation_data": (FRAMES[..., 1:], Y)},
        ValueError,
        r"frames like `frames`, \(C, H, W\) = \(1, 12, 12\); got \(1, 12, 11\)",
    ),
    "validation labels": (
        {"validation_data": (FRAMES, np.arange(8))},
        ValueError,
        "`validation_data`: y has labels that were not in training: 0, 1",
    ),
    "hidden": (
        {"hidden": 255, "encoder": nn.Flatten()},
        ValueError,
        "`hidden` can only be used if `encoder` is None",
    ),
    "hidden value": ({"hidden": np.inf}, ValueError, "`hidden` must be in"),
    "encoder": (
        {"encoder": nn.Conv2d(1, 2, 3)},
        ValueError,
        r"`encoder` must map frames \(B, C, H, W\) to features \(B, d\); it returned \(1, 2, 10, 10\)",
    ),
}


@pytest.mark.parametrize(("changes", "kind", "message"), BAD.values(), ids=BAD)
def test_invalid_arguments_raise(changes, kind, message):
    arguments = {"frames": FRAMES, "y": Y, "epochs": 1} | changes
    with pytest.raises(kind, match=message):
        fit_encoder(arguments.pop("frames"), arguments.pop("y"), **arguments)


def test_divergence_raises():
    with pytest.raises(FloatingPointError, match=r"Training diverged: the loss is .* Lower `learning_rate`"):
        fit_encoder(FRAMES * 1e30, Y, encoder=CallCounter(), epochs=50, learning_rate=1e30)
