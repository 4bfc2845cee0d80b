"""A cache with one file per video, so that a run killed at any moment can resume."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.atomic import atomic_write
from stopwise.features.layouts import Clip


class ClipCache:
    """Cache of arrays (t, …) computed from videos, stored in a folder.

    A video whose size or modification time has changed counts as a new video.

    Parameters
    ----------
    folder
        Folder of the cache; created if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.avi").write_text("…")
    >>> cache, clip = ClipCache(folder / "work"), Clip(folder / "a.avi", "a.avi", "wave", "train")
    >>> clip in cache
    False
    >>> cache.store(clip, np.zeros((5, 2)))
    >>> clip in cache, cache.load(clip).shape
    (True, (5, 2))
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(".*"):  # of a run that was killed while writing
            leftover.unlink()

    def __contains__(self, clip: Clip) -> bool:
        """Return whether the video has been processed, or found to be unreadable."""
        return self._path(clip, ".npy").exists() or self.failure(clip) is not None

    def store(self, clip: Clip, array: np.ndarray, notes: Sequence[str] = ()) -> None:
        """Store the array of a video, and notes about the video."""
        if notes:
            self._write_info(clip, {"notes": list(notes)})
        with atomic_write(self._path(clip, ".npy")) as [temporary]:
            np.save(temporary, array, allow_pickle=False)

    def store_failure(self, clip: Clip, reason: str) -> None:
        """Store the reason why a video cannot be read."""
        self._write_info(clip, {"reason": reason})

    def load(self, clip: Clip) -> np.ndarray:
        """Return the array of a video as a memory map."""
        return np.load(self._path(clip, ".npy"), mmap_mode="r", allow_pickle=False)

    def failure(self, clip: Clip) -> str | None:
        """Return the reason why a video cannot be read, or None."""
        return self._read_info(clip).get("reason")

    def notes(self, clip: Clip) -> list[str]:
        """Return the notes about a video."""
        return self._read_info(clip).get("notes", [])

    def write_padded(self, clips: Sequence[Clip], path: Path) -> np.ndarray:
        """Write the arrays of some videos, padded with zeros, to one .npy file; return their lengths (n,).

        The write is not atomic: choose a path that nothing else reads yet.
        """
        lengths = np.array([len(self.load(clip)) for clip in clips])
        first = self.load(clips[0])
        shape = (len(clips), int(lengths.max()), *first.shape[1:])
        mapped = np.lib.format.open_memmap(path, "w+", first.dtype, shape)
        for row, clip in enumerate(clips):
            mapped[row, : lengths[row]] = self.load(clip)
        mapped.flush()
        return lengths

    def _path(self, clip: Clip, suffix: str) -> Path:
        return self.folder / f"{video_key(clip)[:32]}{suffix}"

    def _write_info(self, clip: Clip, info: dict[str, Any]) -> None:
        write_json(self._path(clip, ".json"), {"video": clip.name} | info)

    def _read_info(self, clip: Clip) -> dict[str, Any]:
        path = self._path(clip, ".json")
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def video_key(clip: Clip) -> str:
    """Return a checksum of the name, size and modification time of a video."""
    stat = os.stat(clip.path)
    return hashlib.sha256(f"{clip.name}\n{stat.st_size}\n{stat.st_mtime_ns}".encode()).hexdigest()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file atomically."""
    with atomic_write(path) as [temporary]:
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
