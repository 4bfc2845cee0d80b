"""Finding the videos of datasets and folders."""

from collections import Counter

import pytest

from stopwise.features.layouts import find_clips


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def parts(layout):
    return {clip.name: clip.part for clip in layout.clips}


def test_folder_is_split_by_class_and_seed(tmp_path):
    touch(tmp_path, *(f"{label}/{i}.mp4" for label in ("run", "walk") for i in range(8)))
    layout = find_clips(tmp_path, test_fraction=0.25, seed=3)
    assert Counter((clip.label, clip.part) for clip in layout.clips) == {
        ("run", "train"): 6, ("run", "test"): 2, ("walk", "train"): 6, ("walk", "test"): 2,
    }  # fmt: skip
    assert parts(layout) == parts(find_clips(tmp_path, test_fraction=0.25, seed=3))
    assert parts(layout) != parts(find_clips(tmp_path, test_fraction=0.25, seed=4))
    touch(tmp_path, "jump/0.mp4", "jump/1.mp4")
    more = parts(find_clips(tmp_path, test_fraction=0.25, seed=3))
    assert {name: more[name] for name in parts(layout)} == parts(layout)


def test_existing_train_and_test_folders_define_the_split(tmp_path):
    touch(tmp_path, "train/run/a.AVI", "train/walk/deep/b.mov", "test/run/c.webm")
    layout = find_clips(tmp_path)
    assert parts(layout) == {
        "train/run/a.AVI": "train",
        "train/walk/deep/b.mov": "train",
        "test/run/c.webm": "test",
    }
    assert layout.classes == ["run", "walk"]


def test_ignored_files_and_notes(tmp_path):
    touch(
        tmp_path,
        "run/a.mp4",
        "run/b.mp4",
        "run/c.mp4",
        "run/readme.txt",
        "walk/a.mp4",
        "list.csv",
        ".cache/x.mp4",
    )
    (tmp_path / "jump").mkdir()
    layout = find_clips(tmp_path, test_fraction=0.5)
    assert sorted(name.rsplit("/", 1)[1] for name in layout.ignored) == ["list.csv", "readme.txt"]
    assert any("jump holds no videos" in note for note in layout.notes)
    assert any("1 class(es) have too few videos for a test part: walk" in note for note in layout.notes)
    assert parts(layout)["walk/a.mp4"] == "train"


def test_folders_without_videos_raise(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"`videos` must be an existing folder of videos; got .*missing"
    ):
        find_clips(tmp_path / "missing")
    touch(tmp_path, "run/a.docx")
    with pytest.raises(ValueError, match=r"holds no videos. Expected files with suffix .3gp, .avi"):
        find_clips(tmp_path)
    touch(tmp_path, "loose.mp4")
    with pytest.raises(
        ValueError, match=r"holds 1 video\(s\) outside class folders, such as loose.mp4. Create one"
    ):
        find_clips(tmp_path)
    with pytest.raises(ValueError, match=r"`dataset` must be one of 'folder', .* Did you mean 'ucf101'"):
        find_clips(tmp_path, "ucf10")


@pytest.fixture
def ucf(tmp_path):
    lists = tmp_path / "ucfTrainTestlist"
    lists.mkdir()
    (lists / "classInd.txt").write_text("1 Archery\n2 Bowling")
    (lists / "trainlist01.txt").write_text("Archery/v_Archery_g08_c01.avi 1\nBowling/v_Bowling_g09_c01.avi 2")
    (lists / "testlist01.txt").write_text("Bowling/v_Bowling_g01_c01.avi")
    return tmp_path


@pytest.mark.parametrize("where", ["Archery/{}", "{}"])
def test_listed_videos_are_found_in_class_folders_or_in_one_folder(ucf, where):
    touch(ucf / "videos", where.format("v_Archery_g08_c01.avi"), "Bowling/v_Bowling_g01_c01.avi", "other.avi")
    layout = find_clips(ucf / "videos", "ucf101", split=1)  # the lists are in the parent folder
    assert [(clip.label, clip.part, clip.group) for clip in layout.clips] == [
        ("Archery", "train", "g08"), ("Bowling", "test", "g01"),
    ]  # fmt: skip
    assert layout.missing == ["Bowling/v_Bowling_g09_c01.avi"]
    assert [name.rsplit("/", 1)[1] for name in layout.ignored] == ["other.avi"]
    assert any("1 of 3 listed videos are not in" in note for note in layout.notes)


def test_equal_file_names_in_two_classes_are_distinguished_by_folder(tmp_path):
    for label in ("run", "walk"):
        (tmp_path / f"{label}_test_split1.txt").write_text("same.avi 1")
    touch(tmp_path, "run/same.avi", "walk/same.avi")
    layout = find_clips(tmp_path, "hmdb51")
    assert [(clip.label, clip.name) for clip in layout.clips] == [
        ("run", "run/same.avi"),
        ("walk", "walk/same.avi"),
    ]


def test_missing_lists_raise(ucf, tmp_path):
    touch(tmp_path / "far" / "videos", "v_Archery_g08_c01.avi")
    with pytest.raises(FileNotFoundError, match=r"official lists of ucf101 .* Set `splits` to their folder"):
        find_clips(tmp_path / "far" / "videos", "ucf101")
    with pytest.raises(
        FileNotFoundError, match=r"`splits` must be the existing folder of the official lists"
    ):
        find_clips(tmp_path / "far" / "videos", "ucf101", splits=tmp_path / "none")
    with pytest.raises(ValueError, match=r"`split` must be in \[1, 3\]; got 4"):
        find_clips(tmp_path / "far" / "videos", "ucf101", split=4)
    with pytest.raises(TypeError, match=r"`split` must be an integer; got '2.1'"):
        find_clips(tmp_path / "far" / "videos", "hmdb51", split="2.1")


def test_siw_protocols(tmp_path):
    touch(
        tmp_path,
        "Train/live/003/003-1-1-1-1.mov", "Train/live/003/003-1-1-1-1.face",
        "Train/spoof/003/003-1-2-1-1.mov", "Test/live/002/002-1-1-1-1.mp4", "Test/spoof/002/002-1-3-4-1.mov",
    )  # fmt: skip
    layout = find_clips(tmp_path, "siw")
    assert [(clip.label, clip.part, clip.group) for clip in layout.clips] == [
        ("live", "train", "003"), ("spoof", "train", "003"),
        ("live", "test", "002"), ("spoof", "test", "002"),
    ]  # fmt: skip
    assert not layout.ignored
    unused = find_clips(tmp_path, "siw", split="2.4").ignored
    assert [name.rsplit("/", 1)[1] for name in unused] == ["003-1-2-1-1.mov"]
    with pytest.raises(ValueError, match=r"`split` must be one of '1', '2.1', .* got '4'"):
        find_clips(tmp_path, "siw", split=4)
