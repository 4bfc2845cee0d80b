"""Timing two things against each other, and peak memory in a child process.

Machines are noisy: the two take turns, so that a slow spell hits both, and what is reported is the median of
the ratios of neighbouring turns with its quartiles.
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
    """One line of the benchmark.

    Parameters
    ----------
    name
        What was measured.
    value
        The median.
    low, high
        Its quartiles.
    bar, aim
        What it must reach, and what we would like.
    better
        "lower" or "higher".
    unit
        "×" for ratios, "MB" for memory.
    note
        Absolute figures behind a ratio.
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
        """Whether the bar is reached."""
        return self.reaches(self.bar)

    def reaches(self, mark: float) -> bool:
        """Whether the value is as good as `mark`."""
        return self.value <= mark if self.better == "lower" else self.value >= mark


def race(ours: Work, yardstick: Work, *, turns: int, warm_up: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds (turns,) that each takes, run in turns."""
    for _ in range(warm_up):
        ours()
        yardstick()
    seconds = np.array([(_seconds(ours), _seconds(yardstick)) for _ in range(turns)])
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
    """Return how far `work` lifts the peak memory of a fresh process above where `setup` left it.

    Linux only. The peak is reset first: a process starts with that of the one that made it.
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
        raise RuntimeError(f"The memory benchmark failed:\n{run.stderr}")
    return float(run.stdout.split()[-1])


def _seconds(work: Work) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start
