"""Measure the time of two functions relative to each other, and peak memory in a child process.

Timings are noisy, so the two functions run alternately: a temporary slowdown of the machine then affects
both. The result is the median, with quartiles, of the ratios of adjacent runs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

Work = Callable[[], object]


@dataclass(frozen=True)
class Figure:
    """One measured figure of the benchmark.

    Parameters
    ----------
    name
        Title of the figure.
    value
        The median.
    low, high
        The quartiles.
    bar, aim
        The required value and the desired value.
    better
        "lower" or "higher".
    unit
        "×" for ratios, "MB" for memory, "s" or "ms" for times.
    note
        The absolute values behind a ratio.
    """

    name: str
    value: float
    low: float
    high: float
    bar: float
    aim: float
    better: str
    unit: str = "×"
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether the required value is reached."""
        return self.reaches(self.bar)

    def reaches(self, mark: float) -> bool:
        """Return whether the value is at least as good as `mark`."""
        return self.value <= mark if self.better == "lower" else self.value >= mark


def race(ours: Work, baseline: Work, *, turns: int, warm_up: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Run both functions alternately and return the seconds of each, both (turns,)."""
    for _ in range(warm_up):
        ours()
        baseline()
    seconds = np.array([(_seconds(ours), _seconds(baseline)) for _ in range(turns)])
    return seconds[:, 0], seconds[:, 1]


def quartiles(values: np.ndarray) -> tuple[float, float, float]:
    """Return the median and the quartiles.

    Examples
    --------
    >>> quartiles(np.array([1.0, 2.0, 3.0]))
    (2.0, 1.5, 2.5)
    """
    low, middle, high = np.percentile(values, [25, 50, 75])
    return float(middle), float(low), float(high)


def child_peak_megabytes(setup: str, work: str) -> float:
    """Return the peak memory of `work` minus the memory in use after `setup`, in a new process.

    Works only on Linux. The peak is reset before `work`, because a process inherits the peak of its parent.
    """
    code = f"""
def kilobytes(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))

{setup}
with open("/proc/self/clear_refs", "w") as refs:
    refs.write("5")
before = kilobytes("VmRSS")
{work}
print((kilobytes("VmHWM") - before) / 1024)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"the memory benchmark failed in its child process:\n{run.stderr}")
    return float(run.stdout.split()[-1])


def _seconds(work: Work) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start
