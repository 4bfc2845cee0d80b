"""Finding the videos of a dataset or folder, with their class and part (training or test)."""

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
VIDEO_SUFFIXES = frozenset(
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
        Path of the file.
    name
        Path relative to the folder of the videos.
    label
        Name of the class.
    part
        "train" or "test".
    group
        The person or source that the video comes from; "" if unknown.

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
    """The videos found by `find_clips`, and notes about missing and ignored files.

    Parameters
    ----------
    clips
        The videos; `find_clips` lists the training videos first.
    missing
        Videos in the official lists that have no file.
    ignored
        Files that are not videos, or that are not in the official lists.
    notes
        Warnings for the user.

    Examples
    --------
    >>> Layout([Clip(Path(f"{label}/1.avi"), f"{label}/1.avi", label, "train") for label in "ba"]).classes
    ['a', 'b']
    """

    clips: list[Clip]
    missing: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        """The classes, sorted."""
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
    """Find the videos of a dataset and assign each to the training or test part.

    Parameters
    ----------
    videos
        The folder of the videos.
    dataset
        The arrangement of the videos:

        - "folder": one subfolder per class; or the subfolders train and test, each with one subfolder per
          class.
        - "ucf101" or "hmdb51": the dataset as published, with its official lists.
        - "siw": the dataset as published, in the subfolders Train and Test.
    split
        The official split: 1, 2 or 3 for UCF101 and HMDB51; protocol "1", "2.1", "2.2", "2.3", "2.4", "3.1"
        or "3.2" for SiW. It has no effect for "folder".
    splits
        The folder of the official lists of UCF101 or HMDB51. If None, they are searched for in `videos` and
        in its parent folder.
    test_fraction
        Fraction of the videos of each class to use for testing, for a "folder" without train and test
        subfolders. If a class has only one video, it is used for training.
    seed
        Seed of the random split of such a folder.

    Returns
    -------
    layout
        The videos as a `Layout`, those for training first, then sorted by class and name.

    Raises
    ------
    FileNotFoundError
        If the folder or the official lists do not exist.
    ValueError
        If there are no videos, or a list is invalid.

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
        raise FileNotFoundError(f"`videos` must be an existing folder of videos; got {folder}.")
    if dataset == "folder":
        layout = _folder_layout(
            folder, check_real("test_fraction", test_fraction, 0.0, 1.0, open_high=True), seed
        )
    elif dataset == "siw":
        layout = _siw_layout(folder, check_choice("split", str(split), SIW_SPLITS))
    else:
        number = check_integer("split", int(split) if str(split).isdigit() else split, 1, 3)
        read = read_ucf101 if dataset == "ucf101" else read_hmdb51
        layout = _listed_layout(folder, read(_find_lists(folder, dataset, splits), number))
    _check_found(layout, folder)
    layout.clips.sort(key=lambda clip: (clip.part != TRAIN, clip.label, clip.name))
    return layout


def _folder_layout(folder: Path, test_fraction: float, seed: int) -> Layout:
    """Return the videos of a folder with one subfolder per class, possibly inside train/ and test/."""
    layout = Layout([])
    if (folder / TRAIN).is_dir() and (folder / TEST).is_dir():
        for part in (TRAIN, TEST):
            for label, files in _class_folders(folder / part, layout):
                layout.clips += [_clip(folder, path, label, part) for path in files]
        return layout
    untested = []
    for label, files in _class_folders(folder, layout):
        # A separate seed per class: adding another class, or videos to it, does not change this split.
        shuffled = random.Random(f"{seed}/{label}").sample(files, len(files))
        test_count = min(round(test_fraction * len(files)), len(files) - 1)
        layout.clips += [_clip(folder, path, label, TEST) for path in shuffled[:test_count]]
        layout.clips += [_clip(folder, path, label, TRAIN) for path in shuffled[test_count:]]
        if not test_count:
            untested.append(label)
    if untested and test_fraction:
        layout.notes.append(
            f"{len(untested)} class(es) have too few videos for a test part: {_first_few(untested)}. "
            "Add videos, or create train/ and test/ folders."
        )
    return layout


def _clip(folder: Path, path: Path, label: str, part: str, group: str = "") -> Clip:
    return Clip(path, path.relative_to(folder).as_posix(), label, part, group)


def _class_folders(folder: Path, layout: Layout) -> Iterator[tuple[str, list[Path]]]:
    """Yield the classes that have videos, and their videos, sorted by class."""
    layout.ignored += [str(path) for path in sorted(folder.iterdir()) if path.is_file()]
    class_folders = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    for class_folder in sorted(class_folders):
        files, others = _videos(class_folder)
        layout.ignored += map(str, others)
        if files:
            yield class_folder.name, files
        else:
            layout.notes.append(f"the class folder {class_folder} holds no videos.")


def _siw_layout(folder: Path, split: str) -> Layout:
    """Return the videos in Train/ and Test/, with classes and groups from their file names."""
    files, _ = _videos(folder)  # other files, *.face, belong to the dataset
    entries = [(path, siw_entry(path.relative_to(folder), split)) for path in files]
    return Layout(
        [_clip(folder, path, entry.label, entry.part, entry.group) for path, entry in entries if entry],
        ignored=[str(path) for path, entry in entries if entry is None],
    )


def _listed_layout(folder: Path, entries: list[Entry]) -> Layout:
    """Return the listed videos, whose files are in class folders or all in one folder."""
    files, others = _videos(folder)
    by_class = {(path.parent.name, path.name): path for path in files}
    by_name = defaultdict(list)
    for path in files:
        by_name[path.name].append(path)
    layout = Layout([], ignored=[str(path) for path in others])
    for entry in entries:
        same_name = by_name[entry.name]
        found = by_class.get((entry.label, entry.name)) or (same_name[0] if len(same_name) == 1 else None)
        if found is None:
            layout.missing.append(f"{entry.label}/{entry.name}")
        else:
            layout.clips.append(_clip(folder, found, entry.label, entry.part, entry.group))
    used = {clip.path for clip in layout.clips}
    layout.ignored += [str(path) for path in files if path not in used]
    if layout.missing:
        layout.notes.append(
            f"{len(layout.missing)} of {len(entries)} listed videos are not in {folder}, such as "
            f"{layout.missing[0]}; results on the others are not comparable with the official split."
        )
    return layout


def _find_lists(folder: Path, dataset: str, splits: str | os.PathLike[str] | None) -> Path:
    """Return the folder of the official lists."""
    if splits is not None:
        if not Path(splits).is_dir():
            raise FileNotFoundError(
                f"`splits` must be the existing folder of the official lists; got {splits}."
            )
        return Path(splits)
    pattern, usual = _LISTS[dataset]
    candidates = [folder, folder / usual, folder.parent / usual, folder / "splits", folder.parent / "splits"]
    for candidate in candidates:
        if any(candidate.glob(pattern)):
            return candidate
    raise FileNotFoundError(
        f"the official lists of {dataset} ({pattern}) are neither in {folder} nor in its parent folder. "
        "Set `splits` to their folder, or choose dataset 'folder' for a random split."
    )


def _videos(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the videos and the other files in a folder and its subfolders, without hidden files."""
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    videos = [path for path in files if path.suffix.lower() in VIDEO_SUFFIXES]
    return videos, [path for path in files if path.suffix.lower() not in VIDEO_SUFFIXES]


def _check_found(layout: Layout, folder: Path) -> None:
    """Raise an error if there are no videos; add a note if there is only one class."""
    loose = [name for name in layout.ignored if Path(name).suffix.lower() in VIDEO_SUFFIXES]
    if not layout.clips and loose and not layout.missing:
        raise ValueError(
            f"{folder} holds {len(loose)} video(s) outside class folders, such as {Path(loose[0]).name}. "
            "Create one subfolder per class, or set `dataset`."
        )
    if not layout.clips:
        listed = f" of the {len(layout.missing)} listed" if layout.missing else ""
        raise ValueError(
            f"{folder} holds no videos{listed}. Expected files with suffix "
            f"{', '.join(sorted(VIDEO_SUFFIXES))} in one subfolder per class, or a dataset as published. "
            "Check the folder."
        )
    if len(layout.classes) < 2:
        layout.notes.append(
            f"all videos are of one class, {layout.classes[0]!r}; a classifier needs at least two."
        )


def _first_few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
