"""Tests of the figures of fits, with sizes that take seconds. Their values are not checked."""

import os
import subprocess

import numpy as np
import pytest
import torch

from stopwise.bench import fitting
from stopwise.models.networks.training import threads


@pytest.fixture(autouse=True)
def small(monkeypatch):
    gaussian, fit = fitting.gaussian, fitting._fit

    def few(n, **options):
        if n == fitting.LARGEST:  # must have the shape of the baseline
            return gaussian(60, **options)
        return gaussian(30, **options | {"channels": 2, "length": 3})

    fitting._default_fit_seconds.cache_clear()

    def short(X, y, **params):
        training = fitting.models.Training(max_epochs=2)
        return fit(X, y, **{"hidden": 4, "training": training, "polish": "order" not in params} | params)

    monkeypatch.setattr(fitting, "gaussian", few)
    monkeypatch.setattr(fitting, "_fit", short)
    monkeypatch.setattr(fitting, "LARGEST", 1000)
    monkeypatch.setattr(fitting, "TURNS", 1)


@pytest.mark.parametrize(
    "work",
    [work for work in fitting.FITTING if work is not fitting.demo_busy],
    ids=lambda work: work.__name__,
)
def test_figure_is_measured(work):
    figure = work()
    assert np.isfinite(figure.value)
    assert (figure.better, figure.unit) == ("lower", "×")
    assert figure.aim <= figure.bar
    assert " s; baseline " in figure.note


def test_parts_of_the_default_fit_are_timed_by_its_epochs(monkeypatch):
    clock, fits = [0.0], []

    def fit(X, y, on_epoch=None, **params):
        fits.append(params["order"])
        if on_epoch is not None:
            clock[0] += 5.0  # the search
            for _ in range(3):
                clock[0] += 2.0
                on_epoch(None, {})
            clock[0] += 7.0  # the polish

    monkeypatch.setattr(fitting, "_fit", fit)
    monkeypatch.setattr(fitting, "perf_counter", lambda: clock[0])
    assert fitting.default_fit().value == pytest.approx(18 / 13)
    assert fitting.polish_time().value == pytest.approx(7 / 6)
    assert fits == ["auto", "auto"]  # the first one is a warm-up; the second serves both figures


def test_thread_settings_are_restored():
    before = torch.get_num_threads(), threads.WORTH_THREADS
    fitting.small_fit_threads()
    assert (torch.get_num_threads(), threads.WORTH_THREADS) == before


def test_demo_is_run_idle_and_busy(monkeypatch):
    seconds = iter([4.0, 8.0])
    monkeypatch.setattr(fitting, "_demo_seconds", lambda: next(seconds))
    assert fitting.demo_busy().value == 2.0


def test_busy_process_ends(monkeypatch):
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        fitting.subprocess, "Popen", lambda *given: started.append(popen(*given)) or started[-1]
    )
    with fitting.busy_process():
        assert started[0].poll() is None
        os.kill(started[0].pid, 0)
    assert started[0].poll() is not None
