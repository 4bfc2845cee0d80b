"""The output folder of `extract`: settings, intermediate files, features and report."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save
from torch import nn

from stopwise.atomic import atomic_write
from stopwise.features.clip_cache import ClipCache, video_key, write_json
from stopwise.features.encoder import SmallCNN, load_encoder, save_encoder
from stopwise.features.layouts import Clip, Layout
from stopwise.features.resnet import ResNet
from stopwise.features.splits import TEST, TRAIN

REPORT, SETTINGS, ENCODER = "features.json", "settings.json", "encoder.safetensors"
_ARRAYS = ("X", "y", "lengths", "names", "groups")
_FILES = (*(f"{part}_{name}.npy" for part in (TRAIN, TEST) for name in _ARRAYS), ENCODER)


class OutputFolder:
    """The folder to which `extract` writes.

    Parameters
    ----------
    out
        The folder.
    layout
        The videos.
    settings
        All settings that the features depend on.
    """

    def __init__(self, out: Path, layout: Layout, settings: dict[str, Any]) -> None:
        self.out, self.layout, self.work = out, layout, out / "work"
        keys = [f"{clip.part} {clip.name} {video_key(clip)}" for clip in layout.clips]
        self.videos = hashlib.sha256("\n".join(keys).encode()).hexdigest()
        # Converted to JSON and back, so that it can be compared with settings read from a file.
        self.settings = json.loads(json.dumps(settings))

    def finished(self) -> dict[str, Any] | None:
        """Return the report if the same features exist already, else None; raise an error if others exist."""
        report = _read_json(self.out / REPORT)
        if report is None:
            return None
        self._check_same(report.get("settings", {}), self.out)
        shutil.rmtree(self.work, ignore_errors=True)  # left by a run that was killed while cleaning up
        if report.get("videos") != self.videos:
            raise ValueError(
                f"{self.out} holds features of other videos: some were added, removed or replaced. "
                "Choose another folder, or delete this one."
            )
        return report

    def begin(self) -> None:
        """Create the work folder, or resume from the one of an interrupted run."""
        if self.out.exists() and not self.out.is_dir():
            raise FileExistsError(f"`out` must be a folder; {self.out} is a file. Choose another name.")
        previous = _read_json(self.work / SETTINGS)
        if previous is None:
            self._check_free()
        self.work.mkdir(parents=True, exist_ok=True)
        # A fitted backbone depends on the videos it was trained on.
        settings = self.settings | ({"videos": self.videos} if self.settings["fit"] is not None else {})
        if previous is None:
            write_json(self.work / SETTINGS, settings)
        elif previous != settings:
            self._check_same(previous, self.work)
            raise ValueError(
                f"{self.work} was started with other videos: some were added, removed or replaced since. "
                "Choose another folder, or delete this one."
            )

    def _check_free(self) -> None:
        """Raise an error if files would be overwritten that `extract` did not write."""
        existing = [self.out / name for name in _FILES if (self.out / name).exists()]
        if self.work.is_dir() and any(path.name[0] != "." for path in self.work.iterdir()):
            existing.append(self.work)
        if existing:
            raise FileExistsError(
                f"{existing[0]} exists and was not written by this command. Choose another folder for the "
                "features."
            )

    def readable(self, cache: ClipCache) -> Iterator[tuple[str, list[Clip]]]:
        """Yield each part that has readable videos, and these videos."""
        for part in (TRAIN, TEST):
            clips = [clip for clip in self.layout.clips if clip.part == part]
            readable = [clip for clip in clips if cache.failure(clip) is None]
            if readable:
                yield part, readable
            elif part == TRAIN and clips:
                raise ValueError(
                    f"none of the training videos can be read; the first one: {cache.failure(clips[0])}. "
                    "Copy or download them again."
                )

    def finish(self, cache: ClipCache, lengths: dict[str, np.ndarray]) -> dict[str, Any]:
        """Move the features to the output folder, write the report, and delete the work folder."""
        parts = {}
        for part, clips in self.readable(cache):
            own = lengths[part]
            labels = np.array([clip.label for clip in clips])
            arrays = {"y": labels, "names": np.array([clip.name for clip in clips])}
            if any(clip.group for clip in clips):
                arrays["groups"] = np.array([clip.group for clip in clips])
            shape = np.load(self.work / f"{part}_X.npy", mmap_mode="r", allow_pickle=False).shape
            if (own < shape[1]).any():
                arrays["lengths"] = own
            for name, array in arrays.items():
                np.save(self.work / f"{part}_{name}.npy", array, allow_pickle=False)
            parts[part] = {
                "videos": len(clips),
                "classes": len(np.unique(labels)),
                "steps": [int(own.min()), int(own.max())],
                "features": shape[2],
            }
        report = {
            "settings": self.settings,
            "videos": self.videos,
            "classes": self.layout.classes,
            "parts": parts,
            "skipped": [
                {"video": clip.name, "reason": reason}
                for clip in self.layout.clips
                if (reason := cache.failure(clip)) is not None
            ],
            "damaged": [
                {"video": clip.name, "notes": notes}
                for clip in self.layout.clips
                if (notes := cache.notes(clip))
            ],
            "missing": self.layout.missing,
            "ignored": self.layout.ignored,
            "notes": self.layout.notes,
        }
        self._move_files()
        write_json(self.out / REPORT, report)
        shutil.rmtree(self.work)
        return report

    def _move_files(self) -> None:
        """Move the finished files from the work folder to the output folder."""
        for name in _FILES:
            if (self.work / name).exists():
                os.replace(self.work / name, self.out / name)

    def _check_same(self, previous: dict[str, Any], folder: Path) -> None:
        for name, value in self.settings.items():
            if previous.get(name) != value:
                raise ValueError(
                    f"{folder} was written with {name} = {_short(previous.get(name))}; now it is "
                    f"{_short(value)}. Choose another folder, or delete this one."
                )


def write_fitted(net: nn.Module, folder: Path) -> None:
    """Save a trained network in a form that `build_backbone` loads."""
    path = folder / ENCODER
    if isinstance(net, SmallCNN):
        save_encoder(path, net)
        return
    with atomic_write(path) as [temporary]:
        temporary.write_bytes(
            save({name: value.contiguous() for name, value in _inner_network(net).state_dict().items()})
        )


def read_fitted(net: nn.Module, folder: Path) -> bool:
    """Load what `write_fitted` saved into `net`; return False if there is no such file."""
    path = folder / ENCODER
    if not path.exists():
        return False
    if isinstance(net, SmallCNN):
        net.load_state_dict(load_encoder(path).state_dict())
    else:
        _inner_network(net).load_state_dict(load_file(path))
    return True


def _inner_network(net: nn.Module) -> nn.Module:
    """Return the ResNet inside a backbone, which has torchvision's names; other networks unchanged."""
    return next((module for module in net.modules() if isinstance(module, ResNet)), net)


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged: it is not valid JSON. Delete {path.parent} and start again."
        ) from error
    return content if isinstance(content, dict) else {}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:12] + "…"
