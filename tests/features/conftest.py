"""Fixtures: small videos."""

import av
import numpy as np
import pytest


def _write_video(path, frames, *, max_b_frames=0, rotation=0):
    """Write frames (t, H, W, 3) uint8 to a video."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        stream.bit_rate = 4_000_000
        stream.codec_context.max_b_frames = max_b_frames
        if rotation:
            stream.set_display_rotation(rotation)
        container.start_encoding()
        for image in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())


@pytest.fixture(scope="session")
def write_video():
    return _write_video


def _moving_dot(count, direction, rng, size=32):
    """Return frames with a bright square that moves from the middle to the left (-1) or right (+1)."""
    frames = rng.integers(0, 40, (count, size, size, 3), dtype=np.uint8)
    row, start = rng.integers(8, 20), size // 2 - 3
    for t in range(count):
        left = int(np.clip(start + 2 * direction * t, 0, size - 6))
        frames[t, row : row + 6, left : left + 6] = 230
    return frames


@pytest.fixture(scope="session")
def dots(tmp_path_factory):
    """A folder with two classes of six videos of 6 to 9 frames, a text file, and an empty class folder."""
    folder, rng = tmp_path_factory.mktemp("dots"), np.random.default_rng(0)
    for label, direction in (("left", -1), ("right", 1)):
        for number in range(6):
            _write_video(folder / label / f"{number}.avi", _moving_dot(6 + number % 4, direction, rng))
    (folder / "left" / "notes.txt").write_text("not a video")
    (folder / "nothing").mkdir()
    return folder
