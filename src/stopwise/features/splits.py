"""The official train and test splits of UCF101 and HMDB51 (lists) and of SiW (file names)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

TRAIN, TEST = "train", "test"
SIW_SPLITS = ("1", "2.1", "2.2", "2.3", "2.4", "3.1", "3.2")

_UCF_NAME = re.compile(r"_(g\d+)_c\d+$")
_HMDB_FILE = re.compile(r"(?P<label>.+)_test_split(?P<number>\d+)\.txt")
_SIW_NAME = re.compile(r"(\d{3})[-_](\d)[-_](\d)[-_](\d)[-_](\d)")
_SIW_TYPES = {"1": "live", "2": "spoof", "3": "spoof"}  # live, print, replay


@dataclass(frozen=True)
class Entry:
    """A video of a split: its file name, class, part, and group (the person or source it comes from)."""

    name: str
    label: str
    part: str
    group: str


def read_ucf101(folder: Path, number: int) -> list[Entry]:
    """Return the videos of split `number` of UCF101, those for training first.

    Parameters
    ----------
    folder
        The folder with classInd.txt and the lists trainlist01.txt, testlist01.txt, …, testlist03.txt.
    number
        Number of the split: 1, 2 or 3.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "classInd.txt").write_text("1 Archery")
    >>> _ = (folder / "trainlist01.txt").write_text("Archery/v_Archery_g08_c01.avi 1")
    >>> _ = (folder / "testlist01.txt").write_text("Archery/v_Archery_g01_c02.avi")
    >>> read_ucf101(folder, 1)[1]
    Entry(name='v_Archery_g01_c02.avi', label='Archery', part='test', group='g01')
    """
    classes = {}
    for where, words in _lines(folder / "classInd.txt"):
        if len(words) != 2 or not words[0].isdigit():
            raise ValueError(f"{where}: expected an index and a class; got {' '.join(words)!r}.")
        classes[words[1]] = words[0]
    entries = []
    for part in (TRAIN, TEST):
        for where, words in _lines(folder / f"{part}list{number:02d}.txt"):
            path = PurePosixPath(words[0])
            label, group = path.parent.name, _UCF_NAME.search(path.stem)
            if label not in classes or group is None:
                raise ValueError(
                    f"{where}: expected Class/v_Class_gNN_cNN.avi with a class from classInd.txt; "
                    f"got {words[0]!r}."
                )
            if words[1:] not in ([], [classes[label]]):
                raise ValueError(
                    f"{where}: class {label} has index {classes[label]} in classInd.txt but "
                    f"{' '.join(words[1:])!r} here. Use files of the same release."
                )
            entries.append(Entry(path.name, label, part, group[1]))
    return _check_unique(entries, folder)


def read_hmdb51(folder: Path, number: int) -> list[Entry]:
    """Return the videos of split `number` of HMDB51, without those that the split does not use (mark 0).

    Parameters
    ----------
    folder
        The folder with one file per class, ``<class>_test_split<number>.txt``, with lines "name.avi mark".
    number
        Number of the split: 1, 2 or 3.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "wave_test_split1.txt").write_text("Truman_wave_f_0.avi 1\\nBig_wave_u_4.avi 0")
    >>> read_hmdb51(folder, 1)
    [Entry(name='Truman_wave_f_0.avi', label='wave', part='train', group='Truman')]
    """
    files = [(_HMDB_FILE.fullmatch(path.name), path) for path in sorted(folder.glob("*.txt"))]
    chosen = [(found["label"], path) for found, path in files if found and int(found["number"]) == number]
    if not chosen:
        raise FileNotFoundError(
            f"{folder} has no files <class>_test_split{number}.txt, the lists of split {number} of HMDB51. "
            "Set `splits` to the folder that holds them."
        )
    entries = []
    for label, path in chosen:
        for where, words in _lines(path):
            if len(words) != 2 or words[1] not in ("0", "1", "2"):
                raise ValueError(
                    f"{where}: expected a video and its mark, 1 (train), 2 (test) or 0 (unused); "
                    f"got {' '.join(words)!r}."
                )
            if words[1] != "0":
                source = words[0].split(f"_{label}_")[0]
                entries.append(Entry(words[0], label, TRAIN if words[1] == "1" else TEST, source))
    return _check_unique(entries, folder)


def siw_entry(path: Path, split: str) -> Entry | None:
    """Return the entry of a SiW video, from its path, or None if protocol `split` does not use the video.

    Files are named Subject-Sensor-Type-Medium-Session; type 1 is live, 2 print, 3 replay. The training
    and test subjects are in two folders, Train and Test.

    Parameters
    ----------
    path
        The video; one of its folders is Train or Test.
    split
        "1": all videos. "2.m": of the attacks only replays, medium m for testing and the others for
        training. "3.1": print attacks for training and replays for testing; "3.2": the reverse. Live videos
        are always used.

    Examples
    --------
    >>> siw_entry(Path("Train/spoof/003/003-1-2-1-1.mov"), "1")
    Entry(name='003-1-2-1-1.mov', label='spoof', part='train', group='003')
    """
    parts = {folder.lower() for folder in path.parts[:-1]} & {TRAIN, TEST}
    if len(parts) != 1:
        raise ValueError(
            f"{path}: SiW has two folders, Train and Test, which define the split; this video is in neither "
            "or in both. Keep the folders as they were unpacked."
        )
    found = _SIW_NAME.fullmatch(path.stem)
    if found is None or found[3] not in _SIW_TYPES:
        raise ValueError(
            f"{path}: SiW videos are named Subject-Sensor-Type-Medium-Session with type 1, 2 or 3, such as "
            f"003-1-1-1-1.mov; got {path.name!r}. Remove other files, or choose dataset 'folder'."
        )
    part, (subject, _, kind, medium, _) = parts.pop(), found.groups()
    used = kind == "1" or split == "1"
    if split.startswith("2.") and kind == "3":
        used = (medium == split[2]) == (part == TEST)
    if split.startswith("3.") and kind != "1":
        training_kind = "2" if split == "3.1" else "3"
        used = (kind == training_kind) == (part == TRAIN)
    return Entry(path.name, _SIW_TYPES[kind], part, subject) if used else None


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the position of each non-empty line, for error messages, and its words."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist. Set `splits` to the folder of the official lists.")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            yield f"{path}, line {number}", line.split()


def _check_unique(entries: list[Entry], folder: Path) -> list[Entry]:
    """Return the entries if no video is listed twice, such as for training and for testing."""
    seen: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        first = seen.setdefault((entry.label, entry.name), entry)
        if first is not entry:
            raise ValueError(
                f"{folder}: {entry.label}/{entry.name} is listed twice, for {first.part} and for "
                f"{entry.part}. Use the lists of the official release."
            )
    return entries
