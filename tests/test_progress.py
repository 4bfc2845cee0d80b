import io
import sys

import pytest

from stopwise import progress
from stopwise.progress import Reporter, Stages


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


def test_stages_share_one_estimate_of_time_left(capsys, clock):
    with Stages({"search": 1, "training": 4}, True) as stages:
        with stages.stage("search", 2) as stage:
            clock.now += 20
            stage.advance("order 0")  # a tenth of the whole
        with stages.stage("training", 4) as stage:
            clock.now += 20
            stage.advance("loss 1")
    assert capsys.readouterr().err.splitlines() == [
        "search: 1/2 (3 min left) order 0",
        # The rest of the search took no time: 40 s for 0.5 + 1 of the shares, and 3 are left.
        "training: 1/4 (1 min left) loss 1",
    ]


def test_stage_that_ends_early_counts_as_done(capsys, clock):
    with Stages({"training": 1, "polishing": 1}, True) as stages:
        with stages.stage("training", 100) as stage:
            clock.now += 30
            stage.advance("loss 1", steps=50)
        with stages.stage("polishing", 2) as stage:
            clock.now += 15
            stage.advance("ridge")
    assert capsys.readouterr().err.splitlines() == [
        "training: 50/100 (2 min left) loss 1",
        "polishing: 1/2 (22 s left) ridge",
    ]


def test_stage_planned_later_extends_the_estimate(capsys, clock):
    with Stages({"training": 1}, True) as stages:
        stages.plan("trial", 1)
        with stages.stage("trial", 1) as stage:
            clock.now += 30
            stage.advance("loss 1")
    assert capsys.readouterr().err == "trial: 1/1 (30 s left) loss 1\n"


def test_stages_have_one_bar_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with Stages({"search": 1, "training": 4}, "auto") as stages:
        for name in ("search", "training"):
            with stages.stage(name, 3) as stage:
                stage.advance("loss 1", steps=2)
        assert len(stages._bar.tasks) == 1
        assert stages._bar.tasks[0].completed == pytest.approx(1 + 4 * 2 / 3)
    assert "training" in sys.stderr.getvalue()
    assert "2/3" in sys.stderr.getvalue()


@pytest.mark.parametrize("show", [True, "auto"])
@pytest.mark.parametrize("widgets", [True, False])
def test_notebook_shows_a_bar_if_widgets_are_installed_and_lines_otherwise(
    monkeypatch, capsys, show, widgets
):
    monkeypatch.setattr(progress, "_is_notebook", lambda: True)
    monkeypatch.setattr(progress, "find_spec", lambda name: object() if widgets else None)
    stages = Stages({"training": 1}, show)
    assert (stages._bar is not None) == widgets
    with stages.stage("training", 1) as stage:
        stage.advance("loss 1")
    assert capsys.readouterr().err == ("" if widgets else "training: 1/1 loss 1\n")


def test_notebook_shows_nothing_if_progress_is_false(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_is_notebook", lambda: True)
    report(False)
    assert capsys.readouterr() == ("", "")
