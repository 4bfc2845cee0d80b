"""The folder that features are written to: what it was made with, its work on the way, its report."""

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

from stopwise.atomic import written_aside
from stopwise.features.encoder import SmallCNN, load_encoder, save_encoder
from stopwise.features.layouts import Clip, Layout
from stopwise.features.resnet import ResNet
from stopwise.features.shelf import Shelf, video_key, write_json
from stopwise.features.splits import TEST, TRAIN

REPORT, SETTINGS, ENCODER = "features.json", "settings.json", "encoder.safetensors"
_ARRAYS = ("X", "y", "lengths", "names", "groups")
_FILES = (*(f"{part}_{name}.npy" for part in (TRAIN, TEST) for name in _ARRAYS), ENCODER)


class Output:
    """A folder of features while it is made.

    Parameters
    ----------
    out
        The folder.
    layout
        The videos.
    settings
        What the features depend on, beside the videos.
    """

    def __init__(self, out: Path, layout: Layout, settings: dict[str, Any]) -> None:
        self.out, self.layout, self.work = out, layout, out / "work"
        keys = [f"{clip.part} {clip.name} {video_key(clip)}" for clip in layout.clips]
        self.videos = hashlib.sha256("\n".join(keys).encode()).hexdigest()
        # Through JSON and back, to be compared with what is read.
        self.settings = json.loads(json.dumps(settings))

    def finished(self) -> dict[str, Any] | None:
        """Return the report if these very features are here already, else None; refuse other ones."""
        report = _read_json(self.out / REPORT)
        if report is None:
            return None
        self._check_same(report.get("settings", {}), self.out)
        shutil.rmtree(self.work, ignore_errors=True)  # of a run killed while it cleared up
        if report.get("videos") != self.videos:
            raise ValueError(
                f"{self.out} holds features of other videos: some were added, removed or replaced. "
                "Choose another folder, or delete this one."
            )
        return report

    def begin(self) -> None:
        """Make the work folder, or go on with the one of a run that was stopped."""
        if self.out.exists() and not self.out.is_dir():
            raise FileExistsError(f"`out` must be a folder; {self.out} is a file. Choose another name.")
        before = _read_json(self.work / SETTINGS)
        if before is None:
            self._check_free()
        self.work.mkdir(parents=True, exist_ok=True)
        # What was learned from some videos must not be taken for what is learned from others.
        own = self.settings | ({"videos": self.videos} if self.settings["fit"] is not None else {})
        if before is None:
            write_json(self.work / SETTINGS, own)
        elif before != own:
            self._check_same(before, self.work)
            raise ValueError(
                f"{self.work} was begun with other videos: some were added, removed or replaced since. "
                "Choose another folder, or delete this one."
            )

    def _check_free(self) -> None:
        """Refuse a folder in which something of another origin would be overwritten."""
        taken = [self.out / name for name in _FILES if (self.out / name).exists()]
        if self.work.is_dir() and any(path.name[0] != "." for path in self.work.iterdir()):
            taken.append(self.work)
        if taken:
            raise FileExistsError(
                f"{taken[0]} exists and was not made by this command. Choose another folder for the features."
            )

    def usable(self, shelf: Shelf) -> Iterator[tuple[str, list[Clip]]]:
        """Yield the parts that have videos, and those videos."""
        for part in (TRAIN, TEST):
            clips = [clip for clip in self.layout.clips if clip.part == part and shelf.reason(clip) is None]
            if clips:
                yield part, clips
            elif part == TRAIN and any(clip.part == TRAIN for clip in self.layout.clips):
                reason = next(shelf.reason(clip) for clip in self.layout.clips if clip.part == TRAIN)
                raise ValueError(
                    f"none of the training videos can be read; the first one: {reason}. Fetch them again."
                )

    def finish(self, shelf: Shelf, lengths: dict[str, np.ndarray]) -> dict[str, Any]:
        """Move the features into place, write the report, and clear the work away."""
        parts = {}
        for part, clips in self.usable(shelf):
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
                if (reason := shelf.reason(clip)) is not None
            ],
            "damaged": [
                {"video": clip.name, "notes": notes}
                for clip in self.layout.clips
                if (notes := shelf.notes(clip))
            ],
            "missing": self.layout.missing,
            "passed_over": self.layout.passed_over,
            "notes": self.layout.notes,
        }
        self._move()
        write_json(self.out / REPORT, report)
        shutil.rmtree(self.work)
        return report

    def _move(self) -> None:
        """Move finished files out of the work folder."""
        for name in _FILES:
            if (self.work / name).exists():
                os.replace(self.work / name, self.out / name)

    def _check_same(self, before: dict[str, Any], folder: Path) -> None:
        for name, value in self.settings.items():
            if before.get(name) != value:
                raise ValueError(
                    f"{folder} was made with {name} = {_short(before.get(name))}, now it is {_short(value)}. "
                    "Choose another folder, or delete this one."
                )


def write_fitted(net: nn.Module, folder: Path) -> None:
    """Keep a trained network so that `build_backbone` loads it."""
    path = folder / ENCODER
    if isinstance(net, SmallCNN):
        save_encoder(path, net)
        return
    with written_aside(path) as [aside]:
        aside.write_bytes(
            save({name: value.contiguous() for name, value in _plain(net).state_dict().items()})
        )


def read_fitted(net: nn.Module, folder: Path) -> bool:
    """Load what `write_fitted` kept, if there is anything."""
    path = folder / ENCODER
    if not path.exists():
        return False
    if isinstance(net, SmallCNN):
        net.load_state_dict(load_encoder(path).state_dict())
    else:
        _plain(net).load_state_dict(load_file(path))
    return True


def _plain(net: nn.Module) -> nn.Module:
    """Return the ResNet inside a backbone, whose names are torchvision's; other networks as they are."""
    return next((module for module in net.modules() if isinstance(module, ResNet)), net)


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged: it is not JSON. Delete {path.parent} and start again."
        ) from error
    return content if isinstance(content, dict) else {}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:12] + "…"
