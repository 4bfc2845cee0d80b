"""The official train and test lists of UCF101 and HMDB51, and what SiW's file names tell."""

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
    """A video that a list names: its file's name, its class, its part and who or where it was taken from."""

    name: str
    label: str
    part: str
    group: str


def read_ucf101(folder: Path, number: int) -> list[Entry]:
    """Return the videos of UCF101's split `number`, training ones first.

    Parameters
    ----------
    folder
        Holds classInd.txt, trainlist01.txt … testlist03.txt.
    number
        1, 2 or 3.

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
            raise ValueError(f"{where}: expected a number and a class; got {' '.join(words)!r}.")
        classes[words[1]] = words[0]
    entries = []
    for part in (TRAIN, TEST):
        for where, words in _lines(folder / f"{part}list{number:02d}.txt"):
            path = PurePosixPath(words[0])
            label, group = path.parent.name, _UCF_NAME.search(path.stem)
            if label not in classes or group is None:
                raise ValueError(
                    f"{where}: expected Class/v_Class_gNN_cNN.avi with a class of classInd.txt; "
                    f"got {words[0]!r}."
                )
            if words[1:] not in ([], [classes[label]]):
                raise ValueError(
                    f"{where}: class {label} has number {classes[label]} in classInd.txt but "
                    f"{' '.join(words[1:])!r} here. Take both files from one release."
                )
            entries.append(Entry(path.name, label, part, group[1]))
    return _disjoint(entries, folder)


def read_hmdb51(folder: Path, number: int) -> list[Entry]:
    """Return the videos of HMDB51's split `number`; those that the split leaves out (mark 0) are left out.

    Parameters
    ----------
    folder
        Holds one file a class, <class>_test_split<number>.txt, with lines "name.avi mark".
    number
        1, 2 or 3.

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
            f"{folder} has no files <class>_test_split{number}.txt, as HMDB51's split {number} has. "
            "Name the folder that holds them with `splits`."
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
    return _disjoint(entries, folder)


def siw_entry(path: Path, split: str) -> Entry | None:
    """Return what SiW's naming tells of a video, or None where protocol `split` leaves it out.

    Files are named Subject-Sensor-Type-Medium-Session; type 1 is live, 2 print, 3 replay. The subjects to
    train and to test on come in two folders, Train and Test.

    Parameters
    ----------
    path
        The video; one of its folders is Train or Test.
    split
        "1": everything. "2.m": replays only, medium m to test on and the others to train on. "3.1": print to
        train on, replay to test on; "3.2": the other way round. Live videos are always used.

    Examples
    --------
    >>> siw_entry(Path("Train/spoof/003/003-1-2-1-1.mov"), "1")
    Entry(name='003-1-2-1-1.mov', label='spoof', part='train', group='003')
    """
    parts = {folder.lower() for folder in path.parts[:-1]} & {TRAIN, TEST}
    if len(parts) != 1:
        raise ValueError(
            f"{path}: SiW comes in two folders, Train and Test, which say what a video is for; "
            "this one is in neither. Keep the folders as they were unpacked."
        )
    found = _SIW_NAME.fullmatch(path.stem)
    if found is None or found[3] not in _SIW_TYPES:
        raise ValueError(
            f"{path}: a SiW video is named Subject-Sensor-Type-Medium-Session with type 1, 2 or 3, such as "
            f"003-1-1-1-1.mov; got {path.name!r}. Move other files elsewhere, or choose dataset 'folder'."
        )
    part, (subject, _, kind, medium, _) = parts.pop(), found.groups()
    used = kind == "1" or split == "1"
    if split.startswith("2.") and kind == "3":
        used = (medium == split[2]) == (part == TEST)
    if split.startswith("3.") and kind != "1":
        to_train_on = "2" if split == "3.1" else "3"
        used = (kind == to_train_on) == (part == TRAIN)
    return Entry(path.name, _SIW_TYPES[kind], part, subject) if used else None


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield where each line that is not empty stands, and its words."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist. Name the folder of the official lists with `splits`."
        )
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            yield f"{path}, line {number}", line.split()


def _disjoint(entries: list[Entry], folder: Path) -> list[Entry]:
    """Return the entries if none is there twice: a test video in the training list would flatter."""
    seen: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        first = seen.setdefault((entry.label, entry.name), entry)
        if first is not entry:
            raise ValueError(
                f"{folder}: {entry.label}/{entry.name} is listed twice, for {first.part} and for "
                f"{entry.part}. Take the lists from the official release."
            )
    return entries
