"""Signals are raised while the program waits, or when they are repeated."""

import os
import signal

import pytest

from stopwise.cli.interrupts import ENDING, Interrupted, Interrupts


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.usefixtures("default_signals")
def test_a_signal_during_work_is_raised_at_the_next_wait(number):
    done = False
    with Interrupts() as interrupts:
        send(number)
        done = True  # the work continues
        with pytest.raises(Interrupted) as raised, interrupts.waiting():
            raise AssertionError("there is no time to wait")
    assert done
    assert (raised.value.number, raised.value.at_once) == (number, False)


@pytest.mark.usefixtures("default_signals")
def test_a_signal_during_a_wait_is_raised_at_once():
    with Interrupts() as interrupts, pytest.raises(Interrupted) as raised, interrupts.waiting():
        send(signal.SIGTERM)
    assert not raised.value.at_once


@pytest.mark.usefixtures("default_signals")
def test_a_repeated_signal_ends_the_work():
    with Interrupts():
        send(signal.SIGTERM)
        with pytest.raises(Interrupted) as raised:
            send(signal.SIGTERM)
    assert raised.value.at_once


def test_the_handlers_are_restored_and_ignored_signals_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts():
            send(signal.SIGHUP)
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
