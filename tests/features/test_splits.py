"""Reading official splits: small examples, and the real lists if they are available."""

import os
from pathlib import Path

import pytest

from stopwise.features.splits import SIW_SPLITS, Entry, read_hmdb51, read_ucf101, siw_entry

REAL = Path(os.environ.get("STOPWISE_DATA", "")) / "video" / "splits"
needs_real = pytest.mark.skipif(
    not (os.environ.get("STOPWISE_DATA") and REAL.is_dir()), reason="STOPWISE_DATA has no video/splits"
)


@pytest.fixture
def ucf(tmp_path):
    (tmp_path / "classInd.txt").write_bytes(b"1 Archery\r\n2 Bowling\r\n")
    (tmp_path / "trainlist02.txt").write_bytes(
        b"Archery/v_Archery_g08_c01.avi 1\r\nBowling/v_Bowling_g25_c03.avi 2\r\n\r\n"
    )
    (tmp_path / "testlist02.txt").write_bytes(b"Bowling/v_Bowling_g01_c01.avi\r\n")
    return tmp_path


def test_ucf101_lists_are_read_in_the_published_format(ucf):
    assert read_ucf101(ucf, 2) == [
        Entry("v_Archery_g08_c01.avi", "Archery", "train", "g08"),
        Entry("v_Bowling_g25_c03.avi", "Bowling", "train", "g25"),
        Entry("v_Bowling_g01_c01.avi", "Bowling", "test", "g01"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "Archery/v_Archery_g08_c01.avi 2",
            "line 1: class Archery has index 1 in classInd.txt but '2' here",
        ),
        (
            "Chess/v_Chess_g08_c01.avi 1",
            "line 1: expected Class/v_Class_gNN_cNN.avi with a class from classInd",
        ),
        ("Archery/holiday.avi 1", "line 1: expected Class/v_Class_gNN_cNN.avi with a class from classInd"),
        ("Bowling/v_Bowling_g01_c01.avi 2", "g01_c01.avi is listed twice, for train and for test"),
    ],
)
def test_invalid_line_of_a_ucf101_list_raises(ucf, line, message):
    (ucf / "trainlist02.txt").write_text(line)
    with pytest.raises(ValueError, match=message):
        read_ucf101(ucf, 2)


def test_missing_ucf101_list_raises(ucf):
    with pytest.raises(FileNotFoundError, match=r"trainlist03.txt does not exist. Set `splits`"):
        read_ucf101(ucf, 3)


def test_hmdb51_marks_define_the_parts(tmp_path):
    lines = "A_ride_bike_f_0.avi 1 \nB_ride_bike_f_1.avi 2 \nC_ride_bike_f_2.avi 0 \n"
    (tmp_path / "ride_bike_test_split1.txt").write_text(lines)
    (tmp_path / "ride_bike_test_split2.txt").write_text("A_ride_bike_f_0.avi 2")
    (tmp_path / "class_list.txt").write_text("ride_bike")
    assert read_hmdb51(tmp_path, 1) == [
        Entry("A_ride_bike_f_0.avi", "ride_bike", "train", "A"),
        Entry("B_ride_bike_f_1.avi", "ride_bike", "test", "B"),
    ]
    with pytest.raises(FileNotFoundError, match=r"no files <class>_test_split3.txt"):
        read_hmdb51(tmp_path, 3)
    (tmp_path / "run_test_split1.txt").write_text("ok_run_0.avi 1\nbad_run_0.avi 3")
    with pytest.raises(
        ValueError, match=r"run_test_split1.txt, line 2: expected a video and its mark, 1 \(train"
    ):
        read_hmdb51(tmp_path, 1)


def test_siw_paths_define_class_part_and_subject():
    live = siw_entry(Path("Test/live/002/002-1-1-2-1.mov"), "1")
    assert live == Entry("002-1-1-2-1.mov", "live", "test", "002")
    for split in SIW_SPLITS:
        assert siw_entry(Path("Train/live/003/003-1-1-1-1.mov"), split) is not None


def test_siw_protocols_select_attacks():
    def used(part, kind, medium, split):
        return siw_entry(Path(f"{part}/spoof/003/003-1-{kind}-{medium}-1.mov"), split) is not None

    assert used("Train", 2, 1, "1")
    assert used("Test", 3, 4, "1")
    # Protocol 2: one replay medium for testing, the other three for training, no print attacks.
    assert [used("Train", 3, m, "2.2") for m in (1, 2, 3, 4)] == [True, False, True, True]
    assert [used("Test", 3, m, "2.2") for m in (1, 2, 3, 4)] == [False, True, False, False]
    assert not used("Train", 2, 1, "2.2")
    assert not used("Test", 2, 2, "2.2")
    # Protocol 3: print attacks for training and replays for testing, or the reverse.
    assert [used("Train", kind, 1, "3.1") for kind in (2, 3)] == [True, False]
    assert [used("Test", kind, 1, "3.1") for kind in (2, 3)] == [False, True]
    assert [used("Train", kind, 1, "3.2") for kind in (2, 3)] == [False, True]
    assert [used("Test", kind, 1, "3.2") for kind in (2, 3)] == [True, False]


def test_paths_that_do_not_follow_siw_raise():
    with pytest.raises(ValueError, match=r"SiW has two folders, Train and Test"):
        siw_entry(Path("live/003/003-1-1-1-1.mov"), "1")
    with pytest.raises(
        ValueError, match=r"with type 1, 2 or 3, such as 003-1-1-1-1.mov; got '003-1-7-1-1.mov'"
    ):
        siw_entry(Path("Train/live/003/003-1-7-1-1.mov"), "1")


@needs_real
@pytest.mark.parametrize(("number", "train", "test"), [(1, 9537, 3783), (2, 9586, 3734), (3, 9624, 3696)])
def test_real_ucf101_splits(number, train, test):
    entries = read_ucf101(REAL / "ucf101", number)
    assert [sum(e.part == part for e in entries) for part in ("train", "test")] == [train, test]
    assert len({e.label for e in entries}) == 101
    groups = {part: {(e.label, e.group) for e in entries if e.part == part} for part in ("train", "test")}
    assert not groups["train"] & groups["test"]
    assert {e.group for e in entries} == {f"g{g:02d}" for g in range(1, 26)}


@needs_real
@pytest.mark.parametrize("number", [1, 2, 3])
def test_real_hmdb51_splits(number):
    entries = read_hmdb51(REAL / "hmdb51", number)
    assert [sum(e.part == part for e in entries) for part in ("train", "test")] == [3570, 1530]
    assert len({e.label for e in entries}) == 51
    if number == 1:
        lines = sum(len(p.read_text().split("\n")) - 1 for p in (REAL / "hmdb51").glob("*_split1.txt"))
        assert lines - len(entries) == 1666
