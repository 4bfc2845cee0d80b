"""Functions in processes of their own: results, exceptions and killed processes."""

import os

from stopwise.experiments.own_process import THREADS, divmod_of, in_own_process, limit_threads


def test_results_exceptions_and_killed_processes():
    assert in_own_process(divmod_of, a=7, b=2) == [3, 1]
    assert in_own_process(divmod_of, a=7, b=0)["failed"].startswith("ZeroDivisionError")
    killed = in_own_process(os._exit, status=7)
    assert killed == {"failed": "the process ended with code 7"}


def test_each_process_gets_its_share_of_the_cores(monkeypatch):
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setenv(THREADS[0], "3")
    limit_threads(2)
    assert [os.environ[name] for name in THREADS] == ["3", "4", "4", "4"]
