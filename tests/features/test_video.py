"""Decoding: the right frames, at the right size, of good and of bad files."""

import os
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stopwise.features.video import Sampling, VideoError, fit_picture, read_frames, upright

RAMP = 20 + 5 * np.arange(20)  # brightness that tells a frame's place
REAL = Path(os.environ.get("STOPWISE_DATA", "")) / "video"


def gray(levels):
    return np.broadcast_to(levels[:, None, None, None], (len(levels), 48, 64, 3)).astype(np.uint8)


def noise(count):
    return np.random.default_rng(0).integers(0, 256, (count, 48, 64, 3), dtype=np.uint8)


@pytest.mark.parametrize(("total", "frames"), [(10, 4), (100, 7), (5, 5), (3, 8), (51, 50), (1, 1)])
def test_places_are_the_middles_of_equal_parts(total, frames):
    places = Sampling(frames=frames).places(total)
    if total <= frames:
        assert places.tolist() == list(range(total))
        return
    slow = [int((i + 0.5) * total / frames) for i in range(frames)]
    assert places.tolist() == slow
    assert len(set(slow)) == frames


@pytest.mark.parametrize("ending", [".avi", ".mp4"])
@pytest.mark.parametrize(("frames", "stride"), [(4, None), (30, None), (4, 3), (50, 2)])
def test_the_chosen_frames_are_decoded(tmp_path, write_video, ending, frames, stride):
    path = tmp_path / f"ramp{ending}"
    write_video(path, gray(RAMP))
    sampling = Sampling(frames=frames, stride=stride, size=16)
    found = read_frames(path, sampling).frames
    levels = RAMP[sampling.places(20)]
    assert found.shape == (len(levels), 16, 16, 3)
    np.testing.assert_allclose(found.mean(axis=(1, 2, 3)), levels, atol=2.5)  # neighbours differ by 5


def test_frames_that_come_late_out_of_the_decoder_are_not_lost(tmp_path, write_video):
    """With B frames the decoder gives the last pictures only when it is told that no more packets come."""
    path = tmp_path / "late.mp4"
    write_video(path, gray(RAMP), max_b_frames=2)
    found = read_frames(path, Sampling(frames=50, size=16)).frames
    np.testing.assert_allclose(found.mean(axis=(1, 2, 3)), RAMP, atol=2.5)


@pytest.mark.parametrize(("height", "width"), [(240, 320), (320, 240), (33, 100), (64, 64)])
def test_resizing_agrees_with_pillow(height, width):
    picture = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    found = fit_picture(picture, short_side=40, size=32)
    scale = 40 / min(height, width)
    new = int(width * scale), int(height * scale)
    slow = np.asarray(Image.fromarray(picture).resize(new, Image.Resampling.BILINEAR))
    top, left = round((new[1] - 32) / 2), round((new[0] - 32) / 2)
    expected = slow[top : top + 32, left : left + 32].astype(int)
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_pictures_are_set_upright():
    picture = np.arange(6).reshape(2, 3)[..., None]
    assert upright(picture, 0)[..., 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert upright(picture, 90)[..., 0].tolist() == [[2, 5], [1, 4], [0, 3]]
    assert upright(picture, -90)[..., 0].tolist() == [[3, 0], [4, 1], [5, 2]]
    assert upright(picture, 180)[..., 0].tolist() == [[5, 4, 3], [2, 1, 0]]


def test_a_video_filmed_with_the_camera_turned_is_shown_upright(tmp_path, write_video):
    """A counterclockwise turn by 90 degrees takes what is at the right to the top."""
    frames = np.full((5, 64, 64, 3), 30, np.uint8)
    frames[:, :, 32:] = 220
    write_video(tmp_path / "turned.mp4", frames, rotation=90)
    picture = read_frames(tmp_path / "turned.mp4", Sampling(size=16, short_side=16)).frames[0]
    assert picture[:6].mean() > 200
    assert picture[-6:].mean() < 50


def test_files_that_are_no_videos(tmp_path):
    empty, text, sound = (tmp_path / name for name in ("empty.mp4", "text.avi", "sound.mp4"))
    empty.touch()
    text.write_text("this is no video " * 100)
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


def test_a_video_without_frames(tmp_path, write_video):
    path = tmp_path / "none.avi"
    write_video(path, noise(0))
    with pytest.raises(VideoError, match="no frame can be decoded"):
        read_frames(path)


def test_a_video_of_noise_behind_a_good_header(tmp_path, write_video):
    path = tmp_path / "noise.avi"
    write_video(path, noise(20))
    data = bytearray(path.read_bytes())
    start = data.index(b"movi") + 4
    data[start:] = bytes(len(data) - start)
    path.write_bytes(data)
    with pytest.raises(VideoError, match="no frame can be decoded"):
        read_frames(path)


def test_a_video_cut_short_gives_what_is_there(tmp_path, write_video):
    path = tmp_path / "cut.avi"
    write_video(path, noise(20))
    whole = read_frames(path, Sampling(frames=50, size=16))
    assert len(whole.frames) == 20
    assert whole.notes == []
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 3 // 4])
    cut = read_frames(path, Sampling(frames=50, size=16))
    assert 10 <= len(cut.frames) < 20
    assert len(cut.notes) == 1
    assert cut.notes[0].startswith("1 of ")
    assert cut.notes[0].endswith(" frames are damaged")


def test_a_video_with_damage_all_over_is_refused(tmp_path, write_video):
    path, rng = tmp_path / "holes.avi", np.random.default_rng(1)
    write_video(path, noise(40))
    data = bytearray(path.read_bytes())
    for place in rng.integers(data.index(b"movi") + 1000, len(data) - 2000, 60):
        data[place : place + 200] = rng.bytes(200)
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
def test_bad_samplings(arguments, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**arguments)


@pytest.mark.skipif(
    not (os.environ.get("STOPWISE_DATA") and REAL.is_dir()), reason="STOPWISE_DATA has no video"
)
@pytest.mark.parametrize(
    ("name", "count"),
    [
        # Packed B frames: more packets than frames. A header that tells 48 frames of 40. H.264 with sound.
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
