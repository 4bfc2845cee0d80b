import io
import sys

import pytest

from stopwise import progress
from stopwise.progress import Reporter


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """A clock whose time the test sets."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def report(show, steps=3, total=3):
    with Reporter("training", total, show) as reporter:
        for i in range(steps):
            reporter.advance(f"loss {i}")


@pytest.mark.parametrize("show", [False, "auto"])
def test_nothing_is_printed_without_a_terminal_by_default(capsys, show):
    report(show)
    assert capsys.readouterr() == ("", "")


def test_the_last_step_is_printed_without_a_terminal(capsys):
    report(True)
    assert capsys.readouterr() == ("", "training: 3/3 loss 2\n")


def test_a_line_is_printed_every_ten_seconds(capsys, clock):
    with Reporter("training", 30, True) as reporter:
        for i in range(25):
            clock.now += 1
            reporter.advance(f"loss {i + 1}")
    assert capsys.readouterr().err.splitlines() == [
        "training: 10/30 (20 s left) loss 10",
        "training: 20/30 (10 s left) loss 20",
        "training: 25/30 loss 25",  # the task ended before its last step
    ]


def test_nothing_is_printed_when_the_task_fails(capsys):
    def fail():
        with Reporter("training", 3, True) as reporter:
            reporter.advance("loss 0")
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        fail()
    assert capsys.readouterr().err == ""


def test_several_steps_can_be_counted_at_once(capsys):
    with Reporter("training", 5, True) as reporter:
        reporter.advance(steps=0)
        reporter.advance(steps=4)
        reporter.advance("loss 4")
    assert capsys.readouterr().err == "training: 5/5 loss 4\n"


@pytest.mark.parametrize("show", [True, "auto"])
def test_a_bar_is_shown_on_a_terminal(monkeypatch, show):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    report(show, steps=2)
    assert "training" in sys.stderr.getvalue()
    assert "2/3" in sys.stderr.getvalue()
    assert "loss 1" in sys.stderr.getvalue()


def test_no_bar_is_shown_if_progress_is_false(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    report(False)
    assert sys.stderr.getvalue() == ""


def test_invalid_progress_raises():
    with pytest.raises(ValueError, match="`progress` must be True, False or 'auto'; got 'always'"):
        report("always")


def test_skipped_steps_are_excluded_from_the_estimate_of_time_left(capsys, clock):
    with Reporter("runs", 100, True) as reporter:
        reporter.skip(80)
        clock.now += 60
        reporter.advance()
    assert capsys.readouterr().err == "runs: 81/100 (19 min left)\n"


def test_no_time_left_is_estimated_before_the_first_step(capsys, clock):
    with Reporter("tuning", 10, True) as reporter:
        clock.now = 20.0
        reporter.advance("epoch 1", steps=0)
        clock.now = 40.0
        reporter.advance("", steps=1)
    assert capsys.readouterr().err == "tuning: 0/10 epoch 1\ntuning: 1/10 (6 min left)\n"
