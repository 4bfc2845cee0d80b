"""One small file a video while work goes on, so that a run killed at any moment goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.atomic import written_aside
from stopwise.features.layouts import Clip


class Shelf:
    """Arrays (t, …) by video, in a folder.

    A video that was replaced (another size or time of change) is another video.

    Parameters
    ----------
    folder
        Made if it is not there.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.avi").write_text("…")
    >>> shelf, clip = Shelf(folder / "work"), Clip(folder / "a.avi", "a.avi", "wave", "train")
    >>> shelf.done(clip)
    False
    >>> shelf.put(clip, np.zeros((5, 2)))
    >>> shelf.done(clip), shelf.get(clip).shape
    (True, (5, 2))
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".*"):  # by a run that was killed while it wrote
            left.unlink()

    def done(self, clip: Clip) -> bool:
        """Whether the video is here or was found to be unreadable."""
        return self._path(clip, ".npy").exists() or self.reason(clip) is not None

    def put(self, clip: Clip, array: np.ndarray, notes: Sequence[str] = ()) -> None:
        """Keep what was made of a video, and what was noticed."""
        if notes:
            self._tell(clip, {"notes": list(notes)})
        with written_aside(self._path(clip, ".npy")) as [aside]:
            np.save(aside, array, allow_pickle=False)

    def refuse(self, clip: Clip, reason: str) -> None:
        """Keep why a video cannot be used."""
        self._tell(clip, {"reason": reason})

    def get(self, clip: Clip) -> np.ndarray:
        """Return what was made of a video, as a memory map."""
        return np.load(self._path(clip, ".npy"), mmap_mode="r", allow_pickle=False)

    def reason(self, clip: Clip) -> str | None:
        """Return why a video cannot be used, or None."""
        return self._told(clip).get("reason")

    def notes(self, clip: Clip) -> list[str]:
        """Return what was noticed of a video."""
        return self._told(clip).get("notes", [])

    def gather(self, clips: Sequence[Clip], path: Path) -> np.ndarray:
        """Write the arrays of some videos to one .npy file, zero past their ends; return their lengths (n,).

        The file is written in place: choose a path that nobody reads yet.
        """
        lengths = np.array([len(self.get(clip)) for clip in clips])
        first = self.get(clips[0])
        shape = (len(clips), int(lengths.max()), *first.shape[1:])
        mapped = np.lib.format.open_memmap(path, "w+", first.dtype, shape)
        for row, clip in enumerate(clips):
            mapped[row, : lengths[row]] = self.get(clip)
        mapped.flush()
        return lengths

    def _path(self, clip: Clip, ending: str) -> Path:
        return self.folder / f"{video_key(clip)[:32]}{ending}"

    def _tell(self, clip: Clip, about: dict[str, Any]) -> None:
        write_json(self._path(clip, ".json"), {"video": clip.name} | about)

    def _told(self, clip: Clip) -> dict[str, Any]:
        path = self._path(clip, ".json")
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def video_key(clip: Clip) -> str:
    """Return a checksum of what makes a video the same one: its place, size and time of change."""
    about = os.stat(clip.path)
    return hashlib.sha256(f"{clip.name}\n{about.st_size}\n{about.st_mtime_ns}".encode()).hexdigest()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    with written_aside(path) as [aside]:
        aside.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
