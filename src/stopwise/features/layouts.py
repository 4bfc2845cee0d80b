"""Which videos there are, of which class, to train or to test on: known data sets and plain folders."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stopwise.features.splits import SIW_SPLITS, TEST, TRAIN, Entry, read_hmdb51, read_ucf101, siw_entry
from stopwise.validation import check_choice, check_integer, check_real

DATASETS = ("folder", "ucf101", "hmdb51", "siw")
SUFFIXES = frozenset(
    ".3gp .avi .flv .m4v .mkv .mov .mp4 .mpeg .mpg .mts .ogv .ts .webm .wmv".split()  # noqa: SIM905
)
_LISTS = {
    "ucf101": ("classInd.txt", "ucfTrainTestlist"),
    "hmdb51": ("*_test_split1.txt", "testTrainMulti_7030_splits"),
}


@dataclass(frozen=True)
class Clip:
    """One video.

    Parameters
    ----------
    path
        Its file.
    name
        Its path within the folder of the videos.
    label, part
        Its class; "train" or "test".
    group
        Who or where it was taken from; "" if that is not known.

    Examples
    --------
    >>> Clip(Path("videos/wave/a.avi"), "wave/a.avi", "wave", "train").group
    ''
    """

    path: Path
    name: str
    label: str
    part: str
    group: str = ""


@dataclass
class Layout:
    """The videos that were found, and what was noticed on the way.

    Parameters
    ----------
    clips
        The videos, training ones first.
    missing
        Names on the official lists that have no file.
    passed_over
        Files that are no videos, or that no list names.
    notes
        Sentences a user should read.

    Examples
    --------
    >>> Layout([Clip(Path(f"{label}/1.avi"), f"{label}/1.avi", label, "train") for label in "ba"]).classes
    ['a', 'b']
    """

    clips: list[Clip]
    missing: list[str] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        """The classes, in alphabetic order."""
        return sorted({clip.label for clip in self.clips})


def find_clips(
    videos: str | os.PathLike[str],
    dataset: str = "folder",
    *,
    split: str | int = "1",
    splits: str | os.PathLike[str] | None = None,
    test_fraction: float = 0.25,
    seed: int = 0,
) -> Layout:
    """Return the videos of a data set and the part of each.

    Parameters
    ----------
    videos
        The folder of the videos.
    dataset
        "folder": one sub-folder a class; or train/ and test/, each with one sub-folder a class.
        "ucf101", "hmdb51": as published, with the official lists. "siw": as published, in Train/ and Test/.
    split
        The official split: 1, 2 or 3 of UCF101 and HMDB51; protocol 1, 2.1 … 2.4, 3.1 or 3.2 of SiW.
    splits
        The folder of the official lists; None looks in `videos` and beside it.
    test_fraction
        For a folder without train/ and test/: the share of each class to test on. A class's only video is
        trained on.
    seed
        What that share is drawn from.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("run/a.mp4", "run/b.mp4", "walk/c.avi", "walk/d.avi"):
    ...     (folder / name).parent.mkdir(exist_ok=True)
    ...     (folder / name).touch()
    >>> layout = find_clips(folder, test_fraction=0.5)
    >>> layout.classes, [clip.part for clip in layout.clips]
    (['run', 'walk'], ['train', 'train', 'test', 'test'])
    """
    folder = Path(videos)
    check_choice("dataset", dataset, DATASETS)
    if not folder.is_dir():
        raise FileNotFoundError(f"`videos` must be a folder of videos; there is none at {folder}.")
    if dataset == "folder":
        layout = _plain(folder, check_real("test_fraction", test_fraction, 0.0, 1.0, open_high=True), seed)
    elif dataset == "siw":
        layout = _siw(folder, check_choice("split", str(split), SIW_SPLITS))
    else:
        number = check_integer("split", int(split) if str(split).isdigit() else split, 1, 3)
        read = read_ucf101 if dataset == "ucf101" else read_hmdb51
        layout = _listed(folder, read(_lists(folder, dataset, splits), number))
    _check_found(layout, folder)
    layout.clips.sort(key=lambda clip: (clip.part != TRAIN, clip.label, clip.name))
    return layout


def _plain(folder: Path, test_fraction: float, seed: int) -> Layout:
    """One sub-folder a class, in train/ and test/ or in one place."""
    layout = Layout([])
    if (folder / TRAIN).is_dir() and (folder / TEST).is_dir():
        for part in (TRAIN, TEST):
            for label, files in _classes(folder / part, layout):
                layout.clips += [_clip(folder, path, label, part) for path in files]
        return layout
    alone = []
    for label, files in _classes(folder, layout):
        # Each class by itself: one more class, or one more video of another, moves no video of this one.
        shuffled = random.Random(f"{seed}/{label}").sample(files, len(files))
        tested = min(round(test_fraction * len(files)), len(files) - 1)
        layout.clips += [_clip(folder, path, label, TEST) for path in shuffled[:tested]]
        layout.clips += [_clip(folder, path, label, TRAIN) for path in shuffled[tested:]]
        if not tested:
            alone.append(label)
    if alone and test_fraction:
        layout.notes.append(
            f"{len(alone)} classes have too few videos to test on any: {_some(alone)}. "
            "Add videos, or make train/ and test/ folders."
        )
    return layout


def _clip(folder: Path, path: Path, label: str, part: str, group: str = "") -> Clip:
    return Clip(path, path.relative_to(folder).as_posix(), label, part, group)


def _classes(folder: Path, layout: Layout) -> Iterator[tuple[str, list[Path]]]:
    """Yield the class folders that hold videos, by name."""
    layout.passed_over += [str(path) for path in sorted(folder.iterdir()) if path.is_file()]
    for own in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
        files, others = _videos(own)
        layout.passed_over += map(str, others)
        if files:
            yield own.name, files
        else:
            layout.notes.append(f"the class folder {own} holds no videos.")


def _siw(folder: Path, split: str) -> Layout:
    """Everything under Train/ and Test/, by the names of the files."""
    files, _ = _videos(folder)  # *.face files lie beside the videos
    entries = [(path, siw_entry(path.relative_to(folder), split)) for path in files]
    return Layout(
        [_clip(folder, path, entry.label, entry.part, entry.group) for path, entry in entries if entry],
        passed_over=[str(path) for path, entry in entries if entry is None],
    )


def _listed(folder: Path, entries: list[Entry]) -> Layout:
    """The files of the listed videos, in class folders or all in one."""
    files, others = _videos(folder)
    by_class = {(path.parent.name, path.name): path for path in files}
    by_name = defaultdict(list)
    for path in files:
        by_name[path.name].append(path)
    layout = Layout([], passed_over=[str(path) for path in others])
    for entry in entries:
        namesakes = by_name[entry.name]
        own = by_class.get((entry.label, entry.name)) or (namesakes[0] if len(namesakes) == 1 else None)
        if own is None:
            layout.missing.append(f"{entry.label}/{entry.name}")
        else:
            layout.clips.append(_clip(folder, own, entry.label, entry.part, entry.group))
    used = {clip.path for clip in layout.clips}
    layout.passed_over += [str(path) for path in files if path not in used]
    if layout.missing:
        layout.notes.append(
            f"{len(layout.missing)} of {len(entries)} listed videos have no file under {folder}, such as "
            f"{layout.missing[0]}; figures on the rest are not those of the official split."
        )
    return layout


def _lists(folder: Path, dataset: str, splits: str | os.PathLike[str] | None) -> Path:
    """Return the folder of the official lists."""
    if splits is not None:
        if not Path(splits).is_dir():
            raise FileNotFoundError(
                f"`splits` must be the folder of the official lists; there is none at {splits}."
            )
        return Path(splits)
    pattern, usual = _LISTS[dataset]
    places = [folder, folder / usual, folder.parent / usual, folder / "splits", folder.parent / "splits"]
    for place in places:
        if any(place.glob(pattern)):
            return place
    raise FileNotFoundError(
        f"the official lists of {dataset} ({pattern}) are neither in {folder} nor beside it. "
        "Name their folder with `splits`, or choose dataset 'folder' for a split of your own."
    )


def _videos(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the videos under a folder and its other files, both sorted; hidden ones are left alone."""
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    videos = [path for path in files if path.suffix.lower() in SUFFIXES]
    return videos, [path for path in files if path.suffix.lower() not in SUFFIXES]


def _check_found(layout: Layout, folder: Path) -> None:
    """Refuse a data set that nothing can be learned from."""
    loose = [name for name in layout.passed_over if Path(name).suffix.lower() in SUFFIXES]
    if not layout.clips and loose and not layout.missing:
        raise ValueError(
            f"{folder} holds {len(loose)} videos, but in no class folder, such as {Path(loose[0]).name}. "
            "Give one sub-folder a class, or name the data set they are of."
        )
    if not layout.clips:
        listed = f" of the {len(layout.missing)} listed" if layout.missing else ""
        raise ValueError(
            f"{folder} holds no videos{listed}. Expected files ending in {', '.join(sorted(SUFFIXES))} in "
            "one sub-folder a class, or a data set as published; name the right folder."
        )
    if len(layout.classes) < 2:
        layout.notes.append(
            f"all videos are of one class, {layout.classes[0]!r}: there is nothing to tell apart yet."
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
