"""Which tensors the numba kernels serve, and how their work is shared by threads.

Importing numba takes half a second, so that happens on first use. Where numba has no build for a new Python
yet, the plain torch forms run in place of the kernels.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

WORTH_A_THREAD = 1 << 16  # elements: below that, waking a thread costs more than it saves


def kernels_for(name: str, *tensors: Tensor) -> ModuleType | None:
    """Return the kernels in the module of that name beside this one, or None where plain torch must do.

    Kernels exist for float32 and float64 tensors (all of one type) on the CPU, if numba is installed.
    """
    first = tensors[0]
    if first.dtype not in (torch.float32, torch.float64):
        return None
    if any(tensor.device.type != "cpu" or tensor.dtype != first.dtype for tensor in tensors):
        return None
    return import_module(f"stopwise.models.networks.kernels.{name}") if numba_is_there() else None


@cache
def numba_is_there() -> bool:
    """Whether numba can be imported."""
    try:
        import_module("numba")
    except ImportError:
        return False
    return True


def in_threads(kernel: Callable[..., None], rows: int, row_size: int, *arguments: Any) -> None:
    """Call kernel(start, stop, *arguments) on parts of range(rows), as many at a time as torch has threads.

    The kernel must release the lock of the interpreter and treat each row by itself, so that the parts
    change nothing in the outcome. Threads of our own and not numba's: its pool does not survive a fork,
    and parallel kernels take seconds to compile.

    Parameters
    ----------
    kernel
        Called in several threads.
    rows
        How many rows there are.
    row_size
        Elements the kernel visits in a row: small work stays in one thread.
    """
    threads = torch.get_num_threads()
    parts = min(rows, rows * row_size // WORTH_A_THREAD, 4 * threads)
    if threads == 1 or parts < 2:
        kernel(0, rows, *arguments)
        return
    waiting = deque(pairwise([rows * part // parts for part in range(parts + 1)]))

    def work() -> None:
        # First come, first served: torch's own threads keep a core busy for some milliseconds after use.
        while True:
            try:
                start, stop = waiting.popleft()
            except IndexError:
                return
            kernel(start, stop, *arguments)

    others = [_pool(os.getpid()).submit(work) for _ in range(threads - 1)]
    work()
    for other in others:
        if not other.cancel():
            other.result()


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process: a fork needs its own."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="stopwise")
