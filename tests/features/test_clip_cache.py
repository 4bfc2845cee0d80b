"""The cache of arrays computed from videos."""

import numpy as np
import pytest

from stopwise.features.clip_cache import ClipCache
from stopwise.features.layouts import Clip


@pytest.fixture
def clips(tmp_path):
    paths = [tmp_path / name for name in ("a.avi", "b.avi")]
    for path in paths:
        path.write_text(path.name)
    return [Clip(path, path.name, "wave", "train") for path in paths]


def test_arrays_and_notes_are_stored_by_video(tmp_path, clips):
    first, second = clips
    cache = ClipCache(tmp_path / "cache")
    cache.store(first, np.arange(6).reshape(3, 2), notes=["1 of 3 frames is damaged"])
    assert first in cache
    assert second not in cache
    again = ClipCache(tmp_path / "cache")
    np.testing.assert_array_equal(again.load(first), np.arange(6).reshape(3, 2))
    assert again.notes(first) == ["1 of 3 frames is damaged"]
    assert again.notes(second) == []
    assert again.failure(first) is None


def test_unreadable_videos_count_as_processed(tmp_path, clips):
    cache = ClipCache(tmp_path / "cache")
    cache.store_failure(clips[0], "the file is empty")
    assert clips[0] in cache
    assert cache.failure(clips[0]) == "the file is empty"


def test_replaced_video_counts_as_new(tmp_path, clips):
    cache = ClipCache(tmp_path / "cache")
    cache.store(clips[0], np.zeros((1, 2)))
    clips[0].path.write_text("another video")
    assert clips[0] not in cache


def test_padded_arrays_are_written_to_one_file(tmp_path, clips):
    cache = ClipCache(tmp_path / "cache")
    cache.store(clips[0], np.ones((3, 2), np.float32))
    cache.store(clips[1], np.ones((1, 2), np.float32))
    lengths = cache.write_padded(clips, tmp_path / "X.npy")
    assert lengths.tolist() == [3, 1]
    X = np.load(tmp_path / "X.npy")
    assert (X.shape, X.dtype) == ((2, 3, 2), np.float32)
    assert X.sum(axis=(1, 2)).tolist() == [6, 2]


def test_temporary_files_of_a_killed_run_are_deleted(tmp_path):
    (tmp_path / ".123.npy").write_text("partial")
    ClipCache(tmp_path)
    assert not list(tmp_path.iterdir())
