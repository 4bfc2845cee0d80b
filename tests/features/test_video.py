"""Decoding: the right frames, at the right size, from intact and damaged files."""

import os
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stopwise.features.video import Sampling, VideoError, read_frames, resize_and_crop, rotate

RAMP = 20 + 5 * np.arange(20)  # brightness that identifies a frame
REAL = Path(os.environ.get("STOPWISE_DATA", "")) / "video"


def gray(levels):
    return np.broadcast_to(levels[:, None, None, None], (len(levels), 48, 64, 3)).astype(np.uint8)


def noise(count):
    return np.random.default_rng(0).integers(0, 256, (count, 48, 64, 3), dtype=np.uint8)


@pytest.mark.parametrize(("total", "frames"), [(10, 4), (100, 7), (5, 5), (3, 8), (51, 50), (1, 1)])
def test_indices_are_the_middles_of_equal_parts(total, frames):
    indices = Sampling(frames=frames).indices(total)
    if total <= frames:
        assert indices.tolist() == list(range(total))
        return
    slow = [int((i + 0.5) * total / frames) for i in range(frames)]
    assert indices.tolist() == slow
    assert len(set(slow)) == frames


@pytest.mark.parametrize("suffix", [".avi", ".mp4"])
@pytest.mark.parametrize(("frames", "stride"), [(4, None), (30, None), (4, 3), (50, 2)])
def test_sampled_frames_are_decoded(tmp_path, write_video, suffix, frames, stride):
    path = tmp_path / f"ramp{suffix}"
    write_video(path, gray(RAMP))
    sampling = Sampling(frames=frames, stride=stride, size=16)
    found = read_frames(path, sampling).frames
    levels = RAMP[sampling.indices(20)]
    assert found.shape == (len(levels), 16, 16, 3)
    np.testing.assert_allclose(found.mean(axis=(1, 2, 3)), levels, atol=2.5)  # consecutive levels differ by 5


def test_delayed_frames_are_not_lost(tmp_path, write_video):
    """With B-frames, the decoder returns the last frames only when it is flushed."""
    path = tmp_path / "delayed.mp4"
    write_video(path, gray(RAMP), max_b_frames=2)
    found = read_frames(path, Sampling(frames=50, size=16)).frames
    np.testing.assert_allclose(found.mean(axis=(1, 2, 3)), RAMP, atol=2.5)


@pytest.mark.parametrize(("height", "width"), [(240, 320), (320, 240), (33, 100), (64, 64)])
def test_resizing_agrees_with_pillow(height, width):
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    found = resize_and_crop(image, short_side=40, size=32)
    scale = 40 / min(height, width)
    new = int(width * scale), int(height * scale)
    slow = np.asarray(Image.fromarray(image).resize(new, Image.Resampling.BILINEAR))
    top, left = round((new[1] - 32) / 2), round((new[0] - 32) / 2)
    expected = slow[top : top + 32, left : left + 32].astype(int)
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_images_are_rotated_counterclockwise():
    image = np.arange(6).reshape(2, 3)[..., None]
    assert rotate(image, 0)[..., 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert rotate(image, 90)[..., 0].tolist() == [[2, 5], [1, 4], [0, 3]]
    assert rotate(image, -90)[..., 0].tolist() == [[3, 0], [4, 1], [5, 2]]
    assert rotate(image, 180)[..., 0].tolist() == [[5, 4, 3], [2, 1, 0]]


def test_rotation_of_a_video_is_applied(tmp_path, write_video):
    """A counterclockwise rotation by 90 degrees moves the right side to the top."""
    frames = np.full((5, 64, 64, 3), 30, np.uint8)
    frames[:, :, 32:] = 220
    write_video(tmp_path / "rotated.mp4", frames, rotation=90)
    image = read_frames(tmp_path / "rotated.mp4", Sampling(size=16, short_side=16)).frames[0]
    assert image[:6].mean() > 200
    assert image[-6:].mean() < 50


def test_files_that_are_not_videos_raise(tmp_path):
    empty, text, sound = (tmp_path / name for name in ("empty.mp4", "text.avi", "sound.mp4"))
    empty.touch()
    text.write_text("not a video " * 100)
    with wave.open(str(sound), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(b"\0\0" * 8000)
    for path, message in (
        (empty, "the file is empty"),
        (text, r"not a video, or damaged \(Invalid data"),
        (sound, "the file has no video stream"),
    ):
        with pytest.raises(VideoError, match=message):
            read_frames(path)


def test_video_without_frames_raises(tmp_path, write_video):
    path = tmp_path / "none.avi"
    write_video(path, noise(0))
    with pytest.raises(VideoError, match="no frame can be decoded"):
        read_frames(path)


def test_video_with_a_header_but_without_content_raises(tmp_path, write_video):
    path = tmp_path / "zeros.avi"
    write_video(path, noise(20))
    data = bytearray(path.read_bytes())
    start = data.index(b"movi") + 4
    data[start:] = bytes(len(data) - start)
    path.write_bytes(data)
    with pytest.raises(VideoError, match="no frame can be decoded"):
        read_frames(path)


def test_intact_frames_of_a_truncated_video_are_returned(tmp_path, write_video):
    path = tmp_path / "truncated.avi"
    write_video(path, noise(20))
    whole = read_frames(path, Sampling(frames=50, size=16))
    assert len(whole.frames) == 20
    assert whole.notes == []
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 3 // 4])
    truncated = read_frames(path, Sampling(frames=50, size=16))
    assert 10 <= len(truncated.frames) < 20
    assert len(truncated.notes) == 1
    assert truncated.notes[0].startswith("1 of ")
    assert truncated.notes[0].endswith(" frames are damaged")


def test_video_with_many_damaged_frames_raises(tmp_path, write_video):
    path, rng = tmp_path / "damaged.avi", np.random.default_rng(1)
    write_video(path, noise(40))
    data = bytearray(path.read_bytes())
    for position in rng.integers(data.index(b"movi") + 1000, len(data) - 2000, 60):
        data[position : position + 200] = rng.bytes(200)
    path.write_bytes(data)
    with pytest.raises(VideoError, match=r"\d+ of \d+ frames are damaged"):
        read_frames(path, Sampling(size=16))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"frames": 0}, "`frames` must be >= 1; got 0"),
        ({"stride": 0}, "`stride` must be >= 1; got 0"),
        ({"size": 64, "short_side": 32}, "`short_side` must be >= 64; got 32"),
    ],
)
def test_invalid_samplings_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**arguments)


@pytest.mark.skipif(
    not (os.environ.get("STOPWISE_DATA") and REAL.is_dir()), reason="STOPWISE_DATA has no video"
)
@pytest.mark.parametrize(
    ("name", "count"),
    [
        # Packed B frames: more packets than frames. A header with a wrong number of frames. H.264 with sound.
        ("clips_torchvision/TrumanShow_wave_f_nm_np1_fr_med_26.avi", 48),
        ("clips_jhmdb/golf/golf_golf_f_nm_np1_ri_goo_1.avi", 40),
        ("clips_torchvision/WUzgd7C1pWA.mp4", 50),
    ],
)
def test_real_videos(name, count):
    footage = read_frames(REAL / name, Sampling(frames=50, size=32))
    assert footage.frames.shape == (count, 32, 32, 3)
    assert footage.notes == []
    assert footage.frames.std() > 10
